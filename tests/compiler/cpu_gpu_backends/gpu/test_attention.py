"""Attention on GPUs: which operators make one kernel, and what it computes."""

from itertools import product

import numpy as np
import pytest

from compiler.cpu_gpu_backends.gpu.attention import ROWS, attention_of, rows_of, tile_attention
from compiler.cpu_gpu_backends.gpu.lowering import passes
from compiler.cpu_gpu_backends.gpu.segment import ValueForms
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.cpu_gpu_backends.groups import recipe_of, unscheduled
from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races
from compiler.graph import Graph, evaluate
from compiler.graph.fusion import Group, fuse
from compiler.graph.passes.pipeline import optimize
from compiler.ir import Program
from compiler.schedule import Schedule
from compiler.graph.division.protocols import Values
from runtime.devices.device import KernelDevice
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from runtime.devices.opencl import OpenClDevice
from tests.support.attention import Heads, Shape, attention, given_to
from tests.support.effort import Effort
from tests.support.float_graphs import assert_near

DEVICES = {"cuda": EmulatedDevice, "opencl": OpenClDevice}
# Batch, heads, queries, keys, width: whole tiles, tiles that are left over, long rows, wide heads.
SHAPES = [(1, 3, 64, 64, 64), (2, 3, 50, 33, 20), (1, 1, 9, 1024, 24), (3, 1, 8, 17, 32),
          (1, 2, 21, 130, 136)]
SOFTMAX = "mul+{}reduce_max+sub+exp+reduce_sum+div"


def names(graph: Graph) -> list[str]:
    """Groups of the graph, for which no text is made."""
    groups = GpuTarget("cuda", "cuda").groups(
        optimize(graph, passes(ValueForms(("int8",)))))
    return [group.name for group in groups.groups]


def computed(dialect: str, graph: Graph, inputs: Values, **options) -> np.ndarray:
    device: KernelDevice = DEVICES[dialect]()
    return GpuTarget(dialect, dialect, **options).compile(graph).on(device)(inputs).values["y"]


def algorithm(graph: Graph) -> Program:
    return unscheduled(recipe_of(graph, fuse(graph, lambda _, group: True).groups[-1]))


QUICK = ((SHAPES[1], True, "opencl"), (SHAPES[2], False, "cuda"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("shape", "masked", "dialect"), [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
    for case in product(SHAPES, (False, True), DEVICES)], ids=str)
def test_attention_is_one_kernel(shape: Shape, masked: bool, dialect: str) -> None:
    net = Heads(*shape)
    graph = net.finish([net.attend(masked)])
    softmax = SOFTMAX.format("add+" if masked else "")
    assert names(graph) == [f"matmul+{softmax}+matmul"]
    inputs = given_to(graph)
    assert_near(computed(dialect, graph, inputs), attention(inputs, masked))


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rows"), [
    pytest.param(shape, rows, marks=() if (shape, rows) == (SHAPES[1], 16) else pytest.mark.slow)
    for shape in SHAPES[:2] for rows in ROWS], ids=str)
def test_blocks_of_any_rows(shape: Shape, rows: int) -> None:
    if Effort.quick:
        shape = (1, 2, *shape[2:])
    net = Heads(*shape)
    graph = net.finish([net.attend(masked=True)])
    s = Schedule(algorithm(graph))
    found = attention_of(s)
    assert found and rows in rows_of(found)
    tile_attention(s, found, rows)
    assert Schedule.replay(algorithm(graph), s.text()).program == s.program
    group, = fuse(graph, lambda _, group: True).groups
    inputs = given_to(graph)
    given = {buffer.name: inputs[value] if value in inputs else graph.constants[value]
             for buffer, value in zip(s.program.inputs, group.inputs, strict=True)}
    for dialect, device in DEVICES.items():
        code = generate(s.program, dialect)
        launch, = code.launches
        assert launch.grid == (1, -(-shape[2] // rows) * shape[0] * shape[1], 1)
        assert_near(compute(device(), code, given)["y"], attention(inputs, masked=True))
    assert find_races(lower(s.program), given) == []


def test_a_small_network_has_small_blocks_and_a_large_one_large_blocks() -> None:
    for heads, rows in ((3, 8), (12 * 64, 32)):
        net = Heads(1, heads, 64, 64, 64)
        found = attention_of(Schedule(algorithm(net.finish([net.attend()]))))
        assert found and rows_of(found)[0] == rows


@pytest.mark.parametrize("width, rows", [(96, {32, 16, 8}), (128, {16, 8}), (256, {8})])
def test_wide_heads_have_few_rows(width: int, rows: set[int]) -> None:
    """Their sums are in registers."""
    net = Heads(1, 2, 64, 64, width)
    found = attention_of(Schedule(algorithm(net.finish([net.attend()]))))
    assert found and set(rows_of(found)) == rows


def test_a_grid_has_so_many_blocks() -> None:
    for heads, rows in ((1 << 12, {32, 16, 8}), (1 << 13, {32, 16}), (1 << 14, {32})):
        net = Heads(1, heads, 64, 64, 64)
        found = attention_of(Schedule(algorithm(net.finish([net.attend()]))))
        assert found and set(rows_of(found)) == rows


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "dialect"), [
    (SHAPES[4], "cuda"), *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        (SHAPES[1], "opencl"), (SHAPES[1], "cuda"), (SHAPES[4], "opencl")))], ids=str)
def test_transposes_in_front_are_in_the_kernel(shape: Shape, dialect: str) -> None:
    net = Heads(*shape, turned=True)
    graph = net.finish([net.attend(masked=True)])
    assert names(graph) == [f"{'transpose+' * 3}matmul+{SOFTMAX.format('add+')}+matmul"]
    inputs = given_to(graph)
    assert_near(computed(dialect, graph, inputs), attention(inputs, masked=True))


@pytest.mark.slow
@pytest.mark.parametrize(("order", "dialect"), [
    ((3, 2, 0, 1), "opencl"), *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ((3, 2, 0, 1), "cuda"), *product(((0, 2, 1, 3), (0, 1, 3, 2)), DEVICES)))], ids=str)
def test_a_transpose_behind_is_in_the_kernel(order: tuple[int, ...], dialect: str) -> None:
    net = Heads(*SHAPES[1])
    net.emit("transpose", "turn", [net.attend()], "turned", perm=order)
    graph = net.finish(["turned"])
    assert names(graph) == [f"matmul+{SOFTMAX.format('')}+matmul+transpose"]
    inputs = given_to(graph)
    device: KernelDevice = DEVICES[dialect]()
    found = GpuTarget(dialect, dialect).compile(graph).on(device)(inputs).values["turned"]
    assert_near(found, attention(inputs, masked=False).transpose(order))


def test_what_is_turned_and_read_as_it_is_stays_apart() -> None:
    net = Heads(1, 2, 40, 56, 20)
    net.emit("transpose", "turn", [net.attend()], "turned", perm=(0, 2, 1, 3))
    graph = net.finish(["y", "turned"])
    assert names(graph)[-1] == "transpose"
    net = Heads(1, 2, 40, 56, 20)
    net.emit("slice", "part", [net.attend()], "some", begin=(0, 0, 0, 0), end=(1, 2, 40, 18),
             step=(1, 1, 1, 1))
    graph = net.finish(["some"])
    assert names(graph)[-1] == "slice"


def test_a_transpose_that_others_read_is_stored() -> None:
    net = Heads(1, 2, 40, 56, 20, turned=True)
    net.attend()
    net.emit("relu", "seen", ["keys"], "seen")
    graph = net.finish(["y", "seen"])
    alone, fused, _ = names(graph)
    assert alone == "transpose" and fused.startswith("transpose+transpose+matmul+")


@pytest.mark.slow
def test_queries_that_are_keys_are_turned_before() -> None:
    """A product has two different buffers."""
    net = Heads(1, 2, 40, 40, 20, turned=True)
    net.emit("transpose", "again", ["x"], "turned", perm=(0, 1, 3, 2))
    net.emit("matmul", "scores", ["x", "turned"], "scores")
    graph = net.finish([net.softmax("scores")])
    softmax = SOFTMAX.removeprefix("mul+{}")
    assert names(graph)[-3:] == ["transpose", "transpose", f"transpose+matmul+{softmax}+matmul"]
    inputs = given_to(graph)
    assert_near(computed("opencl", graph, inputs), evaluate(graph, inputs)["y"])


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [
    "cuda", pytest.param("opencl", marks=pytest.mark.slow)])
def test_heads_that_share_keys_and_values(dialect: str) -> None:
    net = Heads(2, 4, 20, 40, 24, shared=True)
    graph = net.finish([net.attend()])
    inputs = given_to(graph)
    assert names(graph) == [f"matmul+{SOFTMAX.format('')}+matmul"]
    assert_near(computed(dialect, graph, inputs), attention(inputs, masked=False))


def test_a_head_without_a_scale() -> None:
    net = Heads(1, 2, 40, 56, 20)
    assert len(names(net.finish([net.attend(scaled=False)]))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_is_computed_from_the_result_is_in_the_kernel(scaled: bool) -> None:
    net = Heads(1, 2, 40, 56, 20)
    net.emit("relu", "positive", [net.attend(scaled=scaled)], "positive")
    graph = net.finish(["positive"])
    inputs = given_to(graph)
    assert len(names(graph)) == 1
    found = GpuTarget("opencl", "opencl").compile(graph).on(OpenClDevice())(inputs).values
    assert_near(found["positive"], evaluate(graph, inputs)["positive"])


@pytest.mark.slow
@pytest.mark.parametrize("kept", [
    "scaled", "weights",
    *(pytest.param(kept, marks=pytest.mark.slow) for kept in ("scores", "powers"))])
def test_what_somebody_else_reads_is_stored(kept: str) -> None:
    net = Heads(1, 2, 40, 56, 20)
    graph = net.finish([net.attend(), kept])
    assert names(graph)[-1] == "matmul"
    inputs = given_to(graph)
    found = GpuTarget("opencl", "opencl").compile(graph).on(OpenClDevice())(inputs).values
    for name, wanted in evaluate(graph, inputs).items():
        assert_near(found[name], wanted)


@pytest.mark.parametrize("shape", [(1, 2, 7, 64, 64), (1, 2, 64, 64, 7), (1, 1, 20, 1300, 20),
                                   (1, 1, 8, 8, 1100)], ids=str)
def test_what_is_too_small_or_too_large_stays_apart(shape: Shape) -> None:
    """Few rows and columns, rows of scores and heads without room."""
    net = Heads(*shape)
    graph = net.finish([net.attend()])
    assert names(graph)[-1] == "matmul"


def test_products_of_products_stay_apart() -> None:
    net = Heads(1, 2, 40, 56, 20)
    net.emit("matmul", "scores", ["x", "keys"], "scores")
    graph = net.finish([net.emit("matmul", "y", ["scores", "values"], "y")])
    assert names(graph) == ["matmul", "matmul"]


def test_scores_that_others_read_are_stored() -> None:
    net = Heads(1, 2, 40, 56, 20)
    net.attend()
    net.emit("relu", "seen", ["scores"], "seen")
    graph = net.finish(["y", "seen"])
    assert names(graph).count("matmul") == 2


def test_weights_that_are_the_second_operand_wrong() -> None:
    net = Heads(1, 2, 40, 40, 40)
    net.attend()
    graph = net.finish([net.emit("matmul", "z", ["values", "weights"], "z")])
    program = unscheduled(recipe_of(graph, Group.of(graph.nodes, graph)))
    assert attention_of(Schedule(program)) is None


@pytest.mark.slow
def test_rows_of_softmax_that_are_one_kernel() -> None:
    """As many as fit into shared memory twice."""
    for columns, count in ((4096, 1), (4097, 4)):
        net = Heads(1, 1, 8, columns, 8)
        graph = net.finish([net.attend(scaled=False)])
        first, *softmax, last = names(graph)
        assert first == last == "matmul" and len(softmax) == count
        if count == 1 or not Effort.quick:
            inputs = given_to(graph)
            assert_near(computed("opencl", graph, inputs), evaluate(graph, inputs)["y"])
