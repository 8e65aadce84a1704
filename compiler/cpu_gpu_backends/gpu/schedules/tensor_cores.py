"""Matrix product on tensor cores: each warp holds a tile of the result in fragments."""

from compiler import te
from compiler.cpu_gpu_backends.intrinsics.gpu import MMA, mma, mma_fill, mma_store
from compiler.schedule import (Schedule, decompose_reduction, pipeline, storage_align, tensorize,
                               vectorize)
from compiler.te import Tensor

from .cooperative import bind_all

__all__ = ["matmul_tensor_cores", "schedule_tensor_cores"]

ROWS, COLUMNS, WARP, LOAD_BYTES = 16, 8, 32, 16


def matmul_tensor_cores(m: int, n: int, k: int, kind: str) -> Tensor:
    """``c[i, j] = sum(a[i, k] * b[j, k])``, with types and rounding of `MMA`'s `kind`."""
    dtype, total = MMA[kind].dtype, MMA[kind].total
    a, b = te.placeholder((m, k), dtype, name="a"), te.placeholder((n, k), dtype, name="b")
    r = te.reduce_axis(k, name="k")

    def taken(value: te.Expr) -> te.Expr:
        return te.tf32(value) if kind == "tf32" else value.astype(total)

    return te.compute((m, n), lambda i, j: te.sum(taken(a[i, r]) * taken(b[j, r]), axis=r),
                      name="c")


def schedule_tensor_cores(c: Tensor, kind: str, name: str, rows: int = 32, columns: int = 32,
                          warps: int = 2, stages: int = 1) -> Schedule:
    """Blocks of `rows` by `columns`; a warp takes some of the rows and all columns. The shape is a
    multiple of the block, and the depth of two instructions, one step of the pipeline.
    """
    depth = MMA[kind].depth
    schedule = Schedule([c], name)
    schedule[c].cache_write("fragment", name="acc")
    by, bx, i, j = schedule[c].tile("i", "j", rows, columns)
    warp, i = schedule[c].split(i, rows // warps, "warp", "row")
    schedule[c].reorder(by, bx, warp, i, j)
    schedule["acc"].compute_at(warp)
    bind_all(schedule, by=by, bx=bx, ty=warp)
    step, k = schedule["acc"].split("k", 2 * depth, "k_step", "k_in")
    part, k = schedule["acc"].split(k, depth, "k_part", "k_lane")
    i, i_tile = schedule["acc"].split("acc_i", ROWS, "m", "i_tile")
    j, j_tile = schedule["acc"].split("acc_j", COLUMNS, "n", "j_tile")
    schedule["acc"].reorder(step, part, i, j, i_tile, j_tile, k, reassociate=True)
    for operand in ("a", "b"):
        _fetch(schedule, operand, step, warps, 8 * LOAD_BYTES // te.bits(MMA[kind].dtype))
    if stages:
        schedule.apply(pipeline, step, 0, 0, stages, asynchronous=True)
    schedule.apply(decompose_reduction, "acc", step)
    schedule.apply(tensorize, "i_tile_init", mma_fill(c.dtype))
    schedule.apply(tensorize, i_tile, mma(kind))
    _store(schedule, c)
    return schedule


def _fetch(schedule: Schedule, operand: str, at: str, warps: int, lanes: int) -> None:
    """A tile of rows of 16 bytes, one a thread, with a gap after each so that columns of it lie
    in other banks.
    """
    tile = f"{operand}_tile"
    schedule[operand].cache_read("shared", name=tile).compute_at(at)
    schedule.apply(storage_align, tile, 0, 2 * lanes, lanes)
    stage = schedule[tile]
    column, lane = stage.split(f"{tile}_1", lanes)
    schedule.apply(vectorize, lane)
    _, thread = stage.split(stage.fuse(f"{tile}_0", column), warps * WARP)
    row, thread = stage.split(thread, WARP)
    bind_all(schedule, ty=row, tx=thread)


def _store(schedule: Schedule, c: Tensor) -> None:
    stage = schedule[c]
    i, i_tile = stage.split("row", ROWS, "m_out", "i_out")
    j, j_tile = stage.split("c_j_i", COLUMNS, "n_out", "j_out")
    stage.reorder(i, j, i_tile, j_tile)
    schedule.apply(tensorize, i_tile, mma_store(c.dtype))
