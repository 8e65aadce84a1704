"""Random nodes of every operator that has a gradient: attributes, and inputs away from kinks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiler.ops.registry import find

__all__ = ["CASES", "Drawn", "Draw"]

Array = np.ndarray
Rng = np.random.Generator


@dataclass(frozen=True)
class Drawn:
    """Attributes and inputs of a node; floats are what it is differentiated by."""

    inputs: tuple[Array, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


Draw = Callable[[Rng], Drawn]


def shape(rng: Rng, least: int = 0, most: int = 4, extent: int = 4) -> tuple[int, ...]:
    return tuple(rng.integers(1, extent + 1, rng.integers(least, most + 1)).tolist())


def some(rng: Rng, *extents: int) -> Array:
    return rng.standard_normal(extents)


def within(low: float, high: float) -> Callable[..., Array]:
    return lambda rng, *extents: rng.uniform(low, high, extents)


def partly(rng: Rng, whole: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to another."""
    cut = whole[rng.integers(0, len(whole) + 1):]
    return tuple(1 if rng.random() < 0.3 else extent for extent in cut)


def broadcast_shapes(rng: Rng, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast, of which none need be the whole."""
    whole = shape(rng)
    return [partly(rng, whole) for _ in range(count)]


def unary(values: Callable[..., Array] = some, **attrs: Any) -> Draw:
    return lambda rng: Drawn((values(rng, *shape(rng)),), attrs)


def binary(*values: Callable[..., Array]) -> Draw:
    return lambda rng: Drawn(tuple(value(rng, *extents) for value, extents in
                                   zip(values, broadcast_shapes(rng, len(values)), strict=True)))


def where(rng: Rng) -> Drawn:
    first, a, b = broadcast_shapes(rng, 3)
    return Drawn((rng.random(first) < 0.5, some(rng, *a), some(rng, *b)))


def clip(rng: Rng) -> Drawn:
    low, high = rng.uniform(-1, 0), rng.uniform(0, 1)
    ends = [(low, high), (-np.inf, high), (low, np.inf), (high, low)][rng.integers(4)]
    return Drawn((some(rng, *shape(rng)),), {"lo": ends[0], "hi": ends[1]})


def leaky(rng: Rng) -> Drawn:
    return Drawn((some(rng, *shape(rng)),), {"alpha": rng.uniform(-0.5, 0.5)})


def reduced(rng: Rng) -> Drawn:
    extents = shape(rng)
    axes = sorted(rng.permutation(len(extents))[:rng.integers(0, len(extents) + 1)].tolist())
    return Drawn((some(rng, *extents),), {"axes": axes, "keepdims": int(rng.integers(2))})


def running(rng: Rng) -> Drawn:
    extents = shape(rng, 1)
    exclusive, reverse = rng.integers(0, 2, 2).tolist()
    return Drawn((some(rng, *extents),), {"axis": int(rng.integers(len(extents))),
                                          "exclusive": exclusive, "reverse": reverse})


# Movement


def reshape(rng: Rng) -> Drawn:
    extents = shape(rng)
    flat = (int(np.prod(extents)), 1) if rng.random() < 0.5 else extents[::-1]
    return Drawn((some(rng, *extents),), {"shape": flat})


def expand(rng: Rng) -> Drawn:
    whole = shape(rng)
    return Drawn((some(rng, *partly(rng, whole)),), {"shape": whole})


def upsample(rng: Rng) -> Drawn:
    return Drawn((some(rng, *shape(rng, 4)),), {"factors": rng.integers(1, 4, 2).tolist()})


def cut(rng: Rng) -> Drawn:
    extents = shape(rng, 1, extent=7)
    begin = [int(rng.integers(n)) for n in extents]
    end = [int(rng.integers(low + 1, n + 1)) for low, n in zip(begin, extents, strict=True)]
    step = rng.integers(1, 4, len(extents)).tolist()
    return Drawn((some(rng, *extents),), {"begin": begin, "end": end, "step": step})


def transpose(rng: Rng) -> Drawn:
    extents = shape(rng, 1)
    return Drawn((some(rng, *extents),), {"perm": rng.permutation(len(extents)).tolist()})


def reverse(rng: Rng) -> Drawn:
    extents = shape(rng, 1)
    axes = rng.permutation(len(extents))[:rng.integers(len(extents) + 1)]
    return Drawn((some(rng, *extents),), {"axes": sorted(axes.tolist())})


def pad(rng: Rng) -> Drawn:
    extents = shape(rng, 1, 3, extent=5)
    mode = ("constant", "edge", "reflect", "wrap")[rng.integers(4)]
    low, high = (rng.integers(-1, 4, len(extents)) for _ in "ab")
    between = rng.integers(0, 3, len(extents)) * (mode == "constant")
    reach = (np.array(extents) - 1) * (between + 1) + 1
    low = np.where(reach + low + high < 1, 1, low)
    attrs = {"before": low.tolist(), "after": high.tolist(), "mode": mode}
    if mode != "constant":
        return Drawn((some(rng, *extents),), attrs)
    return Drawn((some(rng, *extents), some(rng)), {**attrs, "between": between.tolist()})


def concat(rng: Rng) -> Drawn:
    extents = shape(rng, 1)
    axis = int(rng.integers(len(extents)))
    parts = [some(rng, *extents[:axis], int(n), *extents[axis + 1:])
             for n in rng.integers(1, 4, rng.integers(1, 4))]
    return Drawn(tuple(parts), {"axis": axis})


def put_place(rng: Rng) -> Drawn:
    extents = shape(rng, 1)
    axis = int(rng.integers(len(extents)))
    row = some(rng, *extents[:axis], 1, *extents[axis + 1:])
    place = np.array([rng.integers(-1, extents[axis] + 1)], np.int64)
    return Drawn((some(rng, *extents), row, place), {"axis": axis})


# Places that are computed


def places(rng: Rng, extent: int, *extents: int) -> Array:
    """Some lie outside."""
    return rng.integers(-extent - 1, extent + 2, extents).astype(
        (np.int64, np.int32)[rng.integers(2)])


def gather(rng: Rng) -> Drawn:
    extents = shape(rng, 1, 3)
    axis = int(rng.integers(len(extents)))
    return Drawn((some(rng, *extents), places(rng, extents[axis], *shape(rng, 0, 2))),
                 {"axis": axis})


def gather_elements(rng: Rng) -> Drawn:
    extents = shape(rng, 1, 3)
    axis = int(rng.integers(len(extents)))
    seen = [int(rng.integers(1, n + 1)) if place != axis else int(rng.integers(1, 6))
            for place, n in enumerate(extents)]
    return Drawn((some(rng, *extents), places(rng, extents[axis], *seen)), {"axis": axis})


def gather_nd(rng: Rng) -> Drawn:
    extents = shape(rng, 2, 4)
    batch = int(rng.integers(0, len(extents)))
    depth = int(rng.integers(1, len(extents) - batch + 1))
    at = np.stack([places(rng, n, *extents[:batch], 3).astype(np.int64)
                   for n in extents[batch:batch + depth]], -1)
    return Drawn((some(rng, *extents), at), {"batch_dims": batch})


def resample(rng: Rng) -> Drawn:
    extents = shape(rng, 1, 3)
    axis, (n, k) = int(rng.integers(len(extents))), rng.integers(1, 5, 2).tolist()
    return Drawn((some(rng, *extents), places(rng, extents[axis], n, k), some(rng, n, k)),
                 {"axis": axis})


def scatter(rng: Rng) -> Drawn:
    a, n, m, b = rng.integers(1, 5, 4).tolist()
    at = places(rng, n, a, m, b if rng.random() < 0.5 else 1)
    reduction = ("add", "max", "min")[rng.integers(3)]
    return Drawn((some(rng, a, n, b), at, some(rng, a, m, b)), {"reduction": reduction})


# Products


def dense(rng: Rng) -> Drawn:
    m, k, n = rng.integers(1, 5, 3).tolist()
    turned = int(rng.integers(2))
    arrays = [some(rng, m, k), some(rng, n, k) if turned else some(rng, k, n),
              some(rng, *partly(rng, (m, n)))]
    return Drawn(tuple(arrays[:rng.integers(2, 4)]), {"trans_b": turned})


def matmul(rng: Rng) -> Drawn:
    m, k, n = rng.integers(1, 5, 3).tolist()
    first, second = broadcast_shapes(rng, 2)
    turned = int(rng.integers(2))
    b = some(rng, *second, n, k) if turned else some(rng, *second, k, n)
    return Drawn((some(rng, *first, m, k), b), {"trans_b": turned} if turned else {})


EQUATIONS = ("ab,bc->ac", "abc,cd->dab", "aa->a", "aa->", "ab->", "a,b->ab", "abab->ba",
             "ab,ab,b->a", "abc->b", ",ab->ba", "aab,bc->ac", "ab,ab->ab", "ab->ba")


def einsum(rng: Rng) -> Drawn:
    equation = EQUATIONS[rng.integers(len(EQUATIONS))]
    extents = {letter: int(rng.integers(1, 5)) for letter in "abcd"}
    arrays = []
    for term in equation.split("->")[0].split(","):
        narrow = rng.random() < 0.3 and len(set(term)) == len(term)
        one = term[rng.integers(len(term))] if narrow and term else ""
        arrays.append(some(rng, *(1 if letter == one else extents[letter] for letter in term)))
    return Drawn(tuple(arrays), {"equation": equation})


# Windows


def window(rng: Rng, rank: int, kernel: list[int], extra: int = 0) -> dict:
    """Strides, pads and dilations of a window; pads are smaller than the kernel, and `extra`."""
    pads = [int(rng.integers(0, k + extra)) for k in (*kernel, *kernel)]
    return {"strides": rng.integers(1, 4, rank).tolist(), "pads": pads,
            "dilations": rng.integers(1, 3, rank).tolist()}


def fitting(rng: Rng, kernel: list[int], attrs: dict) -> list[int]:
    """Extents that hold one window at least."""
    rank = len(kernel)
    return [max(1, (k - 1) * d + 1 - attrs["pads"][axis] - attrs["pads"][rank + axis])
            + int(rng.integers(0, 5)) for axis, (k, d) in enumerate(
                zip(kernel, attrs["dilations"], strict=True))]


def grouped(rng: Rng) -> tuple[int, int, int]:
    group, inward, outward = rng.integers(1, 4, 3).tolist()
    return group, inward, outward


def conv2d(rng: Rng) -> Drawn:
    return convolution(rng, 2, bias=rng.random() < 0.5)


def conv(rng: Rng) -> Drawn:
    return convolution(rng, int(rng.integers(1, 4)))


def convolution(rng: Rng, rank: int, bias: bool = False) -> Drawn:
    kernel = rng.integers(1, 4, rank).tolist()
    attrs, (group, inward, outward) = window(rng, rank, kernel, 2), grouped(rng)
    size = fitting(rng, kernel, attrs)
    arrays = [some(rng, int(rng.integers(1, 3)), group * inward, *size),
              some(rng, group * outward, inward, *kernel),
              *([some(rng, group * outward)] if bias else [])]
    return Drawn(tuple(arrays), {**attrs, "group": group})


def transposed(rng: Rng) -> Drawn:
    kernel, (group, inward, outward) = rng.integers(1, 4, 2).tolist(), grouped(rng)
    attrs = window(rng, 2, kernel)
    size = [int(rng.integers(1, 5)) + sum(attrs["pads"][axis::2]) for axis in range(2)]
    arrays = [some(rng, int(rng.integers(1, 3)), group * inward, *size),
              some(rng, group * inward, outward, *kernel), some(rng, group * outward)]
    return Drawn(tuple(arrays[:rng.integers(2, 4)]),
                 {**attrs, "group": group, "output_padding": rng.integers(0, 4, 2).tolist()})


def maxpool(rng: Rng) -> Drawn:
    return pool(rng, 2)


def pool_of_any(rng: Rng) -> Drawn:
    return pool(rng, int(rng.integers(1, 4)))


def pool(rng: Rng, rank: int) -> Drawn:
    kernel = rng.integers(1, 4, rank).tolist()
    attrs = {**window(rng, rank, kernel), "kernel": kernel}
    x = some(rng, *rng.integers(1, 3, 2).tolist(), *fitting(rng, kernel, attrs))
    return Drawn((x,), attrs) if np.isfinite(find("pool_max").meaning(attrs, x)).all() else (
        pool(rng, rank))                # a window that sees pads alone


def average(rng: Rng) -> Drawn:
    kernel = rng.integers(1, 4, 2).tolist()
    attrs = {**window(rng, 2, kernel), "dilations": [1, 1]}
    x = some(rng, *rng.integers(1, 3, 2).tolist(), *fitting(rng, kernel, attrs))
    del attrs["dilations"]
    return Drawn((x,), {**attrs, "kernel": kernel, "include_pad": int(rng.integers(2))})


def image(rng: Rng) -> Drawn:
    return Drawn((some(rng, *shape(rng, 4)),))


POSITIVE, FRACTION = within(0.2, 3), within(-0.9, 0.9)

CASES: dict[str, Draw] = {
    **dict.fromkeys(("neg", "abs", "erf", "sin", "cos", "sinh", "cosh", "tanh", "atan", "asinh",
                     "exp", "floor", "ceil", "rint", "sign", "relu", "identity"), unary()),
    **dict.fromkeys(("asin", "acos", "atanh", "tan"), unary(FRACTION)),
    "log": unary(POSITIVE), "sqrt": unary(POSITIVE), "acosh": unary(within(1.1, 3)),
    "cast": unary(to="float32"), "clip": clip, "leakyrelu": leaky,
    **dict.fromkeys(("add", "sub", "mul", "minimum", "maximum"), binary(some, some)),
    "div": binary(some, POSITIVE), "mod": binary(some, POSITIVE), "fmod": binary(some, POSITIVE),
    "pow": binary(POSITIVE, some), "where": where,
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "mean"), reduced),
    "cumsum": running, "cumprod": running,
    "reshape": reshape, "expand": expand, "upsample": upsample, "slice": cut,
    "transpose": transpose, "relayout": transpose, "reverse": reverse, "pad": pad,
    "concat": concat, "put_place": put_place,
    "gather": gather, "gather_elements": gather_elements, "gather_nd": gather_nd,
    "resample": resample, "scatter_reduced": scatter,
    "dense": dense, "matmul": matmul, "einsum": einsum,
    "conv2d": conv2d, "convtranspose2d": transposed, "conv": conv,
    "maxpool": maxpool, "avgpool": average, "globalavgpool": image, "pool_max": pool_of_any,
    "pool_sum": pool_of_any,
}
