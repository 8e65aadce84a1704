"""``wgmma`` and the TMA of compute capability 9.0: products of four warps together, whose operands
another unit copies to shared memory.

``wgmma.mma_async`` multiplies 64 x K by K x N, K as long as 32 bytes hold. Warp `w` of a group
holds rows 16 w to 16 w + 15 of the sums, laid out as those of ``mma``: what a warp does of it is
declared here, and the back end requires that four warps do it together. Operands lie in shared
memory, rows of 128 bytes whose chunks of 16 bytes change places, as `Buffer.swizzled` says and as
the TMA stores them (PTX ISA, sections "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
Instructions" and "Tensor Swizzling Modes"). Sums of floats are float32; integers are exact.

``cp.async.bulk.tensor`` copies a tile of an array of up to five dimensions; what lies beyond the
array is zeros.
"""

from compiler import te
from compiler.cpu_gpu_backends.simt.hopper import COLUMNS_OF_GROUPS, GROUP_PRODUCTS
from compiler.cpu_gpu_backends.simt.simt_calls import SimtCall, SimtTile
from compiler.te import Axis, Var, numpy_dtype
from compiler.tensorize import Immediate, Intrinsic, Operand

from .tensor_cores import MMA, ROWS

__all__ = ["COLUMNS_OF_GROUPS", "GROUP_KINDS", "ROW_BYTES", "TILE_ROWS", "WARP_GROUPS",
           "tile_copy", "wgmma"]

GROUP_KINDS = tuple(GROUP_PRODUCTS)
"""Kinds of `MMA` that `wgmma` has as `te` defines them: it does not round operands of tf32."""

ROW_BYTES = 128             # of a tile
TILE_ROWS = (*range(8, 65, 8), 96, 128, 192, 256)


def wgmma(kind: str, columns: int) -> Intrinsic:
    """``d[i, j] += sum(a[i, k] * b[j, k])`` over 16 x N x K: a warp's part. Raises ValueError for
    another kind or another number of columns.
    """
    if kind not in GROUP_KINDS or columns not in COLUMNS_OF_GROUPS:
        raise ValueError(f"wgmma must be of {', '.join(GROUP_KINDS)} and have "
                         f"{', '.join(map(str, COLUMNS_OF_GROUPS))} columns, not {kind!r} and "
                         f"{columns!r}")
    one = MMA[kind]
    a = te.placeholder((ROWS, one.depth), one.dtype, name="a")
    b = te.placeholder((columns, one.depth), one.dtype, name="b")
    i, j, k = Axis(Var("i"), ROWS), Axis(Var("j"), columns), te.reduce_axis(one.depth, name="k")
    name = f"wgmma_m64n{columns}k{one.depth}_{kind}"

    def lower(call: SimtCall) -> list[str]:
        call.needs(name)
        places = (_place(call.tiles[tile]) for tile in "ab")
        return [f"{name}({call.tiles['d'].element}, {', '.join(places)});"]

    return Intrinsic(name, "warp group",
                     Operand("d", (ROWS, columns), one.total, (("fragment", one.total),),
                             window=True),
                     tuple(Operand(t.name, t.shape, one.dtype, (("shared", one.dtype),),
                                   window=True) for t in (a, b)),
                     (i, j), te.sum(a[i, k].astype(one.total) * b[j, k].astype(one.total), k),
                     "sum", needs=("sm_90a",), lower=lower)


def _place(tile: SimtTile) -> str:
    """The address of a tile, but for the chunks that change places: its rows begin at one that all
    have in their own.
    """
    row, column = tile.place
    parts = [tile.address, *([f"({row}) * {tile.pitches[0]}"] if row != "0" else []),
             *([column] if column != "0" else [])]
    return " + ".join(parts)


def tile_copy(dtype: str, rows: int, padded: bool = False) -> Intrinsic:
    """``dst[i, k] = src[i, k]``: rows of 128 bytes by the TMA; `padded` with zeros where the
    predicate `valid` does not hold, which must say that the element is one of the array.
    """
    if rows not in TILE_ROWS:
        raise ValueError(f"Rows of a tile must be one of {', '.join(map(str, TILE_ROWS))}, "
                         f"not {rows!r}")
    shape = rows, ROW_BYTES // numpy_dtype(dtype).itemsize
    src = te.placeholder(shape, dtype, name="src")
    i, k = Axis(Var("i"), shape[0]), Axis(Var("k"), shape[1])
    valid = Immediate("valid", "bool")
    value = te.select(valid.var, src[i, k], te.const(0, dtype)) if padded else src[i, k]

    def lower(call: SimtCall) -> list[str]:
        call.needs("units")
        place, tile = call.tiles["src"].place, call.tiles["dst"]
        return [f"tile_copy<{len(place)}>({tile.address}, &{call.tiles['src'].element}, "
                f"{call.signal}, {', '.join(reversed(place))});"]

    return Intrinsic(f"tile_copy_{dtype}_{rows}{'_padded' * padded}", "tma",
                     Operand("dst", shape, dtype, (("shared", dtype),), window=True),
                     (Operand("src", shape, dtype, (("global", dtype),), window=True),), (i, k),
                     value, immediates=(valid,) if padded else (), needs=("sm_90a",), lower=lower)


WARP_GROUPS = (
    *(wgmma(kind, columns) for kind in GROUP_KINDS for columns in COLUMNS_OF_GROUPS),
    *(tile_copy(MMA[kind].dtype, rows, padded) for kind in GROUP_KINDS for rows in TILE_ROWS
      for padded in (False, True)))
"""All of them, for schedules that are replayed."""
