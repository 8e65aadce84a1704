"""Operators of TensorFlow Lite files as what LiteRT's default kernels compute of int8, to the bit.

Tables (`compiler.graph.integerize.litert`) and averages compute it on every target. All else needs
products in float32 or multipliers of 31 bits, which machines lack: it is `exact` where no
accelerator is a target, and elsewhere within a step, as in other networks.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from compiler.graph.graph import Node
from compiler.graph.integerize.litert import Element, element_of, kernel_of, scales_of, slope_of
from compiler.graph.integerize.quantized import QuantizedView
from compiler.ops.families.convolutions import integer_convolution
from compiler.ops.integers import litert
from compiler.ops.integers.fixed_point import MAX_MULTIPLIER, quantize_multiplier, requantize
from compiler.ops.integers.integer_text import INT8, range_of
from compiler.ops.records.integer_forms import Bounds, IntegerNode, StaysFloat, Stored, clamp_to
from compiler.ops.registry import find

Array = np.ndarray
PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
MOST_PIXELS = 512
"""The largest window for which a multiplier of 16 bits is sought that rounds as a division does:
few of the larger ones have any."""

WEIGHT_BITS = 11
"""Bits of the weights between two pixels."""


@np.errstate(all="ignore")
def matched(view: QuantizedView, node: Node, core: Node, out: Stored, made: IntegerNode
            ) -> IntegerNode:
    """The integer operator of the core, with numbers by which it gives what its kernel gives."""
    kernel = kernel_of(node)
    if out.dtype != "int8":
        return made
    if kernel == "AVERAGE_POOL_2D" and made.op == "qavgpool":
        return _average(view, core, out, made)
    if view.exact and kernel in PRODUCTS:
        return _product(view, core, out, made)
    return made


def _product(view: QuantizedView, core: Node, out: Stored, made: IntegerNode) -> IntegerNode:
    """With scales in the place of multipliers and shifts."""
    weight = view.producers.get(core.inputs[1])
    if made.op == "qaffine":                        # of one element each
        made = integer_convolution(view, core, out, {
            name: made.attrs[name] for name in ("zp", "lo", "hi")})
    if weight is None or weight.op != "dequantizelinear" or not find(made.op).scales or len(
            made.constants) != 4:
        return made
    kept, bias, mult, _ = made.constants
    if kept[1].dtype != np.int8:                    # LiteRT has zero points 0
        return made
    scales = np.broadcast_to(view.graph.constants[weight.inputs[1]], mult[1].shape)
    share = litert.scale_of_product(view.activation(core.inputs[0]).scale, scales, out.scale)
    if not np.isfinite(share).all():
        return made
    return replace(made, constants=(kept, bias, ("scale", share)))


def _matrices(view: QuantizedView, core: Node, out: Stored, clamp: Mapping[str, int]
              ) -> IntegerNode | None:
    """The product of two matrices, computed or constant: XNNPACK's where the second has the zero
    point 0, else LiteRT's own.
    """
    try:
        a, b = (view.operand(value) for value in core.inputs)
    except (StaysFloat, ValueError):            # of another type, or with a bias
        return None
    mult, exponent = litert.multiplier(a.scale * b.scale / out.scale)
    share = float(litert.scale_of_product(a.scale, b.scale, out.scale))
    if (a.dtype, b.dtype) != ("int8", "int8") or core.op not in ("matmul", "dense"):
        return None
    if b.zp == 0 and np.isfinite(share):
        numbers: dict[str, int | float] = {"scale": share}
    elif -31 <= exponent <= 0:
        numbers = {"mult": mult, "shift": 31 - exponent, "twice": 1}
    else:
        return None
    return IntegerNode("qmatmul", (a.value, b.value), {
        "trans_b": core.attrs.get("trans_b", 0), "a_zp": a.zp, "b_zp": b.zp, "bias": 0,
        **numbers, **clamp})


def _average(view: QuantizedView, core: Node, out: Stored, made: IntegerNode) -> IntegerNode:
    """Sums of elements as they are stored, by multipliers that round as a division does."""
    x = view.activation(core.inputs[0])
    if (x.scale, x.zp) != (out.scale, out.zp):
        return made
    old = dict(made.constants)
    counts = np.rint(np.ldexp(1.0, old["shift"]) / old["mult"]).astype(np.int64)
    pairs = [_dividing(int(count)) for count in counts.flat]
    found = [pair for pair in pairs if pair is not None]
    if len(found) < len(pairs):
        return made
    mult, shift = (np.array(column, np.int32).reshape(counts.shape) for column in zip(*found))
    return replace(made, attrs={**made.attrs, "bias": 0, "zp": 0, "pad_value": 0},
                   constants=(("mult", mult), ("shift", shift)))


@lru_cache
def _dividing(count: int) -> tuple[int, int] | None:
    """The multiplier by which sums of so many int8 are rounded as `litert.averaged` rounds them."""
    if count > MOST_PIXELS:
        return None
    sums = np.arange(-128 * count, 127 * count + 1)
    nearest, shift = quantize_multiplier(1 / count)
    for mult in (nearest, nearest + 1):
        made = requantize(sums.astype(np.float64), mult, shift, 0, -128, 127)
        if mult <= MAX_MULTIPLIER and (made == litert.averaged(sums, count)).all():
            return mult, shift
    return None


@np.errstate(all="ignore")
def composed(view: QuantizedView, node: Node, core: Node | None, out: Stored, bounds: Bounds
             ) -> IntegerNode | None:
    """Several operators that compute together what the kernel does; None where one does it, or
    there is nothing of the kind.
    """
    kernel = kernel_of(node)
    if out.dtype != "int8":
        return None
    if kernel == "QUANTIZE_REAL":
        share = np.array(np.float32(1) / np.float32(out.scale))
        return _whole(_scaled(node.inputs[0], share), out.zp)
    if core is None:
        return None
    if kernel == "SOFTMAX":
        return _whole(node.inputs[0], out.zp, out.scale)
    if kernel in ("MEAN", "SUM"):
        return _sum(view, core, out, kernel == "MEAN")
    if kernel == "RESIZE_BILINEAR":
        return _interpolated(view, core, out)
    clamp = clamp_to(out, bounds)
    if kernel == "BATCH_MATMUL":
        return _matrices(view, core, out, clamp)
    op = element_of(view, node, out.scale)
    if op is not None and kernel == "MUL":
        return _multiplied(view, op, out, clamp)
    if op is None or kernel not in _TEXTS:
        return None
    text = _TEXTS[kernel](op, out, clamp)
    try:
        range_of(text, [INT8] * len(op.inputs))
    except ValueError:                          # scales so far apart that 64 bits are too few
        return None
    return IntegerNode("qmap", tuple(_operands(view, op)), {"function": text})


def _whole(steps: str | IntegerNode, zp: int, scale: float = 1.0) -> IntegerNode:
    """float32 as int8."""
    return IntegerNode("quantize", (steps,), {"scale": scale, "zp": zp})


def _scaled(x: str | IntegerNode, share: Array) -> IntegerNode:
    return IntegerNode("mul", (x,), {}, (("share", share),))


def _multiplied(view: QuantizedView, op: Element, out: Stored, clamp: Mapping[str, int]
                ) -> IntegerNode:
    """The product of integers, and its share, in float32."""
    factors = [IntegerNode("dequantize", (value,), {"scale": 1.0, "zp": x.zp})
               for value, x in zip(_operands(view, op), op.inputs)]
    share = litert.scale_of_product(*scales_of(op), out.scale)
    steps = _scaled(IntegerNode("mul", tuple(factors), {}), np.array(share))
    lo, hi = (float(clamp[end] - out.zp) for end in ("lo", "hi"))
    return _whole(IntegerNode("clip", (steps,), {"lo": lo, "hi": hi}), out.zp)


def _operands(view: QuantizedView, op: Element) -> list[str]:
    made = []
    for source, x in zip(op.sources, op.inputs):
        array = view.graph.constants.get(source)
        made.append(x.value if array is None else view.constant(f"{source}_stored", array))
    return made


def _sum(view: QuantizedView, core: Node, out: Stored, mean: bool) -> IntegerNode | None:
    """In int32, then in float32."""
    total = view.producers.get(core.inputs[0]) if core.op == "div" else core
    if total is None:
        return None
    axes, keepdims = (total.attrs.get(name) for name in ("axes", "keepdims"))
    if total.op == "avgpool":                   # of whole columns: see `ReductionsAsPools`
        axes, keepdims = (3,), 1
    try:
        x, shape = view.activation(total.inputs[0]), view.shape(total.inputs[0])
    except StaysFloat:
        return None
    if axes is None:
        return None
    count = int(np.prod([shape[axis] for axis in axes]))
    factor, offset = litert.scale_of_sum(x.scale, x.zp, count, out.scale, out.zp, mean)
    if not np.isfinite(offset):
        return None
    wide = IntegerNode("cast", (x.value,), {"to": "int32"})
    sums = IntegerNode("reduce_sum", (wide,), {"axes": axes, "keepdims": keepdims})
    steps = _scaled(IntegerNode("cast", (sums,), {"to": "float32"}), np.array(factor))
    return _whole(IntegerNode("add", (steps,), {}, (("offset", np.array(offset)),)), 0)


def _interpolated(view: QuantizedView, core: Node, out: Stored) -> IntegerNode | None:
    """Sums of pixels in int32, by weights of 11 bits along each axis, rounded half up."""
    along: list[Node] = []
    node: Node | None = core
    while node is not None and node.op == "resample":
        along.append(node)
        node = view.producers.get(node.inputs[0])
    try:
        x = view.activation(along[-1].inputs[0])
    except (StaysFloat, IndexError):
        return None
    weights = [view.graph.constants[each.inputs[2]] for each in along]
    if (x.scale, x.zp) != (out.scale, out.zp) or any(each.shape[1] != 2 for each in weights):
        return None
    bits, sums = WEIGHT_BITS * len(along), IntegerNode("cast", (x.value,), {"to": "int32"})
    for each, weight in zip(reversed(along), reversed(weights)):
        behind = np.rint(weight[:, 1] * np.float32(1 << WEIGHT_BITS)).astype(np.int32)
        sums = IntegerNode("resample", (sums,), {"axis": each.attrs["axis"]}, (
            ("places", view.graph.constants[each.inputs[1]]),
            ("weights", np.stack([(1 << WEIGHT_BITS) - behind, behind], axis=1))))
    half = IntegerNode("add", (sums,), {}, (("half", np.array(1 << bits - 1, np.int32)),))
    pixels = IntegerNode("shr", (half,), {}, (("bits", np.array(bits, np.int32)),))
    return IntegerNode("cast", (pixels,), {"to": "int8"})


# Texts


def _less(name: str, zp: int) -> str:
    return f"({name} - {zp})" if zp > 0 else f"({name} + {-zp})" if zp else name


def _sum_text(sign: int) -> Callable[[Element, Stored, Mapping[str, int]], str]:
    def of(op: Element, out: Stored, clamp: Mapping[str, int]) -> str:
        ma, mb, shift = litert.adding_multipliers(*scales_of(op), out.scale)
        a, b = op.inputs
        offset = (1 << shift - 1) - a.zp * ma - sign * b.zp * mb
        mark = "+" if sign > 0 else "-"
        return (f"clamp(((x0 * {ma} {mark} x1 * {mb} + {offset}) >> {shift}) + {out.zp}, "
                f"{clamp['lo']}, {clamp['hi']})")
    return of


def _squared_text(op: Element, out: Stored, clamp: Mapping[str, int]) -> str:
    wide = 2.0 * max(scales_of(op))
    sides = [_twice(f"int64({_less(name, x.zp)})", *litert.multiplier(x.scale / wide), litert.LEFT)
             for name, x in zip(("x0", "x1"), op.inputs)]
    difference = f"({sides[0]} - {sides[1]})"
    made = _twice(f"{difference} * {difference}", *litert.multiplier(
        wide * wide / (2.0**(2 * litert.LEFT) * out.scale)))
    return f"clamp({made} + {out.zp}, {clamp['lo']}, {clamp['hi']})"


def _slope_text(op: Element, out: Stored, clamp: Mapping[str, int]) -> str:
    x, slope = (f"int64({_less(name, part.zp)})" for name, part in zip(("x0", "x1"), op.inputs))
    above = _twice(x, *litert.multiplier(op.inputs[0].scale / out.scale))
    below = _twice(f"{x} * {slope}", *slope_of(op))
    return (f"clamp(select(x0 < {op.inputs[0].zp}, {below}, {above}) + {out.zp}, "
            f"{clamp['lo']}, {clamp['hi']})")


def _twice(text: str, mult: int, exponent: int, left: int = 0) -> str:
    """`litert.requantized` of an int64."""
    high = f"(({text} * {mult << left + max(exponent, 0)} + {1 << 30}) >> 31)"
    right = max(-exponent, 0)
    return f"(({high} + {1 << right >> 1} + ({high} >> 63)) >> {right})" if right else high


_TEXTS: dict[str, Callable[[Element, Stored, Mapping[str, int]], str]] = {
    "ADD": _sum_text(1), "SUB": _sum_text(-1), "PRELU": _slope_text,
    "SQUARED_DIFFERENCE": _squared_text}
