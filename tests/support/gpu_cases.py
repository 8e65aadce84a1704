"""Shipped schedules for GPUs over shapes and types, each with what NumPy says of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from compiler import te
from tests.support.gpu_schedules import (LARGE, MatmulTiles, argmax, convolution,
                                                     depthwise, matmul, matmul_bytes,
                                                     matmul_tensor_cores, reduce_rows,
                                                     schedule_argmax, schedule_bytes,
                                                     schedule_convolution, schedule_depthwise,
                                                     schedule_elementwise, schedule_matmul,
                                                     schedule_reduce_rows, schedule_softmax,
                                                     schedule_tensor_cores, schedule_transpose,
                                                     softmax, transpose)
from compiler.cpu_gpu_backends.gpu.tensor_tiles import OFFERED
from compiler.ir import Program
from compiler.schedule import Schedule
from compiler.te import numpy_dtype

__all__ = ["CASES", "CUDA_CASES", "DTYPES", "GpuCase", "random_inputs"]

DTYPES = ("float32", "int8", "int32")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class GpuCase:
    """A schedule and what it computes, computed in another way. `rtol` is 0 where all sums of
    floats are of small integers, and exact.
    """

    name: str
    schedule: Callable[[str], Schedule]
    reference: Callable[[Arrays], np.ndarray]
    rtol: float = 0

    def __str__(self) -> str:
        return self.name

    @cached_property
    def program(self) -> Program:
        return self.schedule(self.name).program

    def check(self, inputs: Arrays, outputs: Arrays) -> None:
        name, found = next(iter(outputs.items()))       # the first is what is asked for
        wanted = self.reference(inputs)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if self.rtol:
            np.testing.assert_allclose(found, wanted, rtol=self.rtol, err_msg=name)
        else:
            np.testing.assert_array_equal(found, wanted, err_msg=name)


def random_inputs(program: Program, rng: np.random.Generator) -> Arrays:
    """Integers of the whole range of their type; floats that are small integers."""
    return {b.name: random(numpy_dtype(b.dtype), b.shape, rng) for b in program.inputs}


def random(dtype: np.dtype, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if dtype.kind == "i":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.integers(-8, 9, shape).astype(dtype)


def _label(kind: str, dtype: str, *numbers: int) -> str:
    return "_".join([kind, dtype, *map(str, numbers)])


def _elementwise() -> Iterator[GpuCase]:
    for dtype in DTYPES:
        for lanes in (1, 4):
            for shape in ((256,), (100,), (3, 7, 5), (4, 64)):
                yield GpuCase(_label("relu", dtype, *shape, lanes),
                              partial(_relu, shape, dtype, lanes),
                              lambda x: np.maximum(x["a"] + x["b"], 0))


def _relu(shape: tuple[int, ...], dtype: str, lanes: int, name: str) -> Schedule:
    a, b = (te.placeholder(shape, dtype, name=label) for label in "ab")
    y = te.compute(shape, lambda *i: te.maximum(a[i] + b[i], 0), name="y")
    return schedule_elementwise(y, name, 64, lanes)


def _transpose() -> Iterator[GpuCase]:
    for dtype in DTYPES:
        for rows, columns in ((32, 32), (64, 96), (50, 37), (7, 100)):
            y = transpose(rows, columns, dtype)
            yield GpuCase(_label("transpose", dtype, rows, columns), partial(schedule_transpose, y),
                          lambda x: x["x"].T)


PLANS = (MatmulTiles(), MatmulTiles(stages=1),
         MatmulTiles(stages=2, lanes=4, block_m=16, thread_m=2))


def _matmul() -> Iterator[GpuCase]:
    for dtype in DTYPES:
        for plan, tiles in enumerate(PLANS):
            for m, n, k in ((32, 32, 24), (64, 64, 32), (50, 45, 27), (33, 17, 24)):
                schedule = partial(schedule_matmul, matmul(m, n, k, dtype), tiles=tiles)
                yield GpuCase(_label("matmul", dtype, m, n, k, plan), schedule, _product)
    large = partial(schedule_matmul, matmul(130, 140, 40, "float32"), tiles=LARGE)
    yield GpuCase("matmul_float32_130_140_40_large", large, _product)


def _product(x: Arrays) -> np.ndarray:
    a, b = x["a"], x["b"]
    total = np.int32 if a.dtype.kind == "i" else np.float32
    return a.astype(total) @ b.astype(total)


def _reductions() -> Iterator[GpuCase]:
    for dtype in DTYPES:
        for op in ("sum", "max", "min"):
            for rows, columns, threads, together in ((4, 256, 64, 1), (5, 200, 64, 1),
                                                     (3, 33, 48, 1), (6, 64, 32, 4)):
                schedule = partial(schedule_reduce_rows, reduce_rows(op, rows, columns, dtype),
                                   threads=threads, rows=together)
                yield GpuCase(_label(op, dtype, rows, columns, together), schedule,
                              partial(_reduced, op))


def _reduced(op: str, x: Arrays) -> np.ndarray:
    return getattr(np, op)(x["x"], axis=1).astype(x["x"].dtype)


def _softmax() -> Iterator[GpuCase]:
    for rows, columns in ((4, 128), (3, 77)):
        yield GpuCase(_label("softmax", "float32", rows, columns),
                      partial(schedule_softmax, softmax(rows, columns)), _softmax_of, 1e-5)


def _softmax_of(x: Arrays) -> np.ndarray:
    e = np.exp(x["x"] - x["x"].max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _convolutions() -> Iterator[GpuCase]:
    for dtype in DTYPES:
        for channels, size, kernel in ((2, 32, 3), (1, 64, 5), (2, 40, 3)):
            y = depthwise(channels, size, kernel, dtype)
            yield GpuCase(_label("depthwise", dtype, channels, size, kernel),
                          partial(schedule_depthwise, y), _depthwise_of)
        for channels, filters, size in ((4, 8, 18), (5, 10, 21)):
            y = convolution(channels, filters, size, 3, dtype)
            yield GpuCase(_label("convolution", dtype, channels, filters, size),
                          partial(schedule_convolution, y), _convolution_of)


def _depthwise_of(x: Arrays) -> np.ndarray:
    total = np.int32 if x["image"].dtype.kind == "i" else np.float32
    image, weight = x["image"].astype(total), x["weight"].astype(total)
    kernel, size = weight.shape[1], image.shape[1]
    padded = np.pad(image, ((0, 0), (kernel // 2,) * 2, (kernel // 2,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))
    assert windows.shape[1:3] == (size, size)
    return (windows * weight[:, None, None]).sum((3, 4)).astype(total)


def _convolution_of(x: Arrays) -> np.ndarray:
    total = np.int32 if x["image"].dtype.kind == "i" else np.float32
    image, weight = x["image"].astype(total), x["weight"].astype(total)
    kernel = weight.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(image, kernel, (1, 2))
    return np.einsum("chwij,fcij->fhw", windows, weight).astype(total)


def _argmax() -> Iterator[GpuCase]:
    for dtype in DTYPES:
        for rows, columns in ((4, 64), (3, 50)):
            yield GpuCase(_label("argmax", dtype, rows, columns),
                          partial(schedule_argmax, argmax(rows, columns, dtype)),
                          lambda x: np.argmax(x["x"], axis=1))


def _dot_products() -> Iterator[GpuCase]:
    for m, n, k in ((32, 32, 16), (20, 33, 10)):
        yield GpuCase(_label("dp4a", "int8", m, n, k),
                      partial(schedule_bytes, matmul_bytes(m, n, k)), _product_by_rows)


def _product_by_rows(x: Arrays) -> np.ndarray:
    """Operands lie with their depth last, in one dimension or in several."""
    a, b = (x[name].reshape(len(x[name]), -1) for name in "ab")
    total = np.int32 if a.dtype == np.int8 else np.float32
    return a.astype(total) @ b.astype(total).T


SMALL, WIDE = OFFERED[-1], OFFERED[0]
TENSOR_CORES = (
    ("f16", (64, 64, 128), SMALL, ""), ("f16", (70, 50, 40), SMALL, "b"),
    ("f16", (9, 130, 33), SMALL, "a"), ("f16", (33, 20, 24, 2), SMALL, "ab"),
    ("bf16", (40, 72, 64), OFFERED[2], "b"), ("f16", (130, 140, 96), OFFERED[1], ""),
    ("tf32", (64, 64, 48), SMALL, ""), ("tf32", (20, 36, 30), SMALL, "b"),
    ("s8", (64, 64, 256), SMALL, ""), ("s8", (70, 50, 100), SMALL, "b"),
    ("s8", (35, 17, 65, 3), SMALL, "a"), ("s8", (96, 260, 64), WIDE, ""))
"""Kinds, shapes with a number of products last, tiles, operands with their depth first."""


def _tensor_cores() -> Iterator[GpuCase]:
    for kind, shape, tiles, turned in TENSOR_CORES:
        y = matmul_tensor_cores(*shape[:3], kind, *shape[3:], transposed=turned)
        yield GpuCase(_label("mma", kind, *shape, OFFERED.index(tiles)),
                      partial(schedule_tensor_cores, y, tiles=tiles),
                      partial(_product_of_tiles, turned))


def _product_of_tiles(turned: str, x: Arrays) -> np.ndarray:
    total = np.int32 if x["a"].dtype == np.int8 else np.float32
    a, b = (x[name].astype(total) for name in "ab")
    a, b = (y.swapaxes(-1, -2) if name in turned else y for name, y in (("a", a), ("b", b)))
    return a @ b.swapaxes(-1, -2)


CASES = (*_elementwise(), *_transpose(), *_matmul(), *_reductions(), *_softmax(),
         *_convolutions(), *_argmax(), *_dot_products())
"""Without what only GPUs have: these run in OpenCL too."""

CUDA_CASES = tuple(_tensor_cores())
