"""What chains of a graph begin with: inputs, layers, and layers side by side."""

from collections.abc import Sequence

import numpy as np

from bench.values.draw import Array, Drawer, Unfit, Value
from bench.values.rules import RULES, readers
from bench.values.rules.steps import dequantized, quantized, real

TRIES = 12                  # of one choice, before another one is made

LAYERS = ("Conv", "Gemm", "MatMul", "Add", "AveragePool", "ReduceMean", "Concat", "ConvTranspose")
"""Operators that are drawn more often, as networks have them."""
_SHAPED = ((), (1,), (5,), (3, 4), (2, 7), (1, 6), (2, 3, 4), (1, 4, 6), (3, 1, 5), (1, 3, 4, 4),
           (2, 4, 5, 5), (1, 8, 3, 3), (1, 5, 6, 4), (3, 2, 3, 5), (2, 16, 3, 2), (1, 17, 2, 3),
           (1, 4, 1, 1), (1, 2, 3, 4, 3), (1, 1, 4, 4), (1, 32, 4, 3), (2, 1, 3, 1), (1, 6, 4, 1))
IMAGES = ((1, 6, 4, 1), (1, 3, 4, 4), (2, 4, 5, 5), (1, 8, 3, 3), (1, 5, 6, 4), (1, 17, 2, 3),
          (2, 16, 3, 2))


def source(d: Drawer, dtype: str, ranks: Sequence[int], made: str = "") -> Value:
    """A value of the type, perhaps of one of these ranks; an input, or quantized, where `made` is
    the name of that.
    """
    if made == "input":
        return _input(d, dtype, ranks)
    if not made:
        kept = [one for one in d.values if one.dtype == dtype and one.rank in ranks]
        if kept and d.chance(0.35):
            return d.choice(kept)
        if d.chance(0.15):
            return _input(d, dtype, ranks)
    x = _input(d, "float32", ranks) if d.chance(0.6) else _float(d, ranks)
    match d.below(8):
        case 0 | 1 | 2 | 3: x = _layer(d, x)
        case 4 if 3 in ranks: return _branches(d, d.input(_numbers(d, d.choice(IMAGES))), dtype)
        case 5: x = _residual(d, x)
    if dtype != "float32":
        return quantized(d, x, dtype)
    return dequantized(d, quantized(d, x)) if d.chance(0.5) else x


def _branches(d: Drawer, x: Value, dtype: str) -> Value:
    """Layers of one image side by side: their channels concatenated, perhaps read as rows."""
    kind = dtype if dtype != "float32" else d.choice(d.types)
    x = dequantized(d, quantized(d, x, kind))
    conv, parts = RULES["Conv:pixels"], []
    for _ in range(d.below(4, 2)):
        part = quantized(d, conv.draw(d, x, "Conv"), kind,
                         like=parts[0] if parts and d.chance(0.6) else None)
        parts.append(part)
    floats = [dequantized(d, part) for part in parts]
    if d.chance(0.2):
        floats.append(x)
    like = parts[0] if d.chance(0.6) else None
    joined = quantized(d, d.emit("Concat", *floats, axis=1), kind, like=like)
    if d.chance(0.7):
        batch, channels = joined.shape[:2]
        rows = d.emit("Reshape", dequantized(d, joined), d.constant([batch, channels, -1], "int64"))
        joined = quantized(d, rows, like=joined)
        if d.chance(0.7):
            turned = d.emit("Transpose", dequantized(d, joined), perm=[0, 2, 1])
            joined = quantized(d, turned, like=joined)
    return dequantized(d, joined) if dtype == "float32" else joined


def _residual(d: Drawer, x: Value) -> Value:
    """A product, plus what another branch has quantized, perhaps bounded."""
    mark = d.mark()
    try:
        product = RULES[d.choice(("Conv", "Conv:pixels") if x.rank == 4 else ("Gemm", "MatMul"))]
        made = product.drawn(d, dequantized(d, quantized(d, x)))
        kept = [one for one in d.values if one.scale is not None and one.shape == made.shape]
        branch = d.choice(kept) if kept and d.chance(0.5) else quantized(
            d, d.input(_numbers(d, made.shape)))
        pair = [made, dequantized(d, branch)]
        met = d.emit("Add", *(pair if d.chance(0.5) else pair[::-1]))
        return d.emit("Relu", met) if d.chance(0.4) else met
    except Unfit:
        d.back_to(mark)
        return x


def _float(d: Drawer, ranks: Sequence[int]) -> Value:
    """A float value of the graph, perhaps a dequantized one."""
    kept = [one for one in d.values if one.rank in ranks
            and (one.dtype == "float32" or one.scale is not None)]
    return real(d, d.choice(kept)) if kept else _input(d, "float32", ranks)


def _layer(d: Drawer, x: Value) -> Value:
    """An operator of floats, perhaps of what was quantized and dequantized."""
    if d.chance(0.7):
        x = dequantized(d, quantized(d, x))
    fit = readers("float32")
    layers = [rule for rule in fit if rule.op in LAYERS]
    for _ in range(TRIES):
        rule, mark = d.choice(layers if d.chance(0.5) else fit), d.mark()
        try:
            made = rule.drawn(d, x)
            if made.dtype == "float32":
                return made
            raise Unfit("it gives no floats")
        except Unfit:
            d.back_to(mark)
    return x


def _shape(d: Drawer, ranks: Sequence[int]) -> tuple[int, ...]:
    rank = d.choice(ranks)
    shapes = [shape for shape in _SHAPED if len(shape) == rank]
    if not shapes or d.chance(0.25):
        return tuple(d.below(7 if rank < 6 else 3, 1) for _ in range(rank))
    return d.choice(shapes)


def _input(d: Drawer, dtype: str, ranks: Sequence[int]) -> Value:
    kept = [one for one in d.inputs.values() if one.dtype == dtype and one.rank in ranks]
    if kept and d.chance(0.4):
        return d.choice(kept)
    shape = _shape(d, ranks)
    if dtype == "float32":
        return d.input(_numbers(d, shape))
    info = np.iinfo(dtype)
    low, high = (max(info.min, -99), 100) if d.chance(0.3) else (info.min, info.max)
    return d.input(d.rng.integers(low, high, shape, endpoint=True).astype(dtype),
                   d.number(2, 20) / (high - low), int(d.rng.integers(low, high)))


def _numbers(d: Drawer, shape: tuple[int, ...]) -> Array:
    match d.below(8):
        case 0: array = d.rng.uniform(0.05, 0.95, shape)
        case 1: array = d.rng.uniform(1, 3, shape)
        case 2: array = d.rng.integers(-3, 4, shape) / 2
        case _: array = d.rng.standard_normal(shape) * 2
    return np.asarray(array, np.float32)
