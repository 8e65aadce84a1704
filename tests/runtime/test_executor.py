"""The executor: every schedule gives the same values, targets overlap, errors end all."""

from collections.abc import Callable, Sequence
from threading import Barrier, get_ident

import numpy as np
import pytest

from accel.mapping.target import AccelTarget
from accel.sim.meaning.functional import simulate
from compiler.graph import Graph, Partition, evaluate, partition, subgraph
from compiler.graph.division.partition import ACCEL, HOST, Segment
from runtime import InputError, SimulatedDevice, compile_graph
from runtime.executor import Inference, overlaps, run_all
from tests.compiler.graph.division.test_placement import random_graph
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

PATIENCE = 60           # seconds after which a test that waits for another thread has failed


def segment(target, name: str, inputs: str, outputs: str) -> Segment:
    return Segment(target, (), tuple(inputs.split()), tuple(outputs.split()))


CHAIN = (segment(HOST, "a", "x", "a"), segment(ACCEL, "b", "a", "b"), segment(HOST, "c", "b", "y"))
FORK = (segment(HOST, "a", "x", "a"), segment(ACCEL, "b", "x", "b"), segment(HOST, "c", "a b", "y"))


def doubled(segments):
    """Every output of a segment is the sum of its inputs and one."""
    def execute(position, given):
        total = sum(given.values(), np.ones(1))
        return dict.fromkeys(segments[position].outputs, total), position
    return execute


def test_overlap_is_seen() -> None:
    assert not overlaps(CHAIN) and overlaps(FORK) and not overlaps(())
    assert not overlaps((segment(HOST, "a", "x", "a"), segment(HOST, "b", "x", "b")))


def test_every_inference_gives_its_values() -> None:
    for segments, wanted in ((CHAIN, 3), (FORK, None)):
        runs = run_all(segments, doubled(segments), [{"x": np.full(1, i)} for i in range(20)],
                       {"y"})
        for i, inference in enumerate(runs):
            assert isinstance(inference, Inference) and sorted(inference.rows) == [0, 1, 2]
            assert inference.values["y"] == (i + wanted if wanted else 2 * i + 3)


def divided(rng: np.random.Generator) -> tuple[Graph, Partition]:
    graph = random_graph(rng, 9)
    host = {node.name for node in graph.nodes if rng.random() < 0.5}
    return graph, partition(graph, lambda node: "no" if node.name in host else None)


def evaluating(graphs: Sequence[Graph]) -> Callable:
    return lambda position, given: (evaluate(graphs[position], given), None)


def test_random_divisions_give_what_the_graph_gives() -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        graph, parts = divided(rng)
        graphs = [subgraph(graph, one) for one in parts.segments]
        feeds = [{"x0": rng.random(3).astype(np.float32), "x1": rng.random(3).astype(np.float32)}
                 for _ in range(5)]
        runs = run_all(parts.segments, evaluating(graphs), feeds, graph.outputs)
        for feed, inference in zip(feeds, runs, strict=True):
            assert set(inference.values) <= set(graph.outputs) or not parts.segments
            for name, wanted in evaluate(graph, feed).items():
                found = inference.values.get(name, graph.constants.get(name))
                np.testing.assert_array_equal(found, wanted)


def test_targets_that_do_not_wait_for_each_other_overlap() -> None:
    """Both meet at a barrier, which one alone would never pass."""
    barrier = Barrier(2, timeout=PATIENCE)

    def execute(position, given):
        if position < 2:
            barrier.wait()
        return doubled(FORK)(position, given)

    (one,) = run_all(FORK, execute, [{"x": np.zeros(1)}], {"y"})
    assert one.values["y"] == 3


def test_inferences_are_pipelined() -> None:
    """While the accelerator computes the first, the host begins the second."""
    barrier = Barrier(2, timeout=PATIENCE)

    def execute(position, given):
        first = given.get("x", given.get("a", np.full(1, 9)))[0] in (0, 1)
        if position == 1 and first or position == 0 and given["x"][0] == 5:
            barrier.wait()
        return doubled(CHAIN)(position, given)

    runs = run_all(CHAIN, execute, [{"x": np.zeros(1)}, {"x": np.full(1, 5)}], {"y"})
    assert [one.values["y"][0] for one in runs] == [3, 8]


def test_each_target_has_one_thread() -> None:
    threads: dict[str, set[int]] = {HOST: set(), ACCEL: set()}

    def execute(position, given):
        threads[FORK[position].target].add(get_ident())
        return doubled(FORK)(position, given)

    run_all(FORK, execute, [{"x": np.zeros(1)}] * 10, {"y"})
    assert all(len(found) == 1 for found in threads.values())
    assert threads[HOST] != threads[ACCEL]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_ends_all(place: int) -> None:
    def execute(position, given):
        if position == place:
            raise KeyError("broken")
        return doubled(CHAIN)(position, given)

    with pytest.raises(KeyError, match="broken"):
        run_all(CHAIN, execute, [{"x": np.zeros(1)}] * 10, {"y"})


def test_nothing_to_do() -> None:
    assert run_all(CHAIN, doubled(CHAIN), [], {"y"}) == []
    (one,) = run_all((), doubled(()), [{"x": np.zeros(1)}], {"x"})
    assert list(one.values) == ["x"]


def test_many_inferences_of_a_network_on_both_targets() -> None:
    net = Net(1)
    x = net.input(1, 4, 6, 6)
    y = net.conv(net.add_node("quantize", net.add_node("dequantize", x, scale=0.5, zp=-4),
                              scale=0.5, zp=3), 4, (3, 3))
    graph = net.graph(net.add_node("dequantize", y, scale=0.5, zp=1), net.rescale(x))
    module = compile_graph(graph, AccelTarget(TINY), SimulatedDevice(TINY, simulate))
    assert {one.target for one in module.partition.segments} == {HOST, ACCEL}
    feeds = [net.samples() for _ in range(6)]
    for feed, found in zip(feeds, module.run_many(feeds), strict=True):
        for name, wanted in evaluate(graph, feed).items():
            np.testing.assert_array_equal(found[name], wanted)
    with pytest.raises(InputError, match="^Input x must be set before the network runs$"):
        module.run_many([feeds[0], {}])
