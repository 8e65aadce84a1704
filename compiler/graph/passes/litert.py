"""Operators of TensorFlow Lite files as what LiteRT's default kernels compute, to the bit.

The front end names at each quantization of int8 the operator of the file whose result it stores, in
the attribute `litert`. `compiler/ops/litert.py` says what kernels compute.

Tables and averages compute it on every target. All else needs products in float32 or multipliers of
31 bits, which machines lack: it is `exact` where no accelerator is a target, and elsewhere within a
step, as in other networks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from compiler.graph.graph import Node
from compiler.graph.passes.quantized import QuantizedView
from compiler.ops import litert
from compiler.ops.fixed_point import MAX_MULTIPLIER, quantize_multiplier, requantize
from compiler.ops.integer_forms import Bounds, IntegerNode, StaysFloat, Stored, clamp_to
from compiler.ops.operator import Kind
from compiler.ops.registry import find

__all__ = ["ELEMENTWISE", "composed", "kernel_of", "matched", "stored_steps"]

Array = np.ndarray
PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
REAL: dict[str, Callable[[Array, float, int], Array]] = {
    "QUANTIZE_REAL": litert.quantized,
    **dict.fromkeys(("ELU", "LOGISTIC", "TANH"), litert.quantized_beside_zero),
    **dict.fromkeys(("EXP", "GELU", "LOG"), litert.quantized_away),
    "SQRT": litert.quantized_down,
}
"""How kernels store what they compute in float32."""

SCALES = 2.0**-10, 2.0**8
"""The shares of the result's scale that XNNPACK adds tensors of."""

PRODUCT_SCALES = 2.0**-16, 2.0**8
RESCALED = 2.0**-8, 2.0**7


def kernel_of(node: Node) -> str:
    """The operator of the file whose result a quantization stores; empty for other networks."""
    return str(node.attrs.get("litert", ""))


# Functions of elements


@dataclass(frozen=True, slots=True)
class _Element:
    """What an elementwise operator of the file reads, in order, and how it stores its result."""

    inputs: tuple[Stored, ...]
    sources: tuple[str, ...]
    node: Node
    scale: float
    attrs: Mapping[str, Any]


Function = Callable[..., Array]


def _rescaled(op: _Element, x: Array) -> Array:
    scale, out = op.inputs[0].scale, op.scale
    fits = RESCALED[0] <= np.float32(scale) / np.float32(out) <= RESCALED[1]
    return (litert.rescaled if fits else litert.rescaled_finely)(x, scale, out)


def _leaky_relu(op: _Element, x: Array) -> Array:
    return litert.leaky_relu(x, op.inputs[0].scale, op.scale, op.attrs["alpha"])


def _finely(op: _Element, x: Array) -> Array:
    return litert.rescaled_finely(x, op.inputs[0].scale, op.scale)


def _slope(op: _Element) -> tuple[int, int]:
    """The multiplier of products with a slope."""
    a, b = _scales(op)
    return litert.multiplier(a * b / op.scale)


def _added(sign: int) -> Function:
    def of(op: _Element, a: Array, b: Array) -> Array:
        return litert.added(a, b, _scales(op), op.scale, sign)
    return of


def _scales(op: _Element) -> tuple[float, float]:
    return op.inputs[0].scale, op.inputs[1].scale


ELEMENTWISE: dict[str, Function] = {
    "ABS": lambda op, x: _finely(op, np.abs(x)),
    "ADD": _added(1), "SUB": _added(-1),
    "HARD_SWISH": lambda op, x: litert.hard_swish(x, op.inputs[0].scale, op.scale),
    "LEAKY_RELU": _leaky_relu,
    "MUL": lambda op, a, b: litert.scaled(a * b, litert.scale_of_product(*_scales(op), op.scale)),
    "PRELU": lambda op, x, slope: np.where(
        x < 0, litert.requantized(x * slope, *_slope(op)), _finely(op, x)),
    "QUANTIZE": _rescaled,
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"), _finely),
    "RSQRT": lambda op, x: litert.reciprocal_root(x, op.inputs[0].scale, op.scale),
    "SQUARED_DIFFERENCE": lambda op, a, b: litert.squared_difference(a, b, _scales(op), op.scale),
}
"""Results in steps, of elements less their zero points."""


def stored_steps(view: QuantizedView, node: Node, known: Mapping[str, Array]) -> Array | None:
    """What a quantization stores, as the kernel has it, of the elements that are `known`; None
    where the operators in front of it say so, as they do in other networks.
    """
    kernel, parameters = kernel_of(node), view.parameters(node)
    if not kernel or parameters is None or parameters[2] != "int8":
        return None
    scale, zp, _ = parameters
    bounds = clamp_to(Stored(node.outputs[0], *parameters), _bounds(view, node))
    if kernel in REAL:
        made = REAL[kernel](known[node.inputs[0]], scale, zp)
    elif (op := _element(view, node, scale)) is not None:
        arrays = (known[source] if source in known else view.graph.constants[source].reshape(())
                  for source in op.sources)
        elements = [array.astype(np.int64) - x.zp for array, x in zip(arrays, op.inputs)]
        made = ELEMENTWISE[kernel](op, *elements) + zp
    else:
        return None
    return np.clip(made, bounds["lo"], bounds["hi"]).astype(np.int8)


def _element(view: QuantizedView, node: Node, scale: float) -> _Element | None:
    """None where the operator is not one of `ELEMENTWISE`, or its scales are none of its kernel."""
    kernel, core = kernel_of(node), _core(view, node)
    if kernel not in ELEMENTWISE:
        return None
    places = [core.inputs[0], core.inputs[1]] if kernel in ("ADD", "SUB", "MUL") and len(
        core.inputs) == 2 else _dequantized(view, node)
    try:
        inputs = [_stored(view, value) for value in places]
    except StaysFloat:
        return None
    sources = tuple(view.producers[value].inputs[0] for value in places)
    op = _Element(tuple(inputs), sources, node, scale, core.attrs)
    shares = [np.float32(x.scale) / np.float32(scale) for x in inputs]
    match kernel, len(inputs):
        case "ADD" | "SUB", 2:
            fits = all(SCALES[0] <= share < SCALES[1] for share in shares)
        case "MUL", 2:
            fits = PRODUCT_SCALES[0] <= litert.scale_of_product(
                *_scales(op), scale) < PRODUCT_SCALES[1]
        case "LEAKY_RELU", 1:
            below = abs(shares[0] * np.float32(core.attrs.get("alpha", 0)))
            fits = core.op == "leakyrelu" and all(
                RESCALED[0] <= share <= RESCALED[1] for share in (shares[0], below))
        case "PRELU" | "SQUARED_DIFFERENCE", count:
            fits = count == 2
        case _, count:
            fits = count == 1
    return op if fits else None


def _stored(view: QuantizedView, value: str) -> Stored:
    """The int8 tensor, computed or constant, that a float value is."""
    node = view.producers.get(value)
    parameters = view.parameters(node) if node is not None else None
    if node is None or node.op != "dequantizelinear" or parameters is None or (
            view.graph.values[node.inputs[0]].dtype != "int8"):
        raise StaysFloat(f"its input {value!r} is not quantized")
    return Stored(view.stored.get(node.inputs[0], node.inputs[0]), *parameters)


def _core(view: QuantizedView, node: Node) -> Node:
    """The operator before a quantization, and before what bounds its result."""
    core = view.producers[node.inputs[0]]
    while find(core.op).bounds:
        core = view.producers[core.inputs[0]]
    return core


def _bounds(view: QuantizedView, node: Node) -> Bounds:
    low, high, value = -np.inf, np.inf, node.inputs[0]
    while (bounds := find(view.producers[value].op).bounds) is not None:
        lo, hi = bounds(view.producers[value].attrs)
        low, high = min(max(lo, low), high), max(min(hi, high), low)
        value = view.producers[value].inputs[0]
    return low, high


def _dequantized(view: QuantizedView, node: Node) -> list[str]:
    """The dequantized tensors that elementwise operators before a quantization read, in order."""
    found, waiting = dict[str, None](), [node.inputs[0]]
    while waiting:
        value = waiting.pop(0)
        producer = view.producers.get(value)
        if producer is not None and producer.op == "dequantizelinear":
            found[value] = None
        elif producer is not None and find(producer.op).kind is Kind.ELEMENTWISE:
            waiting = [*producer.inputs, *waiting]
    return list(found)


# Operators


def matched(view: QuantizedView, node: Node, core: Node, out: Stored, made: IntegerNode
            ) -> IntegerNode:
    """The integer operator of the core, with numbers by which it gives what its kernel gives."""
    kernel = kernel_of(node)
    if out.dtype != "int8":
        return made
    if kernel == "AVERAGE_POOL_2D" and made.op == "qavgpool":
        return _average(view, core, out, made)
    if view.exact and kernel in PRODUCTS and len(made.constants) == 4:
        return _product(view, core, out, made)
    if view.exact and kernel == "BATCH_MATMUL" and made.op == "qmatmul":
        return _computed_product(view, core, out, made)
    return made


def _product(view: QuantizedView, core: Node, out: Stored, made: IntegerNode) -> IntegerNode:
    """With scales in the place of multipliers and shifts."""
    weight = view.producers.get(core.inputs[1])
    if weight is None or weight.op != "dequantizelinear":
        return made
    kept, bias, mult, _ = made.constants
    scales = np.broadcast_to(view.graph.constants[weight.inputs[1]], mult[1].shape)
    share = litert.scale_of_product(view.activation(core.inputs[0]).scale, scales, out.scale)
    return replace(made, constants=(kept, bias, ("scale", share)))


def _computed_product(view: QuantizedView, core: Node, out: Stored, made: IntegerNode
                      ) -> IntegerNode:
    a, b = (view.activation(value).scale for value in core.inputs)
    mult, exponent = litert.multiplier(a * b / out.scale)
    attrs = {**made.attrs, "mult": mult, "shift": 31 - exponent, "twice": 1}
    return replace(made, attrs=attrs) if -31 <= exponent <= 0 else made


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
    sums = np.arange(-128 * count, 127 * count + 1)
    nearest, shift = quantize_multiplier(1 / count)
    for mult in (nearest, nearest + 1):
        made = requantize(sums.astype(np.float64), mult, shift, 0, -128, 127)
        if mult <= MAX_MULTIPLIER and (made == litert.averaged(sums, count)).all():
            return mult, shift
    return None


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
    op = _element(view, node, out.scale)
    if op is None or kernel not in _TEXTS | {"MUL": None}:
        return None
    clamp = clamp_to(out, bounds)
    if kernel == "MUL":
        return _multiplied(view, op, out, clamp)
    text = _TEXTS[kernel](op, out, clamp)
    return IntegerNode("qmap", tuple(_operands(view, op)), {"function": text})


def _whole(steps: str | IntegerNode, zp: int, scale: float = 1.0) -> IntegerNode:
    """float32 as int8."""
    return IntegerNode("quantize", (steps,), {"scale": scale, "zp": zp})


def _scaled(x: str | IntegerNode, share: Array) -> IntegerNode:
    return IntegerNode("mul", (x,), {}, (("share", share),))


def _multiplied(view: QuantizedView, op: _Element, out: Stored, clamp: Mapping[str, int]
                ) -> IntegerNode:
    """The product of integers, and its share, in float32."""
    factors = [IntegerNode("dequantize", (value,), {"scale": 1.0, "zp": x.zp})
               for value, x in zip(_operands(view, op), op.inputs)]
    share = litert.scale_of_product(*_scales(op), out.scale)
    steps = _scaled(IntegerNode("mul", tuple(factors), {}), np.array(share))
    lo, hi = (float(clamp[end] - out.zp) for end in ("lo", "hi"))
    return _whole(IntegerNode("clip", (steps,), {"lo": lo, "hi": hi}), out.zp)


def _operands(view: QuantizedView, op: _Element) -> list[str]:
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
    wide = IntegerNode("cast", (x.value,), {"to": "int32"})
    sums = IntegerNode("reduce_sum", (wide,), {"axes": axes, "keepdims": keepdims})
    steps = _scaled(IntegerNode("cast", (sums,), {"to": "float32"}), np.array(factor))
    return _whole(IntegerNode("add", (steps,), {}, (("offset", np.array(offset)),)), 0)


# Texts


def _less(name: str, zp: int) -> str:
    return f"({name} - {zp})" if zp > 0 else f"({name} + {-zp})" if zp else name


def _sum_text(sign: int) -> Callable[[_Element, Stored, Mapping[str, int]], str]:
    def of(op: _Element, out: Stored, clamp: Mapping[str, int]) -> str:
        ma, mb, shift = litert.adding_multipliers(*_scales(op), out.scale)
        a, b = op.inputs
        offset = (1 << shift - 1) - a.zp * ma - sign * b.zp * mb
        mark = "+" if sign > 0 else "-"
        return (f"clamp(((x0 * {ma} {mark} x1 * {mb} + {offset}) >> {shift}) + {out.zp}, "
                f"{clamp['lo']}, {clamp['hi']})")
    return of


def _squared_text(op: _Element, out: Stored, clamp: Mapping[str, int]) -> str:
    wide = 2.0 * max(_scales(op))
    sides = [_twice(f"int64({_less(name, x.zp)})", *litert.multiplier(x.scale / wide), litert.LEFT)
             for name, x in zip(("x0", "x1"), op.inputs)]
    difference = f"({sides[0]} - {sides[1]})"
    made = _twice(f"{difference} * {difference}", *litert.multiplier(
        wide * wide / (2.0**(2 * litert.LEFT) * out.scale)))
    return f"clamp({made} + {out.zp}, {clamp['lo']}, {clamp['hi']})"


def _slope_text(op: _Element, out: Stored, clamp: Mapping[str, int]) -> str:
    x, slope = (f"int64({_less(name, part.zp)})" for name, part in zip(("x0", "x1"), op.inputs))
    above = _twice(x, *litert.multiplier(op.inputs[0].scale / out.scale))
    below = _twice(f"{x} * {slope}", *_slope(op))
    return (f"clamp(select(x0 < {op.inputs[0].zp}, {below}, {above}) + {out.zp}, "
            f"{clamp['lo']}, {clamp['hi']})")


def _twice(text: str, mult: int, exponent: int, left: int = 0) -> str:
    """`litert.requantized` of an int64."""
    high = f"(({text} * {mult << left + max(exponent, 0)} + {1 << 30}) >> 31)"
    right = max(-exponent, 0)
    return f"(({high} + {1 << right >> 1} + ({high} >> 63)) >> {right})" if right else high


_TEXTS: dict[str, Callable[[_Element, Stored, Mapping[str, int]], str]] = {
    "ADD": _sum_text(1), "SUB": _sum_text(-1), "PRELU": _slope_text,
    "SQUARED_DIFFERENCE": _squared_text}
