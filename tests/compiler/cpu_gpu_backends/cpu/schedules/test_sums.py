"""Sums of floats on the host: within the stated bound, along any axes, in one order always."""

import math
import os
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler import te
from compiler.cpu_gpu_backends.cpu.schedules.schedule import schedule
from compiler.cpu_gpu_backends.cpu.schedules.sums import MOST, most_roundings
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm import instruction_sets as sets
from compiler.cpu_gpu_backends.llvm import build, set_threads
from compiler.frontend.onnx.importing import convert
from compiler.graph import Builder, Graph, TensorType, evaluate, optimize
from compiler.ir import Program, interpret, lower, program_text, verify
from compiler.ops.registry import expression

Array = np.ndarray
ROUNDING = 2.0**-24
AVX2 = Vectors(replace(sets.AVX2, registers=8))


def graph(op: str, *shapes: tuple[int, ...], dtype: str = "float32", **attrs) -> Graph:
    net = Builder(op)
    for place, shape in enumerate(shapes):
        net.add_input(f"x{place}", TensorType(shape, dtype))
    net.emit(op, op, [f"x{place}" for place in range(len(shapes))], "y", **attrs)
    return net.finish(["y"])


def computed(op: str, *arrays: Array, **attrs) -> Array:
    made = graph(op, *(x.shape for x in arrays), dtype=arrays[0].dtype.name, **attrs)
    return CpuTarget().compile(made)({f"x{place}": x for place, x in enumerate(arrays)})["y"]


def total(x: Array, *axes: int) -> Array:
    return computed("reduce_sum", x, axes=axes, keepdims=0)


def far_first(*shape: int, axes: tuple[int, ...]) -> Array:
    """Ones, but for the first terms of each sum, which are so large that one more changes nothing.
    """
    x = np.ones(shape, np.float32)
    x[tuple(0 if axis in axes else slice(None) for axis in range(len(shape)))] = 2**24
    return x


def assert_bounded(found: Array, exact: Array, size: Array, terms: int, more: int = 2) -> None:
    """Asserts the bound; `size` sums the terms' sizes, `more` counts further roundings."""
    bound = (most_roundings(terms) + more) * ROUNDING * size
    assert (np.abs(found - exact) <= bound).all(), np.max(np.abs(found - exact) / size) / ROUNDING


def test_ones_do_not_stop_where_a_float_has_no_more_places() -> None:
    assert total(np.ones(1 << 26, np.float32), 0) == 1 << 26


SHAPES = [((4096,), (0,)), ((5003,), (0,)), ((3, 4099), (1,)), ((4099, 3), (0,)),
          ((4099, 40), (0,)), ((2, 4099, 5), (1,)), ((2, 4099, 50), (1,)), ((70, 3, 70), (0, 2)),
          ((70, 3, 71), (0, 2)), ((17, 19, 23), (0, 1, 2)), ((1031, 2, 3), (0, 1)),
          ((2, 3, 1031), (1, 2)), ((600, 1, 600), (0, 2)), ((300, 7), (0,)), ((65537, 1), (0,))]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_small_terms_behind_a_large_one_count(shape, axes) -> None:
    x = far_first(*shape, axes=axes)
    exact = x.sum(axes, dtype=np.float64)
    assert_bounded(total(x, *axes), exact, exact, math.prod(shape[axis] for axis in axes))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_sums_of_both_signs_are_near_the_exact_ones(shape, axes, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * 10.0**rng.integers(-3, 4, shape)).astype(np.float32)
    rows = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(
        *(n for axis, n in enumerate(shape) if axis not in axes), -1)
    exact = np.apply_along_axis(math.fsum, -1, rows.astype(np.float64))
    terms = math.prod(shape[axis] for axis in axes)
    assert_bounded(total(x, *axes), exact, np.abs(rows).sum(-1, dtype=np.float64), terms)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_added_in_single_precision(dtype: str) -> None:
    x = np.ones((2, 20000), te.numpy_dtype(dtype))
    np.testing.assert_array_equal(total(x, 1).astype(np.float32),
                                  np.full(2, 20000).astype(x.dtype).astype(np.float32))


def test_sums_of_float64_are_near_the_exact_ones() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5003))
    exact = np.array([math.fsum(row) for row in x])
    assert (np.abs(total(x, 1) - exact) <= 500 * 2.0**-53 * np.abs(x).sum(1)).all()


def test_products_over_many_terms_are_within_the_bound() -> None:
    depth = 5000
    a, b = far_first(3, depth, axes=(1,)), np.ones((depth, 20), np.float32)
    size = np.broadcast_to(a.sum(1, dtype=np.float64)[:, None], (3, 20))
    assert_bounded(computed("matmul", a, b), size, size, depth)
    assert_bounded(computed("dense", a, b, trans_b=0), size, size, depth)
    assert_bounded(computed("dense", a, np.ascontiguousarray(b.T), trans_b=1), size, size, depth)


def test_convolutions_over_many_channels_are_within_the_bound() -> None:
    x = far_first(1, 600, 4, 5, axes=(1,))
    w = np.ones((4, 600, 3, 3), np.float32)
    made = computed("conv2d", x, w, strides=(1, 1), pads=(1, 1, 1, 1))
    exact = evaluate(graph("conv2d", x.shape, w.shape, strides=(1, 1), pads=(1, 1, 1, 1)),
                     {"x0": x, "x1": w})["y"]
    assert_bounded(made, exact, exact, 5400)


def test_running_sums_are_within_the_bound() -> None:
    x = far_first(2, 3000, axes=(1,))
    exact = x.cumsum(1, dtype=np.float64)
    assert_bounded(computed("cumsum", x, axis=1, exclusive=0, reverse=0), exact, exact, 3000)


def test_planes_are_averaged_within_a_rounding() -> None:
    x = far_first(1, 3, 70, 71, axes=(2, 3))
    exact = x.mean((2, 3), keepdims=True, dtype=np.float64)
    assert_bounded(computed("globalavgpool", x), exact, exact, 1, 0)


@pytest.mark.parametrize(("op", "attrs", "wanted"), [
    ("ReduceSum", {}, lambda x: x.sum()), ("ReduceMean", {}, lambda x: x.mean()),
    ("ReduceSumSquare", {}, lambda x: (x * x).sum()), ("ReduceL1", {}, lambda x: abs(x).sum()),
    ("ReduceL2", {}, lambda x: np.sqrt((x * x).sum())),
    ("ReduceLogSumExp", {}, lambda x: np.log(np.exp(x).sum())),
    ("Softmax", {"axis": 1}, lambda x: np.exp(x) / np.exp(x).sum()),
])
def test_operators_of_onnx_that_add(op: str, attrs: dict, wanted) -> None:
    """Within 2e-5: a quarter of a million terms, one by one, end more than 1e-3 off."""
    x = np.full((1, 1 << 18), np.float32(0.1))
    node = helper.make_node(op, ["x"], ["y"], **attrs)
    model = helper.make_model(helper.make_graph(
        [node], op, [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]),
        opset_imports=[helper.make_opsetid("", 18)])
    found, = CpuTarget().compile(optimize(convert(model, op)))({"x": x}).values()
    exact = np.broadcast_to(wanted(x.astype(np.float64)), found.shape)
    np.testing.assert_allclose(found, exact, rtol=2e-5)


def test_any_number_of_threads_gives_the_same_bytes() -> None:
    x = np.random.default_rng(0).standard_normal((7, 30011)).astype(np.float32)
    found = []
    try:
        for threads in (1, 2, 3, 5):
            set_threads(threads)
            found.append(total(x, 1).tobytes())
    finally:
        set_threads(os.cpu_count() or 1)
    assert len(set(found)) == 1


def test_every_processor_adds_in_the_same_order() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, 1000)), rng.standard_normal((1000, 16))
    arrays = {"x0": x.astype(np.float32), "x1": w.astype(np.float32)}
    found = {build(program("matmul", {}, (3, 1000), (1000, 16), vectors=vectors)
                   ).compute(arrays)["y"].tobytes()
             for vectors in (Vectors(sets.ANY), AVX2, Vectors(sets.AVX512))}
    assert len(found) == 1


def program(op: str, attrs: dict, *shapes: tuple[int, ...], dtype: str = "float32",
            vectors: Vectors = AVX2) -> Program:
    inputs = [te.placeholder(shape, dtype, f"x{place}") for place, shape in enumerate(shapes)]
    return verify(schedule(lower([expression(op, attrs, inputs, "y")], op), vectors))


@pytest.mark.parametrize(("shape", "axes"), [((2, 300), (1,)), ((601, 5), (0,)), ((7, 43), (0, 1))])
def test_native_code_adds_as_the_program_says(shape, axes) -> None:
    made = program("reduce_sum", {"axes": axes, "keepdims": 0}, shape)
    given = {"x0": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    assert interpret(made, given)["y"].tobytes() == build(made).compute(given)["y"].tobytes()


def test_integers_stay_in_order() -> None:
    assert "lanes" not in program_text(
        program("reduce_sum", {"axes": (1,), "keepdims": 0}, (2, 4096), dtype="int32"))


def test_a_row_is_added_in_lanes_and_these_by_halves() -> None:
    assert program_text(program("reduce_sum", {"axes": (1,), "keepdims": 0}, (3, 35))) == """\
program reduce_sum(x0: float32[3, 35]) -> y: float32[3]
for y_i0 in 0..3:
  alloc y_r1_lanes: float32[8]
  for y_r1_lane_first in 0..8 (vectorize):
    y_r1_lanes[y_r1_lane_first] = -0.0
  for y_r1_o in 0..4:
    for y_r1_i in 0..8 (vectorize):
      y_r1_lanes[y_r1_i] += x0[y_i0, y_r1_o*8 + y_r1_i] over(y_r1_o)
  for y_r1_rest in 0..3 (vectorize):
    y_r1_lanes[y_r1_rest] += x0[y_i0, y_r1_rest + 32]
  for y_r1_4 in 0..4 (vectorize):
    y_r1_lanes[y_r1_4] += y_r1_lanes[y_r1_4 + 4]
  for y_r1_2 in 0..2 (vectorize):
    y_r1_lanes[y_r1_2] += y_r1_lanes[y_r1_2 + 2]
  for y_r1_1 in 0..1 (vectorize):
    y_r1_lanes[y_r1_1] += y_r1_lanes[y_r1_1 + 1]
  y[y_i0] = y_r1_lanes[0]
"""


def test_a_column_is_added_in_blocks() -> None:
    """A block has the largest number of terms that divides them, up to the most."""
    assert program_text(program("reduce_sum", {"axes": (0,), "keepdims": 0}, (500, 3))) == """\
program reduce_sum(x0: float32[500, 3]) -> y: float32[3]
for y_i0 in 0..3:
  for y_r0_o in 0..2:
    alloc y_r0_i_part: float32[]
    y_r0_i_part[] = -0.0
    for y_r0_i in 0..250:
      y_r0_i_part[] += x0[y_r0_o*250 + y_r0_i, y_i0] over(y_r0_i)
    y[y_i0] += y_r0_i_part[] begin(y_r0_o)
"""


@pytest.mark.parametrize("terms", [1, 255, MOST, MOST + 1, 10**4, 10**6, 1 << 26, 10**9 + 7])
def test_the_bound_grows_with_the_logarithm(terms: int) -> None:
    assert most_roundings(terms) <= min(terms + 384, 32 * math.log2(terms + 1) + 96 + MOST)
