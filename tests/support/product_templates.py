"""Templates of matrix products for the CPU: schedules for its tile instructions.

`python -m bench cpu.speed --only intrinsics` measures them. The target `cpu` schedules networks by
`schedule` and `tiles`, not by these.

The algorithm::

    c[i, j] = sum(a[i, k] * b[k, j])        float32, bfloat16 into float32, or bytes into int32

reads b in panels, columns of one tile side by side (and two or four steps of them, for short
types). The schedule cuts c into tiles, hands each to an intrinsic of
`compiler.cpu_gpu_backends.intrinsics` and orders them so that what the next tile shares with the
last one is near. With ``packed`` the kernel takes b in panels already, as weights are; without,
packing is its first stage.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler import te
from compiler.cpu_gpu_backends.cpu.arrays import aligned
from compiler.cpu_gpu_backends.intrinsics.cpu import amx, amx_bf16, dot, fp32
from compiler.ir import Program
from compiler.schedule import Schedule
from compiler.te import Tensor, bits
from compiler.tensorize import Intrinsic

__all__ = ["TEMPLATES", "ProductTemplate", "in_panels", "product"]


@dataclass(frozen=True, slots=True)
class ProductTemplate:
    """How one kind of product is cut.

    Parameters
    ----------
    intrinsic : of (rows, columns, depth) of a tile.
    rows, columns : of a tile.
    depth : the largest of a tile; what is left over is a loop outside of all tiles, so that a
        panel of b stays in the first cache.
    a, b, c : element types.
    """

    intrinsic: Callable[[int, int, int], Intrinsic]
    rows: int
    columns: int
    depth: int
    a: str
    b: str
    c: str

    @property
    def together(self) -> int:
        """Steps of b side by side."""
        return 32 // bits(self.b)


TEMPLATES = {
    "fp32_avx512": ProductTemplate(lambda r, c, d: fp32(r, c, d, 16), 8, 32, 256,
                           "float32", "float32", "float32"),
    "fp32_avx2": ProductTemplate(lambda r, c, d: fp32(r, c, d, 8), 4, 16, 256,
                         "float32", "float32", "float32"),
    "vnni": ProductTemplate(lambda r, c, d: dot(r, c, d, "uint8", 16), 8, 32, 1024,
                    "uint8", "int8", "int32"),
    "avx_vnni": ProductTemplate(lambda r, c, d: dot(r, c, d, "uint8", 8), 4, 16, 1024,
                        "uint8", "int8", "int32"),
    "amx": ProductTemplate(amx, 32, 32, 1024, "int8", "int8", "int32"),
    "amx_bf16": ProductTemplate(amx_bf16, 32, 32, 1024, "bfloat16", "bfloat16", "float32"),
    "neon_dot": ProductTemplate(lambda r, c, d: dot(r, c, d, "int8", 4), 4, 16, 1024,
                        "int8", "int8", "int32"),
}
"""Kinds of products by name."""


def product(kind: str, rows: int, columns: int, depth: int, packed: bool = True) -> Program:
    """Program of one kind: inputs a and b, output c.

    Raises ValueError for a kind that is not among `TEMPLATES`, or sizes that its tiles do not
    divide.
    """
    if kind not in TEMPLATES:
        raise ValueError(f"Kind of product must be one of {', '.join(TEMPLATES)}, not {kind!r}")
    template = TEMPLATES[kind]
    tile_depth = min(depth, template.depth)
    for name, size, tile in (("Rows", rows, template.rows), ("Columns", columns, template.columns),
                             ("Depth", depth, tile_depth)):
        if size % tile:
            raise ValueError(f"{name} of {kind} must be a multiple of {tile}, not {size}")
    return _scheduled(template, _algorithm(template, rows, columns, depth, packed), tile_depth)


def _algorithm(template: ProductTemplate, rows: int, columns: int, depth: int,
               packed: bool) -> Tensor:
    side, together = template.columns, template.together
    a = te.placeholder((rows, depth), template.a, "a")
    shape = _panels(template, depth, columns)
    if packed:
        b = te.placeholder(shape, template.b, "b")
    else:
        plain = te.placeholder((depth, columns), template.b, "b")
        b = te.compute(shape, lambda *at: plain[at[1] * together + (at[3] if at[3:] else 0),
                                                at[0] * side + at[2]], "panels")
    q, t = te.reduce_axis(depth // together, "q"), te.reduce_axis(together, "t")
    if together == 1:
        return te.compute((rows, columns), lambda i, j: te.sum(
            a[i, q] * b[j // side, q, j % side], q), "c")
    return te.compute((rows, columns), lambda i, j: te.sum(
        a[i, q * together + t.var].astype(template.c)
        * b[j // side, q, j % side, t].astype(template.c), (q, t)), "c")


def _panels(template: ProductTemplate, depth: int, columns: int) -> tuple[int, ...]:
    shape = columns // template.columns, depth // template.together, template.columns
    return shape if template.together == 1 else (*shape, template.together)


def _scheduled(template: ProductTemplate, c: Tensor, depth: int) -> Program:
    s = Schedule([c], "product")
    stage = s[c]
    i_o, i_i = stage.split("i", template.rows)
    j_o, j_i = stage.split("j", template.columns)
    q_o, q_i = stage.split("q", depth // template.together)
    steps = (q_i,) if template.together == 1 else (q_i, "t")
    stage.reorder(q_o, i_o, j_o, i_i, j_i, *steps)
    stage.tensorize(i_i, template.intrinsic(template.rows, template.columns, depth))
    return s.program


def in_panels(kind: str, b: np.ndarray) -> np.ndarray:
    """``b[depth, columns]`` as a kernel with packed operands takes it, at a cache line's start."""
    template = TEMPLATES[kind]
    depth, columns = b.shape
    side, together = template.columns, template.together
    parts = b.reshape(depth // together, together, columns // side, side)
    panels = aligned(_panels(template, depth, columns), template.b)
    panels.reshape(parts.transpose(2, 0, 3, 1).shape)[:] = parts.transpose(2, 0, 3, 1)
    return panels
