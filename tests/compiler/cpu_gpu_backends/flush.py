"""Runs kernels on buffers that lie flush against pages that cannot be accessed.

``python -m tests.compiler.cpu_gpu_backends.flush end|start [CHANGE]`` puts every input, output and
scratch buffer at the end, or at the start, of the pages that it may touch, and runs programs of
many ragged shapes. It prints each case before it runs it and compares the results with the
interpreter. An access outside ends the process with SIGSEGV. `CHANGE` names a mistake that is
planted in the code generator.
"""

import ctypes
import mmap
import sys
from collections.abc import Iterator

import numpy as np

from compiler import te
from tests.support.product_templates import TEMPLATES, product
from compiler.cpu_gpu_backends.llvm import host
from compiler.cpu_gpu_backends.llvm.objects import jit
from compiler.cpu_gpu_backends.llvm.emitting import statements
from compiler.cpu_gpu_backends.llvm.emitting.expressions import Expressions
from compiler.cpu_gpu_backends.llvm.objects.kernel import Kernel
from compiler.ir import Program, interpret, loops, lower
from compiler.schedule import reorder, split
from tests.compiler.cpu_gpu_backends.checks import marked, random_inputs

PAGE = mmap.PAGESIZE
_MAPPED: list[mmap.mmap] = []       # never given back: a late access would go unseen


def pages(nbytes: int, at_end: bool) -> int:
    """Address of `nbytes` between two pages that cannot be accessed, flush against one."""
    inside = -(-max(nbytes, 1) // PAGE) * PAGE
    memory = mmap.mmap(-1, inside + 2 * PAGE)
    _MAPPED.append(memory)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for fence in (first, first + PAGE + inside):
        if protect(ctypes.c_void_p(fence), ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    return first + PAGE + (inside - nbytes if at_end else 0)


def placed(shape: tuple[int, ...], dtype: str, at_end: bool) -> np.ndarray:
    numbers = te.numpy_dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * numbers.itemsize
    memory = (ctypes.c_uint8 * size).from_address(pages(size, at_end))
    return np.ctypeslib.as_array(memory).view(numbers).reshape(shape)


def fence_scratch(at_end: bool) -> None:
    """Local buffers too: all on the heap, and the heap is `pages`."""
    statements._ON_STACK = 0
    allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(
        lambda alignment, size: pages(size, at_end))
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda pointer: None)
    for name, function in (("aligned_alloc", allocate), ("free", free)):
        jit.FOREIGN[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
        _KEPT.append(function)


_KEPT: list = []

RAGGED = [(m, k, n) for m, k, n in zip(
    (1, 1, 2, 3, 3, 5, 7, 9, 4, 8, 6, 11), (1, 5, 2, 3, 7, 4, 9, 1, 16, 3, 17, 13),
    (1, 3, 7, 5, 9, 15, 17, 31, 33, 63, 65, 66))]
LENGTHS = (1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 19, 23, 31, 33, 37, 47, 61, 63, 64, 65, 67, 68, 95,
           100, 127, 129, 200)
IMAGES = ((1, 1), (2, 3), (5, 5), (6, 9), (7, 17), (8, 33))


def cut(program: Program, loop: str, factor: int) -> Program:
    extent = next(one.extent for one in loops(program.body) if one.var.name == loop)
    return split(program, loop, min(factor, extent))


def matrix_product(m: int, k: int, n: int, dtype: str) -> Program:
    a, b = te.placeholder((m, k), dtype, "a"), te.placeholder((k, n), dtype, "b")
    q = te.reduce_axis(k, "q")
    program = lower([te.compute((m, n), lambda i, j: te.sum(a[i, q] * b[q, j], q), "c")], "product")
    program = cut(cut(program, "c_j", 8), "c_i", 2)
    program = reorder(program, "c_i_o", "c_j_o", "q", "c_i_i", "c_j_i")
    return marked(program, c_j_i="vectorize", c_i_i="unroll", c_i_o="parallel")


def stages(length: int, dtype: str) -> Program:
    """Padding, a stencil, a reversal and a step of two, through scratch."""
    x = te.placeholder((length,), dtype, "x")
    padded = te.compute((length + 4,), lambda i: te.select(
        te.all_of(i >= 2, i < length + 2), x[i - 2], 0), "padded")
    stencil = te.compute((length,), lambda i: padded[i] + padded[i + 4] * 3, "stencil")
    y = te.compute((2 * length,), lambda i: te.select(
        (i % 2).equal(0), stencil[length - 1 - i // 2], x[i // 2]), "y")
    program = cut(lower([y], "stages"), "y_i", 16)
    return marked(program, padded_i="vectorize", stencil_i="vectorize", y_i_i="vectorize")


def convolution(height: int, width: int) -> Program:
    x, w = te.placeholder((height, width), "float32", "x"), te.placeholder((3, 3), "float32", "w")
    r, s = te.reduce_axis(3, "r"), te.reduce_axis(3, "s")

    def inside(i, j):
        return te.all_of(i >= 1, i < height + 1, j >= 1, j < width + 1)

    y = te.compute((height, width), lambda i, j: te.sum(te.select(
        inside(i + r.var, j + s.var), x[i + r.var - 1, j + s.var - 1], 0.0) * w[r, s], (r, s)), "y")
    program = cut(lower([y], "convolution"), "y_j", 8)
    program = reorder(program, "r", "s", "y_j_i")
    return marked(program, y_j_i="vectorize", y_i="parallel")


def turned(m: int, n: int) -> Program:
    x = te.placeholder((m, n), "int8", "x")
    program = lower([te.compute((n, m), lambda i, j: x[j, i], "y")], "turned")
    return marked(cut(program, "y_j", 4), y_j_i="vectorize")


def cases() -> Iterator[tuple[str, Program]]:
    for shape in RAGGED:
        for dtype in ("float32", "int8"):
            yield f"product {shape} {dtype}", matrix_product(*shape, dtype)
        yield f"turned {shape}", turned(shape[0], shape[2])
    for length in LENGTHS:
        for dtype in ("float32", "int16"):
            yield f"stages {length} {dtype}", stages(length, dtype)
    for image in IMAGES:
        yield f"convolution {image}", convolution(*image)
    for kind, way in TEMPLATES.items():
        for packed in (True, False):
            if host().has(*way.intrinsic(way.rows, way.columns, 64).needs):
                yield (f"{kind} packed={packed}",
                       product(kind, way.rows, 2 * way.columns, 64, packed))


def run(name: str, program: Program, at_end: bool) -> None:
    print(name, flush=True)
    inputs = random_inputs(program)
    arrays = [placed(buffer.shape, buffer.dtype, at_end)
              for buffer in (*program.inputs, *program.outputs)]
    for array, buffer in zip(arrays, program.inputs):
        array[...] = inputs[buffer.name]
    Kernel(program, contract=True)(*arrays)         # all sums are exact
    expected = interpret(program, inputs)
    for array, buffer in zip(arrays[len(program.inputs):], program.outputs):
        np.testing.assert_array_equal(array, expected[buffer.name])


def plant(change: str) -> None:
    """Mistakes that an access outside must show."""
    if change == "no masks":
        load = Expressions.load

        def unmasked(self, buffer, indices):
            lanes = self.lanes
            self.lanes = lanes and type(lanes)(lanes.var, lanes.count, lanes.first, lanes.numbers)
            value = load(self, buffer, indices)
            self.lanes = lanes
            return value

        Expressions.load = unmasked
    elif change == "one scratch element less":
        allocate = statements.Statements._allocate

        def short(self, buffer):
            allocate(self, buffer)
            name = self.buffers[buffer.name]
            self.buffers[buffer.name] = self.w.op(f"getelementptr i8, ptr {name}, i64 -64")

        statements.Statements._allocate = short
    else:
        raise SystemExit(f"change must be 'no masks' or 'one scratch element less', "
                         f"not {change!r}")


if __name__ == "__main__":
    flush_at_end = sys.argv[1] == "end"
    fence_scratch(flush_at_end)
    if sys.argv[2:]:
        plant(sys.argv[2])
    for case_name, case in cases():
        run(case_name, case, flush_at_end)
    print("all")
