"""Matrix product: tiles in shared memory, a tile of the result in the registers of each thread."""

from dataclasses import dataclass

from compiler import te
from compiler.cpu_gpu_backends.gpu.stages import padded
from compiler.schedule import Schedule, pipeline
from compiler.te import Extent, Tensor

from .cooperative import bind_all, place, unroll_all

__all__ = ["LARGE", "MatmulTiles", "matmul", "schedule_matmul"]


def matmul(m: Extent, n: Extent, k: int, dtype: str) -> Tensor:
    """``c = a @ b``; products of bytes are summed in 32 bits, of 16-bit floats in float32."""
    total = {"int8": "int32", "float16": "float32", "bfloat16": "float32"}.get(dtype, dtype)
    a = te.placeholder((m, k), dtype, name="a")
    b = te.placeholder((k, n), dtype, name="b")
    r = te.reduce_axis(k, name="k")
    return te.compute((m, n), lambda i, j: te.sum(
        a[i, r].astype(total) * b[r, j].astype(total), axis=r), name="c")


@dataclass(frozen=True, slots=True)
class MatmulTiles:
    """Elements of the result that a block and a thread compute, and products at a time.

    `stages` are the tiles of operands under way before they are used: 0 loads, then computes.
    `lanes` are the neighbours that a thread loads at once.
    """

    block_m: int = 32
    block_n: int = 32
    block_k: int = 8
    thread_m: int = 4
    thread_n: int = 4
    stages: int = 0
    lanes: int = 1


LARGE = MatmulTiles(128, 128, 16, 8, 8, 1, 4)
"""For large matrices: 256 threads, each with 64 sums; vectors of four floats on every way."""


def schedule_matmul(c: Tensor, name: str, tiles: MatmulTiles = MatmulTiles()) -> Schedule:
    """Rows and columns may be symbols, where `tiles` have no stages: those copy ahead. Where they
    are numbers, operands are padded to whole tiles on their way to shared memory.
    """
    schedule = Schedule([c], name)
    schedule[c].cache_write("local", name="acc")
    (axis,) = c.reduce_axes
    block_m, block_n = (min(block, extent) if isinstance(extent, int) else block
                        for block, extent in zip((tiles.block_m, tiles.block_n), c.shape))
    for operand in "ab":
        schedule[operand].cache_read("global", name=f"{operand}_tile")
    if all(isinstance(extent, int) for extent in c.shape):
        block_k = min(tiles.block_k, axis.extent)
        for loop, block in (("a_tile_0", block_m), ("a_tile_1", block_k), ("b_tile_0", block_k),
                            ("b_tile_1", block_n), ("acc_i", block_m), ("acc_j", block_n),
                            (axis.name, block_k), ("c_i", block_m), ("c_j", block_n)):
            padded(schedule, loop, block)
    by, bx, i, j = schedule[c].tile("i", "j", block_m, block_n)
    ty, i = schedule[c].split(i, tiles.thread_m, "ty_", "i")
    tx, j = schedule[c].split(j, tiles.thread_n, "tx_", "j")
    schedule[c].reorder(by, bx, ty, tx, i, j)
    schedule["acc"].compute_at(tx)
    outer, k = schedule["acc"].split(axis.name, min(tiles.block_k, axis.extent), "k_tile", "k_in")
    schedule["acc"].reorder(outer, k, "acc_i", "acc_j")
    bind_all(schedule, by=by, bx=bx, ty=ty, tx=tx)
    rows, columns = -(-block_m // tiles.thread_m), -(-block_n // tiles.thread_n)
    for copy in ("a_tile", "b_tile"):
        schedule[copy].set_scope("shared")
        place(schedule, copy, outer, rows, columns, tiles.lanes)
    if tiles.stages:
        schedule.apply(pipeline, outer, 0, 0, tiles.stages, asynchronous=True)
    unroll_all(schedule, "acc_i", "acc_j", i, j)
    if tiles.lanes > 1:             # loads from shared memory are of so many steps too
        unroll_all(schedule, k)
    return schedule
