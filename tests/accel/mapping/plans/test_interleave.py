"""Two layers at a time: right to the bit, in rooms of their own, and faster than one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.machine.program import Stream
from accel.mapping.plans.choices import Choices
from accel.mapping.plans.interleave import interleave
from accel.mapping.target import AccelTarget
from accel.proof.access import touches
from accel.sim.timed import cycle
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import MACHINES, TINY


def pair(net: Net, x: str, kind: str) -> str:
    y = net.conv(x, net.values[x].shape[1], (3, 3), pads=(1, 1, 1, 1))
    if kind == "add":
        return net.add(y, x)
    return net.max_pool(y, (3, 3), (2, 2), (1, 1, 1, 1)) if kind == "pool" else net.rescale(y)


def graph_of(kind: str, channels: int = 12, size: int = 14, seed: int = 3):
    net = Net(seed)
    x = net.rescale(net.input(1, channels, size, size))
    return net, net.graph(pair(net, x, kind))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["add", "pool", "rescale"])
def test_layers_are_computed_at_the_same_time(kind: str) -> None:
    net, graph = graph_of(kind)
    segment = AccelTarget(TINY).compile(graph)
    assert [len(group) for group in segment.groups] == [1, 2]
    name, _ = segment.program.layers[-1]
    assert name == " + ".join(layer.node.name for layer in segment.groups[-1])
    program = assert_right(TINY, graph, net.samples())
    units = [one.unit for one in program.instructions(TINY)]
    first_lanes = next(k for k, one in enumerate(program.instructions(TINY))
                       if one.name in ("add_scaled", "reduce_max") or k > units.index("gemm")
                       and one.name == "requantize" and one.fields["a_source"] == 1)
    last_products = len(units) - 1 - units[::-1].index("gemm")
    assert first_lanes < last_products


pairs = given(st.sampled_from(sorted(MACHINES)), st.sampled_from(["add", "pool", "rescale"]),
              st.integers(1, 20), st.integers(3, 13), st.integers(0, 1 << 16))


@settings(max_examples=tries(12))
@pairs
def test_any_pair_is_right(machine: str, kind: str, channels: int, size: int, seed: int) -> None:
    pair_is_right(machine, kind, channels, size, seed)


@pytest.mark.slow
@settings(max_examples=tries(40))
@pairs
def test_many_pairs_are_right(machine: str, kind: str, channels: int, size: int, seed: int) -> None:
    pair_is_right(machine, kind, channels, size, seed)


def pair_is_right(machine: str, kind: str, channels: int, size: int, seed: int) -> None:
    net, graph = graph_of(kind, channels, size, seed)
    target = AccelTarget(MACHINES[machine])
    if any(target.refusal(graph, node) for node in graph.nodes):
        return
    assert_right(MACHINES[machine], graph, net.samples())


def test_rooms_are_apart() -> None:
    """But for inp and wgt, which the second layer does not have."""
    _, graph = graph_of("pool")
    program = AccelTarget(TINY).compile(graph).program
    pooled: dict[str, set[int]] = {}
    others: dict[str, set[int]] = {}
    (_, begin), (_, end) = program.layers
    for one in list(program.instructions(TINY))[begin:end]:
        # Without debug information the layer is known by what only a pool does, and its copies.
        place = pooled if one.name in ("reduce_max", "copy") else others
        if one.unit in ("gemm", "vector"):
            for touch in touches(TINY, one):
                seen = set(touch.walk.addresses().reshape(-1).tolist())
                place[touch.memory] = place.get(touch.memory, set()) | seen
    for memory in ("acc", "out"):
        assert pooled[memory] and not pooled[memory] & others[memory]


def test_one_thread_computes_one_by_one() -> None:
    _, graph = graph_of("add")
    assert all(len(group) == 1 for group in AccelTarget(TINY, threads=1).compile(graph).groups)


@pytest.mark.parametrize("kind", ["add", "pool"])
def test_it_takes_less_time(kind: str, monkeypatch) -> None:
    net, graph = graph_of(kind, 16, 28)
    together = AccelTarget(TINY).compile(graph).program
    monkeypatch.setattr(Choices, "_pair", lambda self, first, second: ())
    apart = AccelTarget(TINY).compile(graph).program
    assert len(apart.layers) == len(together.layers) + 1
    cycles = [cycle.simulate(TINY, program, values=False).cycles for program in (together, apart)]
    assert cycles[0] < cycles[1]


def test_the_array_has_begun_before_the_second_layer_holds_up_loads() -> None:
    """Tiles of the second layer follow a product of the first one's next tile, as long as there is
    one: the unit that loads, its queue, and so fetch may wait behind them.
    """
    _, graph = graph_of("add")
    program = AccelTarget(TINY).compile(graph).program
    (_, begin), (_, end) = program.layers
    names = [str(program.origin(index)).split()[0] for index in range(begin, end)]
    units = [one.unit for one in list(program.instructions(TINY))[begin:end]]
    first, second = dict.fromkeys(names)
    last = len(units) - 1 - units[::-1].index("gemm")
    turns = [at for at in range(1, last) if (names[at - 1], names[at]) == (first, second)]
    assert turns
    assert {units[at - 1] for at in turns} == {"gemm"}


def test_orders_are_kept_and_results_come_first() -> None:
    _, graph = graph_of("add")
    segment = AccelTarget(TINY).compile(graph)
    program, (_, begin), (_, end) = segment.program, *segment.program.layers
    both = Stream(program.words[begin:end], program.origins.take(np.arange(begin, end)))
    layers = [str(program.origin(index)).split()[0] for index in range(begin, end)]
    convolution, adds = (both.take(np.flatnonzero([name == layer for name in layers]))
                         for layer in dict.fromkeys(layers))
    result = interleave(TINY, convolution, adds)
    assert len(result) == len(both) == len(convolution) + len(adds)
    assert np.array_equal(result.words[:, 3:], both.words[:, 3:])       # but for the tokens
    assert result.origins == both.origins
