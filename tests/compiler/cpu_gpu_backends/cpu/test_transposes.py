"""Squares that are transposed in registers: by the instruction alone, and where copies use it."""

from dataclasses import replace

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.cpu.schedules.schedule import map_by_vectors, schedule
from compiler.cpu_gpu_backends.cpu.schedules.row_tiles import axes_of
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.instruction_sets import ANY, AVX2, AVX512
from compiler.cpu_gpu_backends.intrinsics.cpu import transpose
from compiler.cpu_gpu_backends.llvm import build, emit
from compiler.ir import Program, Tensorized, lower, program_text, verify, walk_stmts
from compiler.schedule import Schedule, tensorize

SQUARES = [("float32", 4), ("float32", 8), ("float32", 16), ("int32", 8), ("int8", 16),
           ("uint8", 16)]
LONG = {vectors.lanes: Vectors(replace(vectors, registers=16)) for vectors in (AVX512, AVX2, ANY)}
"""Vectors with enough registers, by their lanes."""


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Any bits, those of NaN among them, but no two alike in a row of 256."""
    count, rng = int(np.prod(shape)), np.random.default_rng(0)
    kind = np.dtype(dtype)
    bits = rng.permutation(count).astype(f"uint{8 * kind.itemsize}")
    return (bits * (1 if kind.itemsize == 1 else 0x01010101)).view(kind).reshape(shape)


def assert_copies(program: Program, x: np.ndarray, expected: np.ndarray) -> None:
    found = build(verify(program)).compute({"x": x})["y"]
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize(("dtype", "lanes"), SQUARES)
def test_a_square(dtype: str, lanes: int) -> None:
    """Also of vectors that the processor at hand has to make of several."""
    x = te.placeholder((lanes + 1, lanes + 3), dtype, "x")
    y = te.compute((lanes, lanes), lambda i, j: x[j + 1, i + 2], "y")
    s = Schedule(lower([y], "f"))
    s.apply(tensorize, axes_of(s.program, "y")[0], replace(transpose(dtype, lanes), needs=()))
    assert "shufflevector" in emit(s.program)
    array = numbers(x.shape, dtype)
    assert_copies(s.program, array, array[1:, 2:lanes + 2].T)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(2, 64, 16), (1, 37, 16), (3, 16, 49), (1, 19, 83), (1, 3, 100)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
@pytest.mark.parametrize("lanes", [16, 8, 4])
def test_copies_of_any_size(shape: tuple[int, ...], dtype: str, lanes: int) -> None:
    x = te.placeholder(shape, dtype, "x")
    y = te.compute((shape[0], shape[2], shape[1]), lambda n, c, p: x[n, p, c], "y")
    s = map_by_vectors(lower([y], "f"), LONG[lanes])
    used = any(isinstance(stmt, Tensorized) for stmt in walk_stmts(s.program.body))
    least = {"float32": 4, "int8": 16, "float64": 1000}[dtype]
    assert used == (min(shape[1:]) >= least)
    array = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    assert_copies(s.program, array, array.transpose(0, 2, 1))
    assert schedule(lower([y], "f"), LONG[lanes], s.text()) == s.program


def test_axes_in_between() -> None:
    x = te.placeholder((1, 5, 20, 24), "float32", "x")
    y = te.compute((1, 24, 5, 20), lambda n, c, h, w: x[n, h, w, c], "y")
    array = np.arange(2400, dtype=np.float32).reshape(x.shape)
    more = te.compute(y.shape, lambda n, c, h, w: x[n, h, w, c] + 1.0, "y")
    for made, added in ((y, 0), (more, 1)):
        s = map_by_vectors(lower([made], "f"), Vectors(AVX2))
        found = build(verify(s.program)).compute({"x": array})["y"]
        np.testing.assert_array_equal(found, array.transpose(0, 3, 1, 2) + added)


def test_quotients_become_loops() -> None:
    """Pixels of four images that lie between each other, as after a transposed convolution."""
    x = te.placeholder((2, 2, 5, 7, 16), "float32", "x")
    y = te.compute((16, 140), lambda c, p: x[p // 14 % 2, p % 14 % 2, p // 14 // 2, p % 14 // 2, c],
                   "y")
    made = map_by_vectors(lower([y], "f"), Vectors(AVX512)).program
    assert "//" not in program_text(made)
    assert "%" not in program_text(made)
    array = np.arange(2240, dtype=np.float32).reshape(x.shape)
    assert_copies(made, array, array.transpose(4, 2, 0, 3, 1).reshape(16, 140))


def test_quotients_that_split_no_loop_stay() -> None:
    x = te.placeholder((4, 7), "float32", "x")
    y = te.compute((25,), lambda p: x[p // 7, p % 7], "y")
    made = map_by_vectors(lower([y], "f"), Vectors(AVX512)).program
    assert "//" in program_text(made)
    array = np.arange(28, dtype=np.float32).reshape(x.shape)
    assert_copies(made, array, array.reshape(-1)[:25])


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 2), ("int8", 8), ("int16", 8)])
def test_other_squares_are_refused(dtype: str, lanes: int) -> None:
    with pytest.raises(ValueError, match="dtype and lanes must be"):
        transpose(dtype, lanes)
