"""Convolutions on blocked activations in which an output block reads only some input blocks, or
that write several pixels for each one that they read.

A `ConvolutionForm` says which: with **groups**, an output block reads the input blocks of its own
group; with groups of one block each (`diagonal`) it reads the input block in its own place, which
serves smaller groups too, depthwise ones among them, by weights that are zero beside the diagonal.
With **phases** of a transposed convolution, P x Q of them, position (y, x) is the pixels (y * P +
p, x * Q + q), each with weights and parameters of its own: all see the same window.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Quantization,
                                             Window, shifted, windowed)
from compiler import te
from compiler.ops.integers.arithmetic import PARAM, requantize
from compiler.te import Axis, Expr, Tensor

At = Mapping[str, Expr]
"""Axes by name: n, g, y, p, x, q, c, b, o; axes of one iteration may be absent."""


@dataclass(frozen=True, slots=True)
class ConvolutionForm:
    """The form of a convolution in blocks and phases; `groups` divide the blocks of both sides."""

    groups: int = 1
    diagonal: bool = False
    phases: tuple[int, int] = (1, 1)

    def leading(self) -> dict[str, int]:
        """Leading axes of weights and parameters, and their extents."""
        groups = 1 if self.diagonal else self.groups
        extents = {"p": self.phases[0], "q": self.phases[1], "g": groups}
        return {name: extent for name, extent in extents.items() if extent > 1}


def convolution(name: str, x: Activation, channels: int, window: Window, pad_value: int,
                q: Quantization, blocks: Blocks, form: ConvolutionForm) -> BlockedOperator:
    """``requantize(sum over kernel and channels of x · w)`` in the given form.

    Stages: ``x``, ``w`` [p][q][g][c][kh][kw][ci][block_out][block_in], ``params``
    [p][q][g][c][block_out], ``input`` (padded, blocked), ``acc``, ``quantized``, ``output``;
    leading axes of extent 1 are absent, and so is ci where the form is diagonal.
    """
    source, padded = windowed(name, x, window, pad_value, blocks, blocks.block_in,
                              form.leading().get("g", 1))
    return over_input(name, source, padded, window.outputs(x), channels, window, q, blocks, form)


def over_input(name: str, source: Tensor, padded: Tensor, outputs: tuple[int, int], channels: int,
               window: Window, q: Quantization, blocks: Blocks, form: ConvolutionForm
               ) -> BlockedOperator:
    """A `convolution` of an input in blocks, with so many rows and columns of positions."""
    first = form.leading()
    ci, co = padded.shape[-3], (blocks.padded(channels) // blocks.block_out
                                // first.get("g", 1))
    sizes = first | dict(zip("yx", outputs, strict=True)) | {
        "n": padded.shape[0], "c": co, "b": blocks.batch, "o": blocks.block_out}
    depth = () if form.diagonal else (ci,)
    w = te.placeholder((*first.values(), co, *window.kernel, *depth, *blocks.entry),
                       blocks.weight, f"{name}_w")
    products, reduced = _products(name, padded, w, window.seen, form, ci, blocks)
    tile, written = (present(order, sizes) for order in ("ngypxqcbo", "nypxqbgco"))
    acc = over(tile, sizes, f"{name}_acc", products)
    if q.planes:
        stages = {"x": source, "w": w, "input": padded, "acc": acc}
        whole = in_planes(name, stages, window.seen, acc, (tile, written), {**sizes, "s": q.planes},
                          blocks)
        return replace(whole, reduced=reduced, **blocks.own())

    def scaled(role: str) -> Callable[[At], Expr]:
        params = stages[role] = te.placeholder((*first.values(), co, blocks.block_out), PARAM,
                                               f"{name}_{role}")

        def lane(at: At) -> Expr:
            p = params[(*(at[axis] for axis in first), at["c"], at["o"])]
            return requantize(acc[tuple(at.values())], p.bias, p.mult, p.shift, q.zp, q.lo, q.hi)
        return lane

    stages = {"x": source, "w": w}
    lane = scaled("params")
    stages |= {"input": padded, "acc": acc}
    if q.below:
        above, below = (over(tile, sizes, f"{name}_{role}", lambda at, one=one: one(at).astype(
            blocks.accumulator)) for role, one in (("t0", lane), ("t1", scaled("params_1"))))
        stages |= {"t0": above, "t1": below}
        lane = lambda at: te.maximum(above[tuple(at.values())],         # noqa: E731
                                     below[tuple(at.values())])
    stages["quantized"] = quantized = over(tile, sizes, f"{name}_quantized",
                                           lambda at: lane(at).astype(blocks.element))
    stages["output"] = over(written, sizes, f"{name}_output",
                            lambda at: quantized[tuple(at[axis] for axis in tile)])
    tiles = {role: tile for role in ("acc", "t0", "t1", "quantized") if role in stages}
    return BlockedOperator(stages, window.seen, {**tiles, "output": written}, reduced,
                           **blocks.own())


def in_planes(name: str, stages: Mapping[str, Tensor], window: Window, total: Tensor,
              orders: tuple[str, str], sizes: Mapping[str, int], blocks: Blocks
              ) -> BlockedOperator:
    """Writes the elements that sums are cut into, as `blocked.in_planes`; `orders` are the axes of
    a tile of sums, and of what is written of it, without the planes."""
    tile, _ = orders
    shifts = te.placeholder((sizes["s"], blocks.block_out), PARAM, f"{name}_params")
    inner, outer = tile.replace("c", "sc"), orders[1].replace("b", "bs")
    quantized = over(inner, sizes, f"{name}_quantized", lambda at: shifted(
        total[tuple(at[axis] for axis in tile)], shifts[at["s"], at["o"]], blocks))
    output = over(outer, sizes, f"{name}_output",
                  lambda at: quantized[tuple(at[axis] for axis in inner)])
    stages = {**stages, "params": shifts, "quantized": quantized, "output": output}
    tiles = {role: tile for role in ("acc", "t0") if role in stages}
    return BlockedOperator(stages, window, {**tiles, "quantized": inner, "output": outer})


def _products(name: str, padded: Tensor, w: Tensor, window: Window, form: ConvolutionForm, ci: int,
              blocks: Blocks) -> tuple[Callable[[At], Expr], Mapping[str, Axis]]:
    """The terms of the sum, and the axes that it reduces."""
    kh, kw = (te.reduce_axis(size, f"{name}_k{axis}")
              for size, axis in zip(window.kernel, "hw", strict=True))
    rc, block = te.reduce_axis(ci, f"{name}_rc"), blocks.reduced(name)
    (sh, sw), (dh, dw) = window.strides, window.dilations
    depths = {} if form.diagonal else {"depth": rc}
    reduced = {**depths, "rows": kh, "columns": kw, **block}

    def products(at: At):
        taps = (at["y"] * sh + kh.var * dh, at["x"] * sw + kw.var * dw)
        group = tuple(at[axis] for axis in "g" if axis in at)
        depth = () if form.diagonal else (rc.var,)
        pixel = (at["n"], *group, *taps, *(depth or (at["c"],)))
        weight = (*(at[axis] for axis in form.leading()), at["c"], kh.var, kw.var, *depth)
        term = blocks.term(block, lambda *place: padded[*pixel, *place],
                           lambda *place: w[*weight, *place], at["b"], at["o"])
        return te.sum(term, tuple(reduced.values()))

    return products, reduced


def present(order: str, sizes: Mapping[str, int]) -> str:
    """The axes of `order` that have a size."""
    return "".join(axis for axis in order if axis in sizes)


def over(order: str, sizes: Mapping[str, int], name: str, value: Callable[[At], Expr]) -> Tensor:
    """Builds a tensor over the axes of `order` that have a size."""
    names = present(order, sizes)

    def element(*indices: Expr) -> Expr:
        return value(dict(zip(names, indices, strict=True)))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(axis, kind) for axis in names]
    element.__signature__ = inspect.Signature(parameters)   # type: ignore[attr-defined]
    return te.compute(tuple(sizes[axis] for axis in names), element, name)
