"""Elementwise operators of TensorFlow Lite files as what LiteRT's default kernels compute of int8.

The front end names at each quantization of int8 the operator of the file whose result it stores, in
the attribute `litert`. `compiler/ops/integers/litert.py` says what kernels compute.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.graph.graph import Node
from compiler.graph.integerize.quantized import QuantizedView
from compiler.ops.integers import litert
from compiler.ops.records.integer_forms import Bounds, StaysFloat, Stored, clamp_to
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find

Array = np.ndarray
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
WIDEST = 2.0**7


def kernel_of(node: Node) -> str:
    """The operator of the file whose result a quantization stores; empty for other networks."""
    return str(node.attrs.get("litert", ""))


# Functions of elements


@dataclass(frozen=True, slots=True)
class Element:
    """The tensors that an elementwise operator of the file reads, in order, and how it stores its
    result."""

    inputs: tuple[Stored, ...]
    sources: tuple[str, ...]
    scale: float
    attrs: Mapping[str, Any]


Function = Callable[..., Array]


def _rescaled(op: Element, x: Array) -> Array:
    scale, out = op.inputs[0].scale, op.scale
    fits = RESCALED[0] <= np.float32(scale) / np.float32(out) <= RESCALED[1]
    return (litert.rescaled if fits else litert.rescaled_finely)(x, scale, out)


def _leaky_relu(op: Element, x: Array) -> Array:
    return litert.leaky_relu(x, op.inputs[0].scale, op.scale, op.attrs["alpha"])


def _finely(op: Element, x: Array) -> Array:
    return litert.rescaled_finely(x, op.inputs[0].scale, op.scale)


def slope_of(op: Element) -> tuple[int, int]:
    """The multiplier of products with a slope."""
    a, b = scales_of(op)
    return litert.multiplier(a * b / op.scale)


def scales_of(op: Element) -> tuple[float, float]:
    """The scales of the two tensors."""
    return op.inputs[0].scale, op.inputs[1].scale


def _added(sign: int) -> Function:
    def of(op: Element, a: Array, b: Array) -> Array:
        return litert.added(a, b, scales_of(op), op.scale, sign)
    return of


ELEMENTWISE: dict[str, Function] = {
    "ABS": lambda op, x: _finely(op, np.abs(x)),
    "ADD": _added(1), "SUB": _added(-1),
    "HARD_SWISH": lambda op, x: litert.hard_swish(x, op.inputs[0].scale, op.scale),
    "LEAKY_RELU": _leaky_relu,
    "MUL": lambda op, a, b: litert.scaled(a * b, litert.scale_of_product(*scales_of(op), op.scale)),
    "PRELU": lambda op, x, slope: np.where(
        x < 0, litert.requantized(x * slope, *slope_of(op)), _finely(op, x)),
    "QUANTIZE": _rescaled,
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"), _finely),
    "RSQRT": lambda op, x: litert.reciprocal_root(x, op.inputs[0].scale, op.scale),
    "SQUARED_DIFFERENCE": lambda op, a, b: litert.squared_difference(a, b, scales_of(op), op.scale),
}
"""Results in steps, of elements less their zero points."""


@np.errstate(all="ignore")
def stored_steps(view: QuantizedView, node: Node, known: Mapping[str, Array]) -> Array | None:
    """The integers that the kernel stores, where a quantization does, of the elements that are
    `known`; None where the operators in front of it say what is stored, as they do in other
    networks.
    """
    kernel, parameters = kernel_of(node), view.parameters(node)
    if not kernel or parameters is None or parameters[2] != "int8":
        return None
    scale, zp, _ = parameters
    bounds = clamp_to(Stored(node.outputs[0], *parameters), _bounds(view, node))
    if kernel in REAL:
        made = REAL[kernel](known[node.inputs[0]], scale, zp)
    elif (op := element_of(view, node, scale)) is not None:
        arrays = (known[source] if source in known else view.graph.constants[source].reshape(())
                  for source in op.sources)
        elements = [array.astype(np.int64) - x.zp for array, x in zip(arrays, op.inputs)]
        made = ELEMENTWISE[kernel](op, *elements) + zp
    else:
        return None
    return np.clip(made, bounds["lo"], bounds["hi"]).astype(np.int8)


def element_of(view: QuantizedView, node: Node, scale: float) -> Element | None:
    """The operator before a quantization; None where it is not one of `ELEMENTWISE`, or its kernel
    does not take its scales.
    """
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
    op = Element(tuple(inputs), sources, scale, core.attrs)
    shares = [np.float32(x.scale) / np.float32(scale) for x in inputs]
    match kernel, len(inputs):
        case "ADD" | "SUB", 2:
            fits = all(SCALES[0] <= share < SCALES[1] for share in shares)
        case "MUL", 2:
            fits = PRODUCT_SCALES[0] <= litert.scale_of_product(
                *scales_of(op), scale) < PRODUCT_SCALES[1]
        case "HARD_SWISH", 1:
            fits = shares[0] < WIDEST
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
