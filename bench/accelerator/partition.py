"""Is the target `auto` optimal? What do changes of layout cost, and what do own units gain?

Prices are those of `runtime.driver.costs`: cycles of the accelerator at the clock of its preset,
times of the host measured on this computer (and kept), copies and starts over the assumed link.
`small`, `networks` and `detours` print

``partition_NETWORK_PRESET_over_best``   price of `auto` above that of the best of all divisions of
                                         a small network, enumerated, %
``partition_over_best``                  the largest of them
``partition_NETWORK_PRESET_over_either`` above the better of greedy and of the host alone, %
``partition_over_either``                the largest of them
``partition_greedy_lost``                price of greedy above that of `auto` where it loses, %

``--table`` shows the prices behind them. Enumeration skips divisions whose copies, starts and least
cycles alone cost more than the best known one.

`layout` compares changes between NCHW and NHWC at every border with those after the layout pass: of
each network how many tensors are converted, their bytes, and the time of conversions and of the
host's operators together, before and after: the least of several runs, measured here. Nothing is
compiled for the accelerator, whose programs are the same.

`units` takes float networks (`bench.inputs.stream_networks`), quantizes them, and gives an
accelerator what it can have of them: that of `examples/machines` with a unit of the network's own,
and that of the same geometry without. It prints the price of each step, in cycles, and

``NAME_cycles``, ``NAME_cycles_without``            one inference, at the accelerator's clock
``NAME_accelerator``, ``NAME_accelerator_without``  the cycles of the accelerator among these, by
                                                    the slice of the RTL, or the cycle simulator

`rtl` runs such networks, small, on the RTL of small machines. Exit status 1: outputs are not those
of the CPU to the byte, or RTL and slice differ in cycles.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product

import numpy as np
import onnx

import lockstep
from accel.machine.config import AccelConfig
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.lowering.nest import LoweringError
from bench.frame import Bench, Sheet
from bench.inputs.stream_networks import Feeds, ranker, tagger
from tests.support.networks import branches_graph, detours_graph, residual_graph, separable_graph
from compiler.frontend.onnx.importing import convert, load as load_model
from compiler.graph import Copy, Graph, Partition, optimize
from compiler.graph.division.layout import Layout, as_it_is, lay_out
from compiler.graph.division.partition import ACCEL, HOST, Target
from compiler.graph.division.placement import Pins
from compiler.quantize import quantize
from examples.machines import gather, top_k
from lockstep.testing import zoo
from lockstep.testing.models import DIGITS
from runtime.driver.auto import Choice, choose, greedy
from runtime.driver.costs import CopyPrice, Price, Pricing, SegmentPrice
from runtime.driver.targets import Targets, accelerator

RUNS = 15
PRESETS = ("pynq-1x16x16", "tiny-1x4x4")


def digits() -> Graph:
    return optimize(load_model(DIGITS))


def of_zoo(name: str, size: int) -> Callable[[], Graph]:
    return lambda: optimize(convert(zoo.build(name, size=size, int8=True), name))


SMALL: Mapping[str, tuple[Callable[[], Graph], str]] = {
    "digits": (digits, "tiny-1x4x4"),
    "residual": (lambda: residual_graph(64, 28), "pynq-1x16x16"),
    "branches": (lambda: branches_graph(32, 14), "pynq-1x16x16"),
    "separable": (lambda: separable_graph(512, 4), "pynq-1x16x16"),
}
NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "digits": digits,
    "squeezenet": of_zoo("squeezenet", 64),
    "mobilenet_v1": of_zoo("mobilenet_v1", 64),
}
LAID_OUT: Mapping[str, tuple[Callable[[], Graph], Pins]] = {
    "residual": (partial(residual_graph, 64, 56), {}),
    "branches": (partial(branches_graph, 64, 28), {}),
    "unet": (of_zoo("unet", 128), {}),
    "unet, concatenations on the host": (of_zoo("unet", 128), {"qconcat": HOST}),
    "unet, pools on the host": (of_zoo("unet", 128), {"qmaxpool": HOST}),
    "squeezenet, concatenations on the host": (of_zoo("squeezenet", 224),
                                               {"qconcat": HOST}),
    "vit_small": (of_zoo("vit_small", 64), {}),
    "bert_small": (of_zoo("bert_small", 64), {}),
}
"""Networks with pins: nodes that the host has between layers of the accelerator."""

Own = tuple[Callable[..., tuple[onnx.ModelProto, Feeds]], Callable[[AccelConfig], Machine],
            Mapping[str, int]]
OWN: Mapping[str, Own] = {
    "gather": (tagger, gather.machine_of, {"places": 8, "words": 64}),
    "top_k": (ranker, top_k.machine_of, {"items": 90}),
}
"""Networks, the machines with a unit for them, and what makes the network small."""

BENCH = Bench(__file__, __doc__, PRESETS)
BENCH.option("--table", action="store_true", help="the prices")


@BENCH.part()
def small(sheet: Sheet) -> None:
    above = []
    for name, (build, preset) in SMALL.items():
        pricing = pricing_of(build(), load_machine(preset))
        choice = choose(pricing)
        best, priced, count = cheapest(pricing, choice.price.seconds)
        show(name, preset, choice, sheet.table)
        if sheet.table:
            print(f"  best of {count} divisions ({priced} priced): {micro(best)}")
        above.append(100 * (choice.price.seconds / best - 1))
        sheet.figure(f"partition_{name}_{preset}_over_best", above[-1], ".2f")
    sheet.figure("partition_over_best", max(above), ".2f")


@BENCH.part()
def networks(sheet: Sheet) -> None:
    above = []
    for name, build in NETWORKS.items():
        graph = build()
        for preset, machine in sheet.machines.items():
            choice = choose(pricing_of(graph, machine))
            show(name, preset, choice, sheet.table)
            either = min(choice.candidates[one] for one in ("greedy", "host"))
            above.append(100 * (choice.price.seconds / either - 1))
            sheet.figure(f"partition_{name}_{preset}_over_either", above[-1], ".2f")
    sheet.figure("partition_over_either", max(above), ".2f")


@BENCH.part()
def detours(sheet: Sheet) -> None:
    preset, machine = next(iter(sheet.machines.items()))
    choice = choose(pricing_of(detours_graph(), machine))
    show("detours", preset, choice, sheet.table)
    lost = choice.candidates["greedy"] / choice.price.seconds - 1
    sheet.figure("partition_greedy_lost", 100 * lost, ".2f")


@BENCH.part(LAID_OUT, extra=True)
def layout(sheet: Sheet) -> None:
    targets = Targets([accelerator(next(iter(sheet.machines.values())))])
    for name in sheet.cases:
        make, pins = LAID_OUT[name]
        graph = make()
        pricing = Pricing(graph, targets, measure)
        parts = greedy(graph, targets, pins)
        laid_out = lay_out(parts, targets.borders(graph))
        before, after = (milliseconds(pricing, one) for one in (as_it_is(parts), laid_out))
        made = laid_out.figures()
        print(f"{name}: {made['at_every_border']['count']} -> {made['count']} conversions, "
              f"{made['at_every_border']['bytes']:,} -> {made['bytes']:,} bytes, "
              f"{before:.2f} -> {after:.2f} ms", flush=True)


@BENCH.part(OWN, extra=True)
def units(sheet: Sheet) -> None:
    config = load_machine(PRESETS[0]).config
    for name in sheet.cases:
        make, machine_of, _ = OWN[name]
        model, x = quantized(*make())
        wanted, _ = results(model, x, "cpu")
        for ending, machine in (("", machine_of(config)), ("_without", Machine(config))):
            found, _ = results(model, x, "accel,cpu", machine)
            sheet.require(found == wanted)
            cost, cycles = greedy_price(model, machine), machine.config.clock_mhz * 1e6
            print(f"{name} on {machine.config.name}: "
                  f"{'equal' if found == wanted else 'DIFFERENT'}")
            for step in cost.steps:
                print(f"{step.seconds * cycles:11,.0f}  {told(step)}")
            sheet.figure(f"{name}_cycles{ending}", round(cost.seconds * cycles))
            sheet.figure(f"{name}_accelerator{ending}", sum(
                step.cycles for step in cost.steps if isinstance(step, SegmentPrice)))


@BENCH.part(OWN, extra=True)
def rtl(sheet: Sheet) -> None:
    for name in sheet.cases:
        make, machine_of, small = OWN[name]
        machine = machine_of(load_machine(PRESETS[1]).config)
        model, x = quantized(*make(**small))
        wanted, _ = results(model, x, "cpu")
        (_, cycles), (found, taken) = (results(model, x, "accel,cpu", machine, sim)
                                       for sim in ("slice", "verilator"))
        right = found == wanted and cycles == taken
        sheet.require(right)
        print(f"{name} on the RTL of {machine.config.name}: {taken:,} cycles, {cycles:,} on its "
              f"slice, {'equal' if right else 'DIFFERENT'}", flush=True)


def quantized(model: onnx.ModelProto, samples: Feeds) -> tuple[onnx.ModelProto, np.ndarray]:
    """The quantized network, and an input of it."""
    shape = [one.dim_value for one in model.graph.input[0].type.tensor_type.shape.dim]
    return quantize(model, samples).model, samples["x"][0].reshape(shape)


def results(model: onnx.ModelProto, x: np.ndarray, target: str, machine: Machine | None = None,
            sim: str = "functional") -> tuple[list[bytes], int]:
    """The outputs, and the cycles of the accelerator."""
    module = lockstep.compile(model, target, machine=machine, sim=sim)
    module.set_input(x=x)
    runs = module.run()
    outputs = [module.get_output(name).tobytes() for name in module.graph.outputs]
    return outputs, sum(run.cycles for run in runs)


def greedy_price(model: onnx.ModelProto, machine: Machine) -> Price:
    """The price of a network, the accelerator of which has what it can have."""
    graph = lockstep.compile(model, "accel,cpu", machine=machine, sim="functional").graph
    pricing = pricing_of(graph, machine)
    return pricing.division(greedy(graph, pricing.placed, {}))


def told(step: SegmentPrice | CopyPrice) -> str:
    """A step in words: the target and its operators, or what is copied."""
    if isinstance(step, SegmentPrice):
        return " ".join((step.segment.target, *(node.op for node in step.segment.nodes)))
    return f"{step.copy}, {step.size_bytes:,} bytes"


def pricing_of(graph: Graph, machine: Machine) -> Pricing:
    return Pricing(graph, Targets([accelerator(machine)]))


def cheapest(pricing: Pricing, known: float) -> tuple[float, int, int]:
    """The least price of all divisions, or `known` if that is less; the number of divisions priced,
    and of all.
    """
    divisions = sorted(((least(pricing, parts), number, parts)
                        for number, parts in enumerate(every_division(pricing))))
    best, priced = known, 0
    for bound, _, parts in divisions:
        if bound < best and least(pricing, parts) < best:       # more prices are known by now
            try:
                best = min(best, pricing.division(parts).seconds)
            except LoweringError:
                continue
            priced += 1
    return best, priced, len(divisions)


def every_division(pricing: Pricing) -> Iterator[Partition]:
    choices: list[list[Target]] = [
        [target for target in (HOST, ACCEL) if pricing.refusal(node, target) is None]
        for node in pricing.graph.nodes]
    names = [node.name for node in pricing.graph.nodes]
    for chosen in product(*choices):
        yield pricing.divided(dict(zip(names, chosen, strict=True)), {})


def least(pricing: Pricing, parts: Partition) -> float:
    """A lower bound on the price of a division, which compiles nothing new."""
    return sum(map(pricing.least, parts.steps))


def show(name: str, preset: str, choice: Choice, table: bool) -> None:
    if table:
        print(f"{name} on {preset}: {choice.name} of "
              + ", ".join(f"{one} {micro(seconds)}" for one, seconds in choice.candidates.items())
              + ("" if choice.exact else " (bounded search)"))


def micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"


def measure(what: str, run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def milliseconds(pricing: Pricing, layout: Layout) -> float:
    """The time of the host's segments, and of conversions while values are copied."""
    steps = [pricing.price(layout, step) for step in layout.partition.steps
             if isinstance(step, Copy) or step.target == HOST]
    return 1e3 * sum(getattr(step, "layout_seconds", step.seconds) for step in steps)
