"""Functions of whole rows: which operators make one kernel, and what it computes."""

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu.groups import group_program
from compiler.cpu_gpu_backends.groups import recipe_of
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.instruction_sets import AVX2
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.graph.fusion import LONGEST_ROW, fuse
from compiler.ir import Alloc, For, verify, walk_stmts
from tests.support.float_graphs import assert_near, inputs_of

SHAPES = [(3, 5, 37), (2, 1, 300), (4, 8), (1, 9), (1, 2, 3, LONGEST_ROW)]


class Rows(Builder):
    """Networks on rows x; values are called a, b, c, ... in order."""

    def __init__(self, *shape: int):
        super().__init__("rows")
        self.add_input("x", TensorType(shape, "float32"))
        self.last = len(shape) - 1

    def op(self, op: str, *inputs: str, **attrs) -> str:
        name = "abcdefghijklmnopqrstuvwxyz"[len(self.nodes)]
        return self.emit(op, name, inputs, name, **attrs)

    def along(self, op: str, x: str, axis: int | None = None, keepdims: int = 1) -> str:
        return self.op(op, x, axes=(self.last if axis is None else axis,), keepdims=keepdims)

    def softmax(self, x: str) -> str:
        powers = self.op("exp", self.op("sub", x, self.along("reduce_max", x)))
        return self.op("div", powers, self.along("reduce_sum", powers))

    def norm(self, x: str) -> str:
        apart = self.op("sub", x, self.along("mean", x))
        spread = self.along("mean", self.op("mul", apart, apart))
        small = self.add_constant(self.fresh("eps"), np.full((), 1e-5, np.float32))
        scale = self.add_constant(self.fresh("scale"), np.linspace(
            0.5, 2, self.graph_shape(x)[-1], dtype=np.float32))
        return self.op("mul", self.op("div", apart, self.op("sqrt", self.op("add", spread, small))),
                       scale)

    def graph_shape(self, value: str) -> tuple[int, ...]:
        return self.values[value].shape


def names(graph: Graph) -> list[str]:
    return ["".join(node.name for node in group.nodes) for group in fuse(graph).groups]


def assert_computed(graph: Graph) -> None:
    inputs = inputs_of(graph)
    wanted, found = evaluate(graph, inputs), CpuTarget().compile(graph)(inputs)
    for name in graph.outputs:
        assert_near(found[name], wanted[name])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_softmax_is_one_kernel_that_keeps_a_row(shape) -> None:
    net = Rows(*shape)
    graph = net.finish([net.softmax("x")])
    assert names(graph) == ["abcde"]
    group, = fuse(graph).groups
    made = verify(group_program(recipe_of(graph, group), Vectors(AVX2)))
    assert [buffer.name for buffer in made.outputs] == ["y"]
    rows = {s.buffer.shape[-1] for s in walk_stmts(made.body) if isinstance(s, Alloc)
            and not s.buffer.name.endswith("_lanes")}
    assert rows == {1, shape[-1]}
    assert_computed(graph)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_norm_with_what_is_around_it_is_one_kernel(shape) -> None:
    net = Rows(*shape)
    scaled = net.op("tanh", net.op("mul", "x", "x"))
    graph = net.finish([net.op("tanh", net.norm(scaled))])
    assert len(names(graph)) == 1
    assert_computed(graph)


def test_norms_of_one_another_are_one_kernel() -> None:
    net = Rows(5, 40)
    graph = net.finish([net.softmax(net.norm(net.op("add", "x", net.norm("x"))))])
    assert len(names(graph)) == 1
    assert_computed(graph)


def test_what_ends_in_a_number_for_each_row() -> None:
    net = Rows(6, 50)
    apart = net.op("sub", "x", net.along("mean", "x"))
    graph = net.finish([net.op("sqrt", net.along("mean", net.op("mul", apart, apart)))])
    assert names(graph) == ["abcde"]
    assert_computed(graph)


@pytest.mark.parametrize(("shape", "axis", "keepdims"), [
    ((4, LONGEST_ROW + 1), 1, 1), ((3, 40, 5), 1, 1), ((50,), 0, 1), ((7, 30), 1, 0)])
def test_other_reductions_stand_alone(shape, axis: int, keepdims: int) -> None:
    net = Rows(*shape)
    total = net.along("reduce_sum", "x", axis, keepdims)
    graph = net.finish([net.op("tanh", net.op("tanh", total))])
    assert names(graph) == ["a", "bc"]
    assert_computed(graph)


def test_rows_of_different_lengths_are_different_kernels() -> None:
    net = Rows(6, 50)
    net.add_input("z", TensorType((6, 30), "float32"))
    both = net.op("add", net.along("mean", "x"), net.along("mean", "z"))
    graph = net.finish([net.op("mul", "x", both)])
    assert names(graph) == ["a", "bc", "d"]
    assert_computed(graph)


def test_what_moves_elements_stays_outside() -> None:
    net = Rows(6, 7, 50)
    turned = net.op("transpose", "x", perm=(1, 0, 2))
    graph = net.finish([net.op("transpose", net.softmax(turned), perm=(0, 2, 1))])
    assert names(graph) == ["a", "bcdef", "g"]
    assert_computed(graph)


def test_rows_that_are_no_numbers_stay_by_themselves() -> None:
    net = Rows(5, 100)
    graph = net.finish([net.softmax("x")])
    x = inputs_of(graph)["x"]
    x[1, 97], x[2, 3], x[3, :] = np.nan, np.inf, -np.inf
    found, = CpuTarget().compile(graph)({"x": x}).values()
    with np.errstate(invalid="ignore"):
        wanted, = evaluate(graph, {"x": x}).values()
    np.testing.assert_array_equal(np.isnan(found).any(1), [False, True, True, True, False])
    assert_near(found[::4], wanted[::4])


@pytest.mark.parametrize("op", ["reduce_max", "reduce_min"])
@pytest.mark.parametrize("columns", [32, 64, 100, 197])
def test_the_greatest_wherever_it_stands(op: str, columns: int) -> None:
    """Lanes, what is left behind them, and NaN, which is greater than all."""
    net = Rows(columns + 1, columns)
    graph = net.finish([net.along(op, "x")])
    x = np.zeros((columns + 1, columns), np.float32)
    np.fill_diagonal(x, -2 if op == "reduce_min" else 2)
    x[columns, columns // 2] = np.nan
    found, = CpuTarget().compile(graph)({"x": x}).values()
    wanted, = evaluate(graph, {"x": x}).values()
    np.testing.assert_array_equal(found, wanted)


def test_threads_share_rows() -> None:
    net = Rows(64, 4, 1000)
    graph = net.finish([net.norm("x")])
    inputs = inputs_of(graph)
    alone, together = CpuTarget().compile(graph), CpuTarget(threads=3).compile(graph)
    step, = together.steps
    assert step.kernel is not None and any(
        isinstance(s, For) and s.kind == "parallel" for s in walk_stmts(step.kernel.program.body))
    for name, array in alone(inputs).items():
        assert together(inputs)[name].tobytes() == array.tobytes()
