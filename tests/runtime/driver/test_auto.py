"""The target `auto`, with times of the host as the tests say: what is taken, and what is said."""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

import lockstep
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from tests.support.networks import detours_graph
from bench.accelerator.partition import cheapest
from compiler.graph import Graph, evaluate
from compiler.graph.division.partition import ACCEL, HOST, Target
from compiler.graph.division.placement import PinRefused, moves
from runtime import Module, SimulatedDevice, compile_graph
from runtime.driver import auto
from runtime.driver.auto import Choice, choose
from runtime.driver.costs import Pricing
from runtime.pricing.link import Link
from runtime.pricing.prices import AccelPrices
from runtime.driver.targets import Targets, accelerator
from tests.support.integer_graphs import Net
from tests.support.machines import SHORT, TINY

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits-int8.onnx"


def always(seconds: float) -> Callable:
    """A node on the host takes so long; what is measured is done once, to see that it can be."""
    def measure(what: str, run: Callable[[], object]) -> float:
        run()
        return seconds * int(what.split()[2]) if what.startswith("segment") else 0.0
    return measure


def by_name(what: str, run: Callable[[], object]) -> float:
    """Different times for different things, the same in every run."""
    return 1e-6 * (1 + crc32(what.encode()) % 40)


def pricing_of(graph: Graph, measure, machine=TINY, link: Link | None = None) -> Pricing:
    return Pricing(graph, Targets([accelerator(machine, link=link or Link())]), measure)


def accel_prices(pricing: Pricing) -> AccelPrices:
    found = pricing.prices[ACCEL]
    assert isinstance(found, AccelPrices)
    return found


def residual(seed: int = 1) -> Graph:
    """A residual block with float arithmetic of the host between its layers."""
    net = Net(seed)
    x = net.conv(net.input(1, 4, 6, 6), 4, (1, 1))
    y = net.add_node("quantize", net.add_node("relu", net.add_node(
        "dequantize", x, scale=0.5, zp=-4)), scale=0.5, zp=3)
    return net.graph(net.add(net.conv(y, 4, (3, 3), pads=(1, 1, 1, 1)), x))


def convolutions_and_detours() -> Graph:
    """Six convolutions, then small operators between those of the host."""
    net = Net(4)
    x = net.input(1, 4, 6, 6)
    for _ in range(6):
        x = net.conv(x, 4, (1, 1))
    for _ in range(2):
        x = net.rescale(net.add_node("quantize", net.add_node(
            "dequantize", x, scale=0.5, zp=-4), scale=0.5, zp=3))
    return net.graph(net.add_node("dequantize", x, scale=0.5, zp=1))


def device_of(machine=TINY) -> SimulatedDevice:
    return SimulatedDevice(machine, cycle.simulate)


def run_right(module: Module) -> None:
    rng = np.random.default_rng(3)
    given = {name: rng.integers(-128, 128, module.graph.values[name].shape).astype(np.int8)
             for name in module.graph.inputs}
    for name, array in given.items():
        module.set_input(name, array)
    module.run()
    for name, wanted in evaluate(module.graph, given).items():
        np.testing.assert_array_equal(module.get_output(name), wanted)


def test_greedy_loses_where_copies_and_starts_cost_more_than_the_operator() -> None:
    """Three small operators of the accelerator, each between operators of the host."""
    choice = choose(pricing_of(detours_graph(), always(10e-6)))
    assert choice.name == "host"
    assert choice.candidates["greedy"] > 1.2 * choice.price.seconds
    assert [one.target for one in choice.price.partition.segments] == [HOST]


def test_a_slow_host_leaves_all_to_the_accelerator() -> None:
    choice = choose(pricing_of(residual(), always(1.0)))
    assert choice.name == "greedy"
    assert [one.target for one in choice.price.partition.segments] == [ACCEL, HOST, ACCEL]


def test_a_proposal_beats_both_where_some_layers_are_worth_the_way() -> None:
    """Six convolutions are; a small operator between those of the host is not."""
    choice = choose(pricing_of(convolutions_and_detours(), always(10e-6)))
    assert choice.name == "proposal 1"
    assert choice.price.seconds < min(choice.candidates["greedy"], choice.candidates["host"])
    first, rest = choice.price.partition.segments
    assert (first.target, len(first.nodes), rest.target) == (ACCEL, 6, HOST)


def test_what_a_segment_of_the_host_takes_corrects_the_estimates_of_its_nodes() -> None:
    """By themselves the nodes seem to cost nothing there, so that all would be better off."""
    def together(what: str, run: Callable[[], object]) -> float:
        nodes = int(what.split()[2]) if what.startswith("segment") else 0
        return 10e-6 * nodes if nodes > 1 else 0.1e-6 * nodes

    choice = choose(pricing_of(convolutions_and_detours(), together))
    assert choice.price.seconds < min(choice.candidates["greedy"], choice.candidates["host"])
    assert {one.target for one in choice.price.partition.segments} == {HOST, ACCEL}


def a_whim(seed: int) -> Callable:
    """Times that no estimate foresees: of each segment another one."""
    def measure(what: str, run: Callable[[], object]) -> float:
        return 1e-6 * (1 + crc32(f"{seed} {what}".encode()) % 200)
    return measure


def moved_prices(pricing: Pricing, targets: dict[str, Target]) -> list[float]:
    """The price of every division that differs by one node, one layer or one segment."""
    options: dict[str, list[Target]] = {
        node.name: [one for one in pricing.targets if pricing.refusal(node, one) is None]
        for node in pricing.graph.nodes}
    return [pricing.division(pricing.divided(other, {})).seconds
            for other in moves(pricing.graph, targets, options, pricing)]


def targets_of(choice: Choice) -> dict[str, Target]:
    names = {node.name for node in choice.pricing.graph.nodes}
    return {node.name: one.target for one in choice.price.partition.segments
            for node in one.nodes if node.name in names}


@pytest.mark.parametrize("seed", range(3))
def test_no_move_of_a_node_a_layer_or_a_segment_is_cheaper(seed: int, monkeypatch) -> None:
    """Here no estimate is trusted, so every move is priced."""
    monkeypatch.setattr(auto, "DOUBT", float("inf"))
    pricing = pricing_of(residual(), a_whim(seed), link=Link(start_seconds=2e-6))
    choice = choose(pricing)
    prices = moved_prices(pricing, targets_of(choice))
    assert len(prices) >= 3
    assert choice.price.seconds <= min(prices) * (1 + 1e-9)


def test_a_move_that_pays_is_taken(monkeypatch) -> None:
    """No estimate proposes it: five nodes of the host take less time than each by itself."""
    def measure(what: str, run: Callable[[], object]) -> float:
        nodes = int(what.split()[2]) if what.startswith("segment") else 0
        return 1e-6 * {0: 0, 1: 10, 5: 1, 6: 60}.get(nodes, 200)

    monkeypatch.setattr(auto, "DOUBT", 1.0)
    choice = choose(pricing_of(residual(), measure, link=Link(start_seconds=2e-6)))
    assert choice.name == "move 1" and choice.candidates["host"] == pytest.approx(60e-6)
    assert choice.price.seconds == min(choice.candidates.values()) < 59e-6


def test_moves_that_promise_nothing_are_not_compiled() -> None:
    pricing = pricing_of(residual(), always(1.0))
    choose(pricing)
    assert len(accel_prices(pricing).simulated) == 2      # those of greedy


@pytest.mark.parametrize("start", [0.0, 5e-6, 20e-6])
def test_no_division_of_a_small_network_is_cheaper_by_a_twentieth(start: float) -> None:
    pricing = pricing_of(residual(), by_name, link=Link(start_seconds=start))
    choice = choose(pricing)
    best, _, count = cheapest(pricing, choice.price.seconds)
    assert count == 8 and choice.price.seconds <= 1.05 * best
    assert choice.price.seconds <= min(choice.candidates["greedy"], choice.candidates["host"])


def test_the_chosen_division_computes_the_network() -> None:
    for graph, machine in ((residual(), TINY), (detours_graph(4, 1), TINY)):
        pricing = pricing_of(graph, by_name, machine, Link(start_seconds=0, latency_seconds=0))
        run_right(compile_graph(graph, AccelTarget(machine), device_of(machine), pricing=pricing))


def test_prices_are_cycles_times_and_copies() -> None:
    link = Link(bytes_per_second=1e6, latency_seconds=1e-3, start_seconds=1e-2)
    pricing = pricing_of(residual(), always(1e-4), link=link)
    graph = pricing.graph
    targets: dict[str, Target] = {node.name: HOST if pricing.refusal(node, ACCEL) else ACCEL
                                  for node in graph.nodes}
    parts = pricing.divided(targets, {})
    price = pricing.division(parts)
    module = compile_graph(graph, AccelTarget(TINY), device_of())
    module.set_input("x", np.zeros((1, 4, 6, 6), np.int8))
    cycles = sum(run.cycles for run in module.run())
    assert len(parts.copies) == 4           # the input, the skip, the float result, the output
    wanted = (cycles / (TINY.config.clock_mhz * 1e6) + 2 * 1e-2 + 3e-4      # two starts
              + 4 * (1e-3 + 4 * 36 / 1e6))
    assert price.seconds == pytest.approx(wanted)


def test_estimates_of_the_accelerator_add_up_to_its_cycles() -> None:
    net = Net(2)
    x = net.conv(net.input(1, 4, 8, 8), 8, (3, 3))
    graph = net.graph(net.rescale(net.add(x, net.max_pool(x, (3, 3), (1, 1), (1, 1, 1, 1)))))
    pricing = pricing_of(graph, always(1.0))
    price = choose(pricing).price
    total = sum(pricing.node(node, ACCEL) or 0 for node in graph.nodes)
    (segment,) = price.partition.segments
    assert segment.target == ACCEL
    cycles = total * TINY.config.clock_mhz * 1e6 + accel_prices(pricing).overhead_cycles
    assert cycles == pytest.approx(sum(getattr(step, "cycles", 0) for step in price.steps))


def test_pins_hold() -> None:
    graph = residual()
    names = [node.name for node in graph.nodes if node.op in ("qconv2d", "qadd")]
    against: list[tuple[float, Target]] = [(1.0, HOST), (1e-9, ACCEL)]
    for name, (seconds, target) in product(names, against):
        pricing = pricing_of(graph, always(seconds))
        choice = choose(pricing, {name: target})
        where = {node.name: one.target for one in choice.price.partition.segments
                 for node in one.nodes}
        assert where[name] == target
        if target == HOST:
            assert choice.price.partition.reasons[name] == "it is pinned to the host"
        run_right(compile_graph(graph, AccelTarget(TINY), device_of(), {name: target}, pricing))


def test_an_operator_is_pinned_where_the_accelerator_gets_all_else() -> None:
    graph = residual()
    module = compile_graph(graph, AccelTarget(TINY), device_of(), {"qconv2d": HOST})
    assert [[node.op for node in one.nodes] for one in module.partition.segments
            if one.target == ACCEL] == [["qadd"]]
    run_right(module)


def test_a_pin_that_cannot_be_is_refused() -> None:
    for pricing in (None, pricing_of(residual(), always(1e-6))):
        with pytest.raises(PinRefused) as refusal:
            compile_graph(residual(), AccelTarget(TINY), device_of(), {"relu": ACCEL}, pricing)
        assert str(refusal.value) == ("relu_2 (relu) must not be pinned to accel: the accelerator "
                                      "has no operator relu")


def test_every_layer_on_the_host_says_why() -> None:
    choice = choose(pricing_of(residual(), always(1e-6)))
    reasons = choice.price.partition.reasons
    assert reasons["relu_2"] == "the accelerator has no operator relu"
    assert set(reasons) == {node.name for node in choice.pricing.graph.nodes}
    parts = r"slower by [\d.]+ us on the accelerator: [\d.]+ us there, 1.0 us on the host, "
    assert re.fullmatch(parts + r"copies and starts \+[\d.]+ us", reasons["qconv2d_0"])


def test_figures_are_plain_data() -> None:
    figures = choose(pricing_of(residual(), always(1.0))).figures()
    assert figures["chosen"] == "greedy" and set(figures["candidates"]) >= {"greedy", "host"}
    assert [one["device"] for one in figures["segments"]] == ["accel", "host", "accel"]
    assert figures["assumed"]["link.bytes_per_second"] == {"value": 400e6, "unit": "B/s"}
    assert all(one["bytes"] == 144 for one in figures["copies"])
    assert figures["nodes"]["relu_2"]["accel"] is None


def test_a_layer_that_is_refused_stays_on_the_host() -> None:
    net = Net(2)
    x = net.rescale(net.input(1, 4, 6, 6))
    graph = net.graph(net.rescale(net.slice(x, (0, 1, 1), (0, 4, 3))))
    choice = choose(pricing_of(graph, always(1.0), SHORT))
    assert [one.target for one in choice.price.partition.segments] == [ACCEL, HOST, ACCEL]


def test_digits_by_the_front_door() -> None:
    module = lockstep.compile(DIGITS, "auto:tiny-1x4x4", pins={"conv3": HOST})
    assert module.auto and "conv3" in module.partition.reasons
    pixels = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    module.set_input("image", pixels)
    module.run()
    np.testing.assert_array_equal(module.get_output("logits"),
                                  evaluate(module.graph, {"image": pixels})["logits"])


@pytest.mark.parametrize(("options", "message"), [
    ({"bytes_per_second": 0}, "bytes_per_second must be positive, not 0"),
    ({"latency_seconds": -1}, "latency_seconds must be at least 0, not -1"),
    ({"start_seconds": float("nan")}, "start_seconds must be at least 0, not nan"),
])
def test_links_that_cannot_be(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match="must be") as refusal:
        Link(**options)
    assert str(refusal.value) == message


def chain(length: int = 6) -> Graph:
    net = Net(4)
    x = net.input(1, 4, 6, 6)
    for _ in range(length):
        x = net.conv(x, 4, (1, 1))
    return net.graph(x)


@pytest.mark.slow
def test_many_inferences_are_divided_so_that_both_targets_work() -> None:
    """A layer takes the host a little longer: alone one inference is best left to the accelerator,
    of many each target does a part.
    """
    free = Link(bytes_per_second=1e12, latency_seconds=0, start_seconds=0)
    probe = pricing_of(chain(), always(1.0), link=free)
    choose(probe)
    each = sum(accel_prices(probe).cycles.values()) / 6 / (TINY.config.clock_mhz * 1e6)
    latency, throughput = (choose(Pricing(
        chain(), Targets([accelerator(TINY, link=free)]), always(1.5 * each), pipelined=pipelined))
        for pipelined in (False, True))
    assert {one.target for one in latency.price.partition.segments} == {ACCEL}
    assert {one.target for one in throughput.price.partition.segments} == {ACCEL, HOST}
    assert throughput.price.pipelined_seconds < 0.8 * latency.price.pipelined_seconds
    assert latency.price.seconds <= throughput.price.seconds
    assert throughput.figures()["objective"] == "throughput"
    assert throughput.candidates[throughput.name] == throughput.price.pipelined_seconds


def test_an_objective_that_is_none_is_refused() -> None:
    with pytest.raises(lockstep.ArgumentError) as refusal:
        lockstep.compile(DIGITS, "auto:tiny-1x4x4", objective="speed")
    assert str(refusal.value) == "objective must be 'latency' or 'throughput', not 'speed'"
    module = lockstep.compile(DIGITS, "auto:tiny-1x4x4", objective="throughput")
    assert module.auto is not None and module.auto["objective"] == "throughput"
