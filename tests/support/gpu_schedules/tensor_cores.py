"""Matrix product on tensor cores: each warp holds a tile of the result in fragments."""

from compiler import te
from compiler.cpu_gpu_backends.gpu.tensor_tiles import (OFFERED, TensorTiles, tensor_product_of,
                                                        tile_tensors)
from compiler.cpu_gpu_backends.intrinsics.gpu import MMA
from compiler.schedule import Schedule
from compiler.te import Tensor

__all__ = ["matmul_tensor_cores", "schedule_tensor_cores"]


def matmul_tensor_cores(m: int, n: int, k: int, kind: str, batch: int = 1,
                        transposed: str = "") -> Tensor:
    """``c[l, i, j] = sum(a[l, i, k] * b[l, j, k])``, with types and rounding of `MMA`'s `kind`;
    without `l` where `batch` is 1. The operands that `transposed` names, ``a``, ``b`` or ``ab``,
    lie with their depth first, as ``a[k, i]``.
    """
    dtype, total = MMA[kind].dtype, MMA[kind].total
    lead = (batch,) if batch > 1 else ()
    r = te.reduce_axis(k, name="k")

    def operand(name: str, rows: int):
        shape = (k, rows) if name in transposed else (rows, k)
        tensor = te.placeholder((*lead, *shape), dtype, name=name)

        def taken(*index: te.Expr) -> te.Expr:
            *outer, row = index
            value = tensor[(*outer, r, row) if name in transposed else (*outer, row, r)]
            return te.tf32(value) if kind == "tf32" else value.astype(total)
        return taken

    a, b = operand("a", m), operand("b", n)
    if lead:
        return te.compute((batch, m, n), lambda l, i, j: te.sum(a(l, i) * b(l, j), axis=r),
                          name="c")
    return te.compute((m, n), lambda i, j: te.sum(a(i) * b(j), axis=r), name="c")


def schedule_tensor_cores(c: Tensor, name: str, tiles: TensorTiles = OFFERED[-1]) -> Schedule:
    """The schedule of `tile_tensors`. Shapes are any."""
    schedule = Schedule([c], name)
    product = tensor_product_of(schedule.program)
    assert product is not None
    tile_tensors(schedule, product, tiles)
    return schedule
