"""Winograd's products of integers (`compiler.ops.packed.winograd`), exact, modulo 2^32.

Rows of G are scaled to whole numbers, so that of F(4, 3) a transformed weight is within 49 * 128
and, as a transformed image is within 100 * 128, both fit words of 16 bits. With the rows of A
scaled to suit, an element of a result comes out ``9 * 2**(k_i + k_j)`` times as large as it is::

    9 * 2**(k_i + k_j) * y_ij = (A^T [ (G g G^T) * (B^T d B) ] A)_ij        k = 3, 2, 1, 1

All sums wrap at 32 bits. A product with the inverse of 9 modulo 2^32 and an arithmetic shift give
back y, which is exact where ``128 * sum(|g|) < 2**25`` (`fits_tiles`). Of F(2, 3) it is 4 times as
large, and may be up to 2**29.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler import te
from compiler.ops.packed.quantized_blocks import meant, stored
from compiler.ops.packed.winograd import B, KERNEL, ROWS, SIZES, chosen, spread
from compiler.ops.records.blocks import LANES
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator
from compiler.ops.records.windows import windowed
from compiler.ops.sums import residuals
from compiler.te import Expr, Tensor


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Rows of G and of A, and how much larger a result is: by `odd`, and by two to a power of each
    row and of each column."""

    g: tuple[tuple[int, ...], ...]
    a: tuple[tuple[int, ...], ...]
    odd: int
    powers: tuple[int, ...]

    @property
    def most(self) -> int:
        """Results must stay below."""
        return 1 << 31 - 2 * max(self.powers)

    @property
    def inverse(self) -> int:
        """The inverse of `odd` modulo 2^32, as int32."""
        return int(np.uint32(pow(self.odd, -1, 1 << 32)).astype(np.int32))


_OF = {2: _Scaled(((2, 0, 0), (1, 1, 1), (1, -1, 1), (0, 0, 2)),
                  ((1, 1, 1, 0), (0, 1, -1, -1)), 1, (1, 1)),
       4: _Scaled(((6, 0, 0), (1, 1, 1), (1, -1, 1), (1, 2, 4), (1, -2, 4), (0, 0, 6)),
                  ((1, -4, -4, 1, 1, 0), (0, -2, 2, 1, -1, 0), (0, -1, -1, 1, 1, 0),
                   (0, -1, 1, 2, -2, 1)), 9, (3, 2, 1, 1))}


def fits_tiles(weight: Array, size: int) -> bool:
    """True if no result of [Co,Ci,3,3] int8 is too great, whatever the image is."""
    sums = np.abs(weight.reshape(len(weight), -1).astype(np.int64)).sum(axis=1)
    return bool(128 * sums.max(initial=0) < _OF[size].most)


def tiles_weight(weight: Array, size: int) -> Array:
    """[Co,Ci,3,3] int8 as [(size + 2)^2,Co,Ci] int16, a matrix for each element of a tile."""
    g = np.array(_OF[size].g, np.int64)
    kernels = weight.reshape(-1, KERNEL ** 2).astype(np.int64)
    made = np.kron(g, g) @ kernels.T                                # of G g G^T, row by row
    return made.reshape(-1, *weight.shape[:2]).astype(np.int16)


# Expressions


def _tiles(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, = inputs
    size, matrix, reach = _tile_of(attrs)
    if len(x.shape) != 5 or x.shape[4] != LANES or x.dtype != "int8":
        raise ValueError(f"image must be int8 [N,C/{LANES},H,W,{LANES}], not {x.dtype} {x.shape}")
    (n, blocks, rows, columns, lanes), padded = windowed(
        spread(attrs, x.shape), x, (reach, reach), attrs["pad_value"], name)

    def pixel(*place: Expr) -> Expr:
        return padded[place].astype("int16")

    half = te.compute((n, blocks, rows, columns, reach, reach, lanes),
                      lambda n, c, h, w, a, j, lane: chosen(
                          a, matrix, lambda i: pixel(n, c, h * size + i, w * size + j, lane)),
                      f"{name}_{ROWS}")
    return te.compute((reach, reach, n, rows, columns, blocks, lanes),
                      lambda a, b, n, h, w, c, lane: chosen(
                          b, matrix, lambda j: half[n, c, h, w, a, j, lane]), name)


def _tile_of(attrs: Attributes) -> tuple[int, Sequence[Sequence[int]], int]:
    """Rows and columns of the results of a tile, B, and the rows and columns of the tile."""
    size = attrs["size"]
    if size not in SIZES:
        raise ValueError(f"size must be one of {', '.join(map(str, SIZES))}, not {size}")
    return size, B[size], size + KERNEL - 1


def _image(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    sums, bias, scale = inputs
    return _results(attrs, sums, bias, scale, name, None)


def _image_met(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    sums, residual, bias, scale, factor = inputs

    def met(*place: Expr) -> Expr:
        return residuals.met(attrs, residual[place].astype("int32"),
                             factor[place[1], place[-1]].astype("int32"))

    return _results(attrs, sums, bias, scale, name, met)


def _results(attrs: Attributes, sums: Tensor, bias: Tensor, scale: Tensor, name: str,
             met: Callable[..., Expr] | None) -> Tensor:
    (height, width), (size, _, reach) = attrs["shape"], _tile_of(attrs)
    rows, columns, of = -(-height // size), -(-width // size), _OF[size]
    if len(sums.shape) != 7 or (*sums.shape[:2], *sums.shape[3:5], sums.shape[6]) != (
            reach, reach, rows, columns, LANES):
        raise ValueError(f"sums must be [{reach},{reach},N,{rows},{columns},C/{LANES},{LANES}], "
                         f"not {sums.shape}")
    images, blocks = sums.shape[2], sums.shape[5]
    half = te.compute((images, blocks, rows, columns, reach, size, LANES),
                      lambda n, c, h, w, b, i, lane: chosen(
                          i, of.a, lambda a: sums[a, b, n, h, w, c, lane]), f"{name}_{ROWS}")

    def element(n: Expr, c: Expr, h: Expr, w: Expr, lane: Expr) -> Expr:
        value = chosen(w % size, of.a,
                       lambda b: half[n, c, h // size, w // size, b, h % size, lane])
        value = value if of.odd == 1 else value * te.const(of.inverse, "int32")
        shift = _power(h % size, of.powers) + _power(w % size, of.powers)
        total = (value >> shift) + bias[c, lane]
        return stored(attrs, total + met(n, c, h, w, lane) if met else total, scale[c, lane])

    return te.compute((images, blocks, height, width, LANES), element, name)


def _power(place: Expr, powers: Sequence[int]) -> Expr:
    """The power of two that a row, or a column, of a tile's results is too large by."""
    *others, last = (te.const(power, "int32") for power in powers)
    found: Expr = last
    for own, power in reversed(tuple(enumerate(others))):
        found = te.select(place.equal(own), power, found)
    return found


# Meanings


def _tiles_meaning(attrs, x: Array) -> Array:
    size, matrix, reach = _tile_of(attrs)
    top, left, bottom, right = spread(attrs, x.shape)["pads"]
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0)),
                    constant_values=attrs["pad_value"])
    views = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(2, 3))
    return np.einsum("ai,nchwlij,bj->abnhwcl", np.array(matrix), views[:, :, ::size, ::size],
                     np.array(matrix)).astype(np.int16)


def _sums_of(attrs, sums: Array) -> Array:
    """The image [N,C/16,H,W,16] of sums, int64, from numbers modulo 2^32."""
    of, (height, width) = _OF[attrs["size"]], attrs["shape"]
    matrix, powers = np.array(of.a, np.int64), np.array(of.powers)
    made = np.einsum("ia,abnhwcl,jb->nchiwjl", matrix, sums.astype(np.int64), matrix)
    whole = (made.astype(np.int32).astype(np.int64) * of.inverse).astype(np.int32)
    values = whole >> (powers[:, None, None, None] + powers[:, None])
    n, blocks, rows, size, columns, _, lanes = values.shape
    return values.reshape(n, blocks, rows * size, columns * size, lanes)[
        :, :, :height, :width].astype(np.int64)


def _of_channels(vector: Array) -> Array:
    return vector[None, :, None, None, :]


def _image_meaning(attrs, sums: Array, bias: Array, scale: Array) -> Array:
    return meant(attrs, _sums_of(attrs, sums), _of_channels(bias), _of_channels(scale))


def _image_met_meaning(attrs, sums: Array, residual: Array, bias: Array, scale: Array,
                       factor: Array) -> Array:
    whole = _sums_of(attrs, sums) + residuals.met(attrs, residual.astype(np.int64),
                                                  _of_channels(factor.astype(np.int64)))
    return meant(attrs, whole, _of_channels(bias), _of_channels(scale))


# Records

_SUMS = "sums int32 [t,t,N,H/size,W/size,C/16,16], t = size + 2"
_CHANNELS = "bias int32 [C/16,16], scale float64 or float32 [C/16,16], from 0 to 1"


def _operator(name: str, summary: str, inputs: str, attributes: str, define, meaning) -> Operator:
    return Operator(name=name, summary=summary, inputs=inputs, attributes=attributes,
                    define=define, meaning=meaning, numbers=Numbers.INTEGER, kind=Kind.COMPLEX)


OPERATORS = (
    _operator("qwinograd_tiles", "tiles of an image of int8, transformed for Winograd's products",
              "x [N,C/16,H,W,16]", "size: of results (2 or 4), pads, pad_value", _tiles,
              _tiles_meaning),
    _operator("qwinograd_image", "the image of which tiles' products are added up, requantized",
              f"{_SUMS}, {_CHANNELS}", "size, shape: H, W, zp, lo, hi, near (0)", _image,
              _image_meaning),
    _operator("qwinograd_image_add", "such an image, to whose sums r * factor is added",
              f"{_SUMS}, r [N,C/16,H,W,16], {_CHANNELS}, factor int16 [C/16,16]",
              "size, shape: H, W, zp, lo, hi, fine (0), near (0)", _image_met, _image_met_meaning),
)
