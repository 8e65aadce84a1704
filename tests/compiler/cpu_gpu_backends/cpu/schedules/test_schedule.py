"""The order of loops in host kernels: which are moved, and that results stay the same."""

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.cpu.schedules.schedule import walk_rows
from compiler.ir import For, Program, interpret, lower, program_text, verify, walk_stmts
from compiler.ops.registry import expression
from tests.support.operator_cases import CASES, OperatorCase


def program(case: OperatorCase) -> Program:
    inputs = [te.placeholder(array.shape, array.dtype.name, name)
              for name, array in zip(case.node.inputs, case.inputs, strict=True)]
    return lower([expression(case.op, case.node.attrs, inputs, "y")], case.op)


def loops(op: str, attrs: dict, *shapes: tuple[int, ...], dtype: str = "float32") -> list[str]:
    """Names of the loops of the scheduled operator, outermost first."""
    inputs = [te.placeholder(shape, dtype, f"x{i}") for i, shape in enumerate(shapes)]
    made = walk_rows(lower([expression(op, attrs, inputs, "y")], op)).program
    return [s.var.name for s in walk_stmts(made.body) if isinstance(s, For)]


@pytest.mark.slow
def test_rows_are_walked_in_all_kinds_of_reductions_and_results_stay_the_same() -> None:
    """To the bit."""
    walked = set()
    for case in CASES:
        plain = program(case)
        scheduled = walk_rows(plain).program
        if scheduled == plain:
            continue
        walked.add(case.op)
        inputs = dict(zip(case.node.inputs, case.inputs, strict=True))
        np.testing.assert_array_equal(interpret(verify(scheduled), inputs)["y"],
                                      interpret(plain, inputs)["y"], str(case))
    assert walked >= {"conv2d", "qconv2d", "maxpool", "matmul", "dense"}


def test_a_convolution_walks_rows_of_its_result() -> None:
    attrs = {"strides": (1, 2), "pads": (0, 0, 0, 0)}
    assert loops("conv2d", attrs, (1, 2, 9, 9), (3, 2, 3, 3)) == [
        "y_n", "y_c", "y_h", "y_rc", "y_kh", "y_kw", "y_w"]


def test_short_rows_stay_outside() -> None:
    attrs = {"strides": (1, 1), "pads": (0, 0, 0, 0)}
    assert loops("conv2d", attrs, (1, 2, 9, 3), (3, 2, 3, 1))[-1] == "y_kw"


def test_a_weight_with_its_reduction_in_rows_stays() -> None:
    assert loops("dense", {"trans_b": 1}, (1, 8), (6, 8)) == ["y_i0", "y_i1", "y_k"]
    assert loops("dense", {"trans_b": 0}, (1, 8), (8, 6)) == ["y_i0", "y_k", "y_i1"]


@pytest.mark.parametrize(("width", "dtype", "extents"), [
    (28, "int8", [2, 3, 14]), (24, "int8", [2, 3, 12]), (56, "int8", [3, 56]),
    (29, "int8", [3, 29]), (18, "int8", [3, 18]), (28, "float32", [3, 28]),
])
def test_rows_of_bytes_are_cut_where_it_pays(width, dtype, extents) -> None:
    x, y = te.placeholder((3, width), dtype, "x"), te.reduce_axis(3, "k")
    total = "int32" if dtype == "int8" else dtype
    made = walk_rows(lower([te.compute((width,), lambda w: te.sum(
        x[y.var, w].astype(total), y), "y")], "columns")).program
    assert [s.extent for s in walk_stmts(made.body) if isinstance(s, For)] == extents
    data = {"x": np.arange(3 * width).reshape(3, width).astype(dtype)}
    np.testing.assert_array_equal(interpret(verify(made), data)["y"], data["x"].sum(0))


def test_a_program_is_shown_as_it_runs() -> None:
    x, w = te.placeholder((2, 3), "float32", "x"), te.placeholder((3, 5), "float32", "w")
    made = walk_rows(lower([expression("matmul", {}, [x, w], "y")], "matmul")).program
    assert program_text(made) == """\
program matmul(x: float32[2, 3], w: float32[3, 5]) -> y: float32[2, 5]
for y_i0 in 0..2:
  for y_k in 0..3:
    for y_i1 in 0..5:
      y[y_i0, y_i1] += x[y_i0, y_k] * w[y_k, y_i1] begin(y_k)
"""
