"""Convolutions of 3 x 3 by fewer products: Winograd's minimal filtering, on images in blocks.

An image is cut into tiles of ``size + 2`` rows and columns, which overlap by 2. With the matrices
B, G and A, a tile d and a kernel g give ``size`` by ``size`` results::

    y = A^T [ (G g G^T) * (B^T d B) ] A                     * element by element

`winograd_tiles` computes ``B^T d B``, an ordinary convolution of as many groups as a tile has
elements adds the products over channels, and `winograd_image` computes y. F(2, 3) takes 4 products
of each channel for a result of 9, F(4, 3) 2.25. A. Lavin, S. Gray: Fast Algorithms for
Convolutional Neural Networks, CVPR 2016.
"""

from collections.abc import Callable, Sequence

import numpy as np

from compiler import te
from compiler.ops.records.windows import windowed
from compiler.ops.records.blocks import LANES
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator
from compiler.te import Expr, Tensor

KERNEL = 3
ROWS = "winograd_rows"
"""What the stage between rows and columns is called, behind the name of its result."""

B = {2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
      4: ((4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0), (0, -2, -1, 2, 1, 0),
          (0, 2, -1, -2, 1, 0), (0, 4, 0, -5, 0, 1))}
_G = {2: ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
      4: ((1 / 4, 0, 0), (-1 / 6, -1 / 6, -1 / 6), (-1 / 6, 1 / 6, -1 / 6),
          (1 / 24, 1 / 12, 1 / 6), (1 / 24, -1 / 12, 1 / 6), (0, 0, 1))}
_A = {2: ((1, 1, 1, 0), (0, 1, -1, -1)),
      4: ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))}
SIZES = tuple(B)
"""Rows and columns of results that a tile gives."""


def winograd_weight(weight: Array, size: int) -> Array:
    """[Co,Ci,3,3] as [(size + 2)^2 Co,Ci,1,1], all output channels of one element of a tile after
    another; transformed in float64.
    """
    g = np.array(_G[size], np.float64)
    kernels = weight.reshape(-1, KERNEL ** 2).astype(np.float64)
    made = (np.kron(g, g) @ kernels.T).astype(weight.dtype)         # of G g G^T, row by row
    return made.reshape(-1, weight.shape[1], 1, 1)


# Expressions


def _tiles(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, matrix, reach = _image(attrs, inputs[0])
    size = attrs["size"]
    (n, blocks, rows, columns, lanes), padded = windowed(
        spread(attrs, x.shape), x, (reach, reach), 0, name)
    half = te.compute((n, blocks, rows, columns, reach, reach, lanes),
                      lambda n, c, h, w, a, j, lane: chosen(
                          a, matrix, lambda i: padded[n, c, h * size + i, w * size + j, lane]),
                      f"{name}_{ROWS}")
    return te.compute((n, reach, reach, blocks, rows, columns, lanes),
                      lambda n, a, b, c, h, w, lane: chosen(
                          b, matrix, lambda j: half[n, c, h, w, a, j, lane]), name)


def _image(attrs: Attributes, x: Tensor) -> tuple[Tensor, Sequence[Sequence[float]], int]:
    if len(x.shape) != 5 or x.shape[4] != LANES or x.dtype != "float32":
        raise ValueError(f"image must be float32 [N,C/{LANES},H,W,{LANES}], not {x.dtype} "
                         f"{x.shape}")
    if attrs["size"] not in SIZES:
        raise ValueError(f"size must be one of {', '.join(map(str, SIZES))}, not {attrs['size']}")
    return x, B[attrs["size"]], attrs["size"] + KERNEL - 1


def spread(attrs: Attributes, shape: Sequence[int]) -> Attributes:
    """The windows that tiles are, with pads up to whole tiles."""
    size, (top, left, bottom, right) = attrs["size"], attrs["pads"]
    below, beside = (-(extent + before + after - KERNEL + 1) % size
                     for extent, before, after in zip(shape[2:4], (top, left), (bottom, right),
                                                      strict=True))
    return {"strides": (size, size), "pads": (top, left, bottom + below, right + beside)}


def _results(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    sums, *bias = inputs
    size, (height, width) = attrs["size"], attrs["shape"]
    reach = size + KERNEL - 1
    rows, columns = -(-height // size), -(-width // size)
    if (len(sums.shape) != 7 or sums.shape[1:3] != (reach, reach)
            or sums.shape[4:] != (rows, columns, LANES)):
        raise ValueError(f"sums must be [N,{reach},{reach},C/{LANES},{rows},{columns},{LANES}], "
                         f"not {sums.shape}")
    n, blocks, lanes = sums.shape[0], sums.shape[3], LANES
    half = te.compute((n, blocks, rows, columns, reach, size, lanes),
                      lambda n, c, h, w, b, i, lane: chosen(
                          i, _A[size], lambda a: sums[n, a, b, c, h, w, lane]),
                      f"{name}_{ROWS}")

    def result(n, c, h, w, lane):
        value = chosen(w % size, _A[size],
                        lambda b: half[n, c, h // size, w // size, b, h % size, lane])
        return value + bias[0][c, lane] if bias else value

    return te.compute((n, blocks, height, width, lanes), result, name)


def chosen(index: Expr, matrix: Sequence[Sequence[float]], element: Callable[[int], Expr]) -> Expr:
    """Row `index` of the matrix times the elements. Where loops over it are unrolled, nothing is
    left of the choice.
    """
    *others, last = (combined(row, element) for row in matrix)
    for place in reversed(range(len(others))):
        last = te.select(index.equal(place), others[place], last)
    return last


def combined(row: Sequence[float], element: Callable[[int], Expr]) -> Expr:
    terms = [element(place) if factor == 1 else element(place) * te.const(
        factor, element(place).dtype) for place, factor in enumerate(row) if factor]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


# Meanings


def _tiles_meaning(attrs, x: Array) -> Array:
    size = attrs["size"]
    reach = size + KERNEL - 1
    top, left, bottom, right = spread(attrs, x.shape)["pads"]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(2, 3))
    matrix = np.array(B[size], np.float64)
    return np.einsum("ai,nchwlij,bj->nabchwl", matrix, views[:, :, ::size, ::size],
                     matrix).astype(np.float32)


def _results_meaning(attrs, sums: Array, bias: Array | None = None) -> Array:
    matrix, (height, width) = np.array(_A[attrs["size"]], np.float64), attrs["shape"]
    made = np.einsum("ia,nabchwl,jb->nchiwjl", matrix, sums.astype(np.float64), matrix)
    n, blocks, rows, size, columns, _, lanes = made.shape
    image = made.reshape(n, blocks, rows * size, columns * size, lanes)[:, :, :height, :width]
    if bias is not None:
        image = image + bias[None, :, None, None, :]
    return np.ascontiguousarray(image.astype(np.float32))


# Records

OPERATORS = (
    Operator(
        name="winograd_tiles", summary="tiles of an image, transformed for Winograd's products",
        inputs="x [N,C/16,H,W,16]", attributes="size: of results (2 or 4), pads",
        define=_tiles, meaning=_tiles_meaning, numbers=Numbers.FLOAT, kind=Kind.OPAQUE,
        contracts=True),
    Operator(
        name="winograd_image", summary="the image of which tiles' products are added up",
        inputs="sums [N,t,t,C/16,H/size,W/size,16], t = size + 2, bias [C/16,16]?",
        attributes="size, shape: H, W", define=_results, meaning=_results_meaning,
        numbers=Numbers.FLOAT, kind=Kind.COMPLEX, contracts=True),
)
