"""Matrix product of bytes by ``dp4a``: four products at a time, of bytes that lie together."""

from compiler import te
from compiler.cpu_gpu_backends.intrinsics.gpu import dp4a
from compiler.schedule import Schedule, decompose_reduction, tensorize
from compiler.te import Tensor

from .cooperative import bind_all, inner

__all__ = ["matmul_bytes", "schedule_bytes"]


def matmul_bytes(m: int, n: int, k: int) -> Tensor:
    """``c[i, j] = sum(a[i, k, l] * b[j, k, l])``, l from 0 to 3; `k` counts groups of four."""
    a = te.placeholder((m, k, 4), "int8", name="a")
    b = te.placeholder((n, k, 4), "int8", name="b")
    group, byte = te.reduce_axis(k, name="k"), te.reduce_axis(4, name="l")
    return te.compute((m, n), lambda i, j: te.sum(
        a[i, group, byte].astype("int32") * b[j, group, byte].astype("int32"),
        axis=(group, byte)), name="c")


def schedule_bytes(c: Tensor, name: str, tile: int = 16, groups: int = 8) -> Schedule:
    """`tile` by `tile` threads, one element each; `groups` of both operands in shared memory."""
    schedule = Schedule([c], name)
    schedule[c].cache_write("local", name="acc")
    by, bx, ty, tx = schedule[c].tile("i", "j", tile, tile)
    schedule["acc"].compute_at(tx)
    bind_all(schedule, by=by, bx=bx, ty=ty, tx=tx)
    outer, _ = schedule["acc"].split("k", min(groups, c.reduce_axes[0].extent))
    for operand in ("a", "b"):
        shared = f"{operand}_tile"
        schedule[operand].cache_read("shared", name=shared).compute_at(outer)
        bind_all(schedule, ty=inner(schedule, shared, f"{shared}_0", tile),
                 tx=inner(schedule, shared, f"{shared}_1", tile))
    schedule.apply(decompose_reduction, "acc", outer)
    schedule.apply(tensorize, "l", dp4a())
    return schedule
