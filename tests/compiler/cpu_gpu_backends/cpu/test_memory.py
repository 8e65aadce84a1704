"""Segments compute where their plan says, and nothing else is touched or needed."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu import segment as cpu_segment
from compiler.cpu_gpu_backends.cpu.target import CpuTarget, HostSegment
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.graph.memory import MemoryPlan
from tests.support.effort import tries
from tests.support.float_graphs import assert_near, inputs_of, random_graph

POISON = 0xFF       # float32 of it is not a number


def poisoned_run(segment: HostSegment, graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """The outputs, where memory is poison before the run, and after each step everywhere but in
    what a later step reads.
    """
    plan, block = segment.plan, np.full(segment.plan.size + 64, POISON, np.uint8)

    def spoil(number: int) -> None:
        alive = np.zeros(len(block), bool)
        for span, offset in plan.places.items():
            if span.first <= number < span.last:
                alive[offset:offset + span.size] = True
        block[~alive] = POISON

    values = segment.run({**segment.constants, **inputs_of(graph, seed)}, block, spoil)
    return {name: values[name] for name in graph.outputs}


@pytest.mark.parametrize("seed", range(tries(20)))
def test_nothing_that_lives_is_overwritten(seed: int) -> None:
    graph = random_graph(seed, 14)
    segment = CpuTarget().compile(graph)
    found, wanted = poisoned_run(segment, graph), evaluate(graph, inputs_of(graph))
    for name, array in wanted.items():
        assert_near(found[name], array)


def chain() -> Graph:
    """Four convolutions, a residual sum around the last two."""
    net, rng = Builder("chain"), np.random.default_rng(0)
    net.add_input("x", TensorType((1, 4, 24, 24), "float32"))
    value = "x"
    for number in range(4):
        weight = rng.standard_normal((4, 4, 3, 3)).astype(np.float32)
        net.add_constant(f"w{number}", weight)
        value = net.emit("conv2d", f"conv{number}", [value, f"w{number}"], f"c{number}",
                         strides=(1, 1), pads=(1, 1, 1, 1))
    net.emit("add", "sum", ["c3", "c1"], "s")
    net.add_constant("last", rng.standard_normal((2, 4, 1, 1)).astype(np.float32))
    net.emit("conv2d", "head", ["s", "last"], "y", strides=(1, 1), pads=(0,) * 4)
    return net.finish(["y"])


def with_plan(segment: HostSegment, plan: MemoryPlan) -> HostSegment:
    changed = HostSegment(segment.graph, segment.steps, segment.constants)
    changed.__dict__["plan"] = plan
    return changed


def test_a_plan_that_overlaps_gives_other_results() -> None:
    graph = chain()
    segment = CpuTarget().compile(graph)
    inputs = inputs_of(graph)
    wanted = evaluate(graph, inputs)["y"]
    assert_near(segment(inputs)["y"], wanted)
    wrong = replace(segment.plan, offsets=dict.fromkeys(segment.plan.offsets, 0))
    assert np.abs(with_plan(segment, wrong)(inputs)["y"] - wanted).max() > 0.1


def rows(count: int) -> Graph:
    """A running sum over the rows of a matrix, as an unrolled loop makes it."""
    net = Builder("rows")
    net.add_input("x", TensorType((count, 3), "float32"))
    net.add_input("start", TensorType((1, 3), "float32"))
    net.emit("tanh", "first", ["x"], "a")
    last, made = "start", []
    for row in range(count):
        net.emit("slice", f"row{row}", ["a"], f"r{row}", begin=(row, 0), end=(row + 1, 3),
                 step=(1, 1))
        last = net.emit("add", f"sum{row}", [last, f"r{row}"], f"s{row}")
        made.append(last)
    net.emit("concat", "all", made, "y", axis=0)
    return net.finish(["y", "r1"])


def test_rows_of_a_matrix_share_a_kernel() -> None:
    segment = CpuTarget().compile(rows(20))
    assert len({step.kernel for step in segment.steps if step.kernel}) <= 4
    inputs = inputs_of(segment.graph)
    found, wanted = poisoned_run(segment, segment.graph), evaluate(segment.graph, inputs)
    for name, array in wanted.items():
        assert_near(found[name], array)


def test_a_part_gives_no_place_away() -> None:
    """What is computed from a row would lie at the start of the matrix, not where the row is."""
    net = Builder("part")
    net.add_input("x", TensorType((4, 16), "float32"))
    net.add_constant("w", np.eye(16, dtype=np.float32))
    net.emit("matmul", "first", ["x", "w"], "a")
    net.emit("slice", "row", ["a"], "r", begin=(2, 0), end=(3, 16), step=(1, 1))
    net.emit("matmul", "last", [net.emit("tanh", "tanh", ["r"], "t"), "w"], "y")
    plan = CpuTarget().compile(net.finish(["y"])).plan
    assert {("a",), ("t",)} == {span.values for span in plan.places}


def test_a_residual_sum_takes_the_place_of_its_operand() -> None:
    segment = CpuTarget().compile(chain())
    assert segment.plan.offsets["s.blocks"] == segment.plan.offsets["c1.blocks"]
    assert any(span.values == ("c1.blocks", "s.blocks") for span in segment.plan.places)
    inputs = inputs_of(segment.graph)
    assert_near(segment(inputs)["y"], evaluate(segment.graph, inputs)["y"])


def test_an_operand_of_the_convolution_itself_stays() -> None:
    """relu(conv(x) + x): other pixels of x are still to be read."""
    net = Builder("net")
    net.add_input("z", TensorType((1, 16, 24, 24), "float32"))
    net.add_constant("w", np.ones((16, 16, 3, 3), np.float32))
    net.emit("relu", "first", ["z"], "x")
    net.emit("conv2d", "conv", ["x", "w"], "c", strides=(1, 1), pads=(1, 1, 1, 1))
    net.emit("add", "sum", ["c", "x"], "s")
    net.emit("maxpool", "pool", ["s"], "y", kernel=(2, 2), strides=(2, 2), pads=(0,) * 4)
    segment = CpuTarget(plain=True).compile(net.finish(["y"]))
    assert segment.plan.offsets["s.blocks"] != segment.plan.offsets["x.transpose"]


def test_memory_is_allocated_once(monkeypatch) -> None:
    sizes = []

    def aligned(shape, dtype):
        sizes.append(shape[0])
        return allocated(shape, dtype)

    allocated = cpu_segment.aligned
    monkeypatch.setattr(cpu_segment, "aligned", aligned)
    target = CpuTarget()
    segment, other = target.compile(chain()), target.compile(random_graph(1))
    for _ in range(3):
        segment(inputs_of(segment.graph))
    assert [size for size in sizes if size] == [segment.plan.size]
    other(inputs_of(other.graph))
    segment(inputs_of(segment.graph))
    grown = other.plan.size > segment.plan.size
    assert len([size for size in sizes if size]) == (2 if grown else 1)


def test_constants_begin_on_cache_lines() -> None:
    graph = random_graph(4, 14)
    offset = {value: np.frombuffer(bytes(4) + array.tobytes(), array.dtype)[1:].reshape(array.shape)
              for value, array in graph.constants.items()}
    segment = CpuTarget().compile(replace(graph, constants=offset))
    assert segment.constants
    assert {array.ctypes.data % 64 for array in segment.constants.values()} == {0}


def test_intermediate_values_lie_in_the_block() -> None:
    graph = chain()
    segment = CpuTarget().compile(graph)
    block = np.zeros(segment.plan.size, np.uint8)
    values = segment.run({**segment.constants, **inputs_of(graph)}, block)
    for name, array in values.items():
        inside = name not in (*graph.inputs, *segment.constants, *graph.outputs)
        assert np.may_share_memory(array, block) == inside
        assert not inside or array.ctypes.data % 64 == block.ctypes.data % 64


def test_reshapes_are_views_and_outputs_are_arrays_of_the_callers() -> None:
    net = Builder("net")
    net.add_input("x", TensorType((2, 6), "float32"))
    net.emit("reshape", "first", ["x"], "r", shape=(3, 4))
    net.emit("relu", "relu", ["r"], "p")
    net.emit("reshape", "second", ["p"], "y", shape=(12,))
    graph = net.finish(["y", "r"])
    segment = CpuTarget().compile(graph)
    assert [step.kernel is None for step in segment.steps] == [True, False, True]
    inputs = inputs_of(graph)
    first, second = segment(inputs), segment(inputs)
    np.testing.assert_array_equal(first["y"], np.maximum(inputs["x"], 0).reshape(12))
    arrays = [inputs["x"], first["y"], first["r"], second["y"], second["r"]]
    assert not any(np.may_share_memory(a, b) for a in arrays for b in arrays if a is not b)
    assert segment.plan.size == 0


def test_what_is_read_in_two_ways_gives_no_place_away() -> None:
    """All rows less the third: that row is still read when it would have been overwritten."""
    net = Builder("twice")
    net.add_input("x", TensorType((4, 16), "float32"))
    net.add_constant("w", np.eye(16, dtype=np.float32))
    net.emit("matmul", "first", ["x", "w"], "a")
    net.emit("slice", "row", ["a"], "r", begin=(2, 0), end=(3, 16), step=(1, 1))
    net.emit("matmul", "last", [net.emit("sub", "less", ["a", "r"], "b"), "w"], "y")
    plan = CpuTarget().compile(net.finish(["y"])).plan
    assert {("a",), ("b",)} == {span.values for span in plan.places}
