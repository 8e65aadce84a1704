"""Products of two computed matrices, and copies of tensors, as a GEMM accelerator does them.
Tensors of any rank lie in memory with strides, the placement's pitches.

Leading dimensions are loops around one matrix each, except those of one element. Rows of a
matrix are the columns of one row of pixels.

Zero points cost products: with A = a - za and B = b - zb, ::

    sum A·B = sum a·b  +  sum a·(-zb)  +  sum (-za)·b  +  depth · za · zb

The last is a constant for the bias. The first three are one sum over *planes*: the depth once with
a and b, once with a and a constant instead of b, once with a constant and b. 128 fits no int8: two
planes have half of it. An operand with zero point 0 needs no plane.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.mapping.operators.blocked import AROUND, BlockedOperator, Blocks, Quantization, Window
from accel.mapping.operators.convolutions import At, in_planes, over, present
from compiler import te
from compiler.ops.integers.arithmetic import PARAM, requantize
from compiler.te import Expr, Tensor


@dataclass(frozen=True, slots=True)
class Planes:
    """The repetitions of a product's depth for the zero points of its operands."""

    depth: int
    a_zp: int = 0
    b_zp: int = 0

    @property
    def count(self) -> int:
        return 1 + _constants(self.a_zp)[0] + _constants(self.b_zp)[0]

    def blocks(self, blocks: Blocks) -> int:
        """Blocks of one plane."""
        return -(-self.depth // blocks.block_in)

    def bias(self, blocks: Blocks) -> int:
        """The constant that the sum lacks. Lanes beyond the depth hold the constants of both sides.
        """
        beyond = self.blocks(blocks) * blocks.block_in - self.depth
        constants = _constants(self.a_zp)[1] * _constants(self.b_zp)[1]
        return self.depth * self.a_zp * self.b_zp - beyond * self.count * constants


def _constants(zero: int) -> tuple[int, int]:
    """A count and an int8 constant whose product is -zero."""
    if zero == -128:
        return 2, 64
    return (1, -zero) if zero else (0, 0)


def matrix_product(name: str, a: tuple[int, ...], b: tuple[int, ...], trans_b: bool,
                   planes: Planes, q: Quantization | None, blocks: Blocks, bias: int = 0
                   ) -> BlockedOperator:
    """``requantize(sum of (a - a_zp) · (b - b_zp))``, `a` [...,M,K], `b` [...,K,N], or [...,N,K]
    where `trans_b`; leading dimensions broadcast. Without `q` the sum is what is stored.

    `b` is loaded as weights, lane by lane where its last dimension is not the depth. The bias in
    ``params`` must include that of the planes; where sums stay as they are, `bias` is added to them
    in ``t0``. Stages: ``x``, ``y``, ``w``, ``params``
    [co][block_out], ``input``, ``acc``, ``quantized``, ``output``: [..., 1, M/batch, batch, co,
    block_out].
    """
    around = _around(np.broadcast_shapes(a[:-2], b[:-2]))
    rows, channels = a[-2], b[-2] if trans_b else b[-1]
    first, second = _constants(planes.a_zp), _constants(planes.b_zp)
    ci, co = planes.blocks(blocks), blocks.padded(channels) // blocks.block_out
    columns = -(-rows // blocks.batch)
    source, other = (te.placeholder(shape, blocks.element, f"{name}_{role}")
                     for role, shape in (("x", a), ("y", b)))

    def pixel(at: At) -> Expr:
        row, element = at["x"] * blocks.batch + at["b"], at["c"] * blocks.block_in + at["i"]
        there = ([at["t"] >= first[0]] if first[0] else []) + _inside(
            (row, columns * blocks.batch, rows), (element, ci * blocks.block_in, planes.depth))
        return _read(source[(*_leading(at, a, around), row, element)], there, first[1])

    def weight(at: At) -> Expr:
        channel, element = at["c"] * blocks.block_out + at["o"], at["d"] * blocks.block_in + at["i"]
        there = ([at["t"] <= first[0]] if second[0] else []) + _inside(
            (channel, co * blocks.block_out, channels),
            (element, ci * blocks.block_in, planes.depth))
        place = (channel, element) if trans_b else (element, channel)
        return _read(other[(*_leading(at, b, around), *place)], there, second[1])

    sizes = {letter: extent for letter, (extent, _) in around.items()}
    inner = {"t": planes.count, "i": blocks.block_in}
    moved = over(AROUND + "yxtcbi", sizes | inner | {"y": 1, "x": columns, "c": ci,
                                                     "b": blocks.batch}, f"{name}_input", pixel)
    w = over(AROUND + "ctdoi", sizes | inner | {"c": co, "d": ci, "o": blocks.block_out},
             f"{name}_w", weight)
    kh, kw = te.reduce_axis(1, f"{name}_kh"), te.reduce_axis(planes.count, f"{name}_kw")
    rc, ri = te.reduce_axis(ci, f"{name}_rc"), te.reduce_axis(blocks.block_in, f"{name}_ri")

    def products(at: At):
        matrix = [at[letter] for letter in around]
        left = moved[(*matrix, at["y"] + kh.var, at["x"], kw.var, rc.var, at["b"], ri.var)]
        two = w[(*matrix, at["c"], kw.var, rc.var, at["o"], ri.var)]
        return te.sum(left.astype(blocks.accumulator) * two.astype(blocks.accumulator),
                      (rc, kh, kw, ri))

    sizes |= {"y": 1, "x": columns, "c": co, "b": blocks.batch, "o": blocks.block_out}
    acc = over(AROUND + "yxcbo", sizes, f"{name}_acc", products)
    reduced = {"depth": rc, "rows": kh, "columns": kw, "lanes": ri}
    window = Window((1, planes.count), (1, planes.count))
    stages = {"x": source, "y": other, "w": w, "input": moved, "acc": acc}
    if q is not None and q.planes:
        return replace(_in_planes(name, stages, window, sizes, q.planes, blocks, bias),
                       reduced=reduced)
    lane = lambda at: acc[tuple(at.values())].astype(blocks.element)            # noqa: E731
    if q is not None:
        stages["params"] = params = te.placeholder((co, blocks.block_out), PARAM, f"{name}_params")
        lane = _requantized(acc, params, q, blocks)
    return replace(_written(name, stages, window, sizes, lane), reduced=reduced)


def _in_planes(name: str, stages: dict[str, Tensor], window: Window, sizes: dict[str, int],
               planes: int, blocks: Blocks, bias: int) -> BlockedOperator:
    """Writes the elements of the sums of computed matrices and a constant, where there is one."""
    total = stages["acc"]
    tile, written = (present(AROUND + order, sizes) for order in ("yxcbo", "yxbco"))
    if bias:
        acc = total
        total = stages["t0"] = over(tile, sizes, f"{name}_t0", lambda at: acc[
            tuple(at.values())] + te.const(bias, blocks.accumulator))
    return in_planes(name, stages, window, total, (tile, written), {**sizes, "s": planes}, blocks)


def moved(name: str, shape: tuple[int, ...], blocks: Blocks,
          q: Quantization | None = None) -> BlockedOperator:
    """Copies a tensor of at least two dimensions, the last one cut into blocks; with `q` it changes
    scale and zero point, by ``params`` [co][block_out].

    Stages: ``x``, ``params`` with `q`, ``input``, ``quantized``, ``output``: [..., 1, M/batch,
    batch, co, block_out].
    """
    around, (rows, elements) = _around(shape[:-2]), shape[-2:]
    columns, count = -(-rows // blocks.batch), -(-elements // blocks.block_out)
    source = te.placeholder(shape, blocks.element, f"{name}_x")
    sizes = {letter: extent for letter, (extent, _) in around.items()} | {
        "y": 1, "x": columns, "c": count, "b": blocks.batch, "o": blocks.block_out}

    def pixel(at: At) -> Expr:
        row, element = at["x"] * blocks.batch + at["b"], at["c"] * blocks.block_out + at["o"]
        there = _inside((row, columns * blocks.batch, rows),
                        (element, count * blocks.block_out, elements))
        return _read(source[(*_leading(at, shape, around), row, element)], there, 0)

    copied = over(AROUND + "yxcbo", sizes, f"{name}_input", pixel)

    stages = {"x": source, "input": copied}
    if q is None:
        return _written(name, stages, Window((1, 1)), sizes, lambda at: copied[
            tuple(at.values())].astype(blocks.accumulator).astype(blocks.element))
    params = te.placeholder((count, blocks.block_out), PARAM, f"{name}_params")
    return _written(name, stages | {"params": params}, Window((1, 1)), sizes,
                    _requantized(copied, params, q, blocks))


def _requantized(tile: Tensor, params: Tensor, q: Quantization,
                 blocks: Blocks) -> Callable[[At], Expr]:
    """The elements of a tile, requantized with the parameters of their channels."""
    def lane(at: At) -> Expr:
        p = params[at["c"], at["o"]]
        element = tile[tuple(at.values())].astype(blocks.accumulator)
        return requantize(element, p.bias, p.mult, p.shift, q.zp, q.lo, q.hi).astype(blocks.element)
    return lane


def _around(leading: Sequence[int]) -> dict[str, tuple[int, int]]:
    """The loops around a matrix by letter: the extent, and the dimension counted from the last
    leading one. Each leading dimension of several elements is a loop; without any there is one loop
    of one iteration.
    """
    several = [(extent, axis - len(leading)) for axis, extent in enumerate(leading) if extent > 1]
    if len(several) > len(AROUND):
        raise ValueError(f"A tensor must have at most {len(AROUND)} leading dimensions of several "
                         f"elements, not {len(several)}")
    return dict(zip(AROUND, several or [(1, 0)], strict=False))


def _leading(at: At, shape: tuple[int, ...], around: dict[str, tuple[int, int]]) -> list[Expr]:
    """Indices of the leading dimensions of a tensor; those that it broadcasts stay at 0."""
    letters = {axis: letter for letter, (_, axis) in around.items()}
    places = range(2 - len(shape), 0)
    return [at[letters[axis]] if extent > 1 else te.const(0, te.INDEX)
            for axis, extent in zip(places, shape[:-2], strict=True)]


def _inside(*indices: tuple[Expr, int, int]) -> list[Expr]:
    """Conditions that hold indices below `size` where they run over `reach` values."""
    return [index < size for index, reach, size in indices if reach > size]


def _read(read: Expr, there: list[Expr], pad: int) -> Expr:
    return te.select(te.all_of(*there), read, pad) if there else read


def _written(name: str, stages: dict[str, Tensor], window: Window, sizes: dict[str, int],
             lane: Callable[[At], Expr]) -> BlockedOperator:
    tile, written = (present(AROUND + order, sizes) for order in ("yxcbo", "yxbco"))
    quantized = over(tile, sizes, f"{name}_quantized", lane)
    output = over(written, sizes, f"{name}_output",
                  lambda at: quantized[tuple(at[axis] for axis in tile)])
    stages = stages | {"quantized": quantized, "output": output}
    tiles = {role: tile for role in ("acc", "quantized") if role in stages}
    return BlockedOperator(stages, window, {**tiles, "output": written})
