"""Integer operators for float ones: one function an operator, from the quantized tensors around it
to the integer node that takes its place. The numbers are those of docs/machine.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from compiler.ops.fixed_point import add_multipliers, quantize_multiplier
from compiler.graph.graph import Node
from compiler.graph.passes.quantized import QuantizedView, StaysFloat, Stored
from compiler.graph.reference import outputs_first

__all__ = ["PATTERNS", "Bounds", "IntegerNode"]

ACCUMULATOR_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class IntegerNode:
    """Operator, attributes and inputs: activations by name, then new constants by role."""

    op: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, object]
    constants: tuple[tuple[str, np.ndarray], ...] = ()


Bounds = tuple[float, float]
"""What Relu and Clip leave of the numbers, least and greatest."""

Pattern = Callable[[QuantizedView, Node, Stored, Bounds], IntegerNode]


def _clamp(out: Stored, bounds: Bounds) -> dict[str, int]:
    """The bounds as QuantizeLinear would see them: rounding keeps order."""
    with np.errstate(over="ignore"):
        steps = np.rint(np.array(bounds, np.float32) / np.float32(out.scale)) + out.zp
    lo, hi = np.clip(steps, -128, 127).astype(int).tolist()
    return {"zp": out.zp, "lo": lo, "hi": hi}


def _check_accumulator(bounds: np.ndarray) -> None:
    """StaysFloat unless |sum| + |bias| fits int32 in every channel, whatever the input."""
    worst = int(np.argmax(bounds))
    if not bounds[worst] <= ACCUMULATOR_LIMIT:
        raise StaysFloat(f"its accumulator could reach {bounds[worst]:.4g} in channel {worst}, "
                         f"beyond {ACCUMULATOR_LIMIT}")


def _multiplier(real: float, bound: float) -> tuple[int, int]:
    """Multiplier and shift; a scale so small that no accumulator reaches 1/2 is exactly 0."""
    return (0, 0) if bound * real < 0.5 else quantize_multiplier(real)


def _weighted(view: QuantizedView, biases: tuple[str, ...], x: Stored, weight: np.ndarray,
              scales: np.ndarray, out: Stored) -> tuple[tuple[str, np.ndarray], ...]:
    """The constants of an operator with weights [channels, ...], input zero point folded in."""
    steps = x.scale * scales
    bias = view.bias(biases[0], steps) if biases else np.zeros(len(steps))
    rows = weight.reshape(len(steps), -1).astype(np.int64)
    folded = bias - x.zp * rows.sum(axis=1)
    bounds = 128 * np.abs(rows).sum(axis=1) + np.abs(folded)
    _check_accumulator(bounds)
    pairs = [_multiplier(float(step) / out.scale, float(bound))
             for step, bound in zip(steps, bounds, strict=True)]
    mult, shift = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    return (("weight", weight), ("bias", folded.astype(np.int32)), ("mult", mult),
            ("shift", shift))


def _conv2d(view: QuantizedView, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    x = view.activation(node.inputs[0])
    weight, scales = view.weight(node.inputs[1], axis=0)
    constants = _weighted(view, node.inputs[2:], x, weight, scales, out)
    attrs = {**node.attrs, "pad_value": x.zp, **_clamp(out, bounds)}
    return IntegerNode("qconv2d", (x.value,), attrs, constants)


def _convtranspose2d(view: QuantizedView, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    """ONNX has the scales along an axis of a group's outputs: every group has the same."""
    x, group = view.activation(node.inputs[0]), node.attrs.get("group", 1)
    weight, scales = view.weight(node.inputs[1], axis=1)
    constants = _weighted(view, node.inputs[2:], x, outputs_first(weight, group),
                          np.tile(scales, group), out)
    attrs = {**node.attrs, "pad_value": x.zp, **_clamp(out, bounds)}
    return IntegerNode("qconvtranspose2d", (x.value,), attrs, constants)


def _dense(view: QuantizedView, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    if view.is_computed(node.inputs[1]):
        return _computed_product(view, node, out, bounds, node.attrs["trans_b"])
    return _product(view, node, out, bounds, transposed=node.attrs["trans_b"] == 0)


def _matmul(view: QuantizedView, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    if view.is_computed(node.inputs[1]):
        return _computed_product(view, node, out, bounds, 0)
    shape = view.graph.values[node.inputs[1]].shape
    if len(shape) != 2:
        raise StaysFloat(f"its weight must have 2 dimensions, not shape {shape}")
    return _product(view, node, out, bounds, transposed=True)


def _product(view: QuantizedView, node: Node, out: Stored, bounds: Bounds,
             transposed: bool, bias: tuple[str, ...] = ()) -> IntegerNode:
    """Dense with the weight brought to [outputs, inputs]; its bias unless another is given."""
    x = view.activation(node.inputs[0])
    weight, scales = view.weight(node.inputs[1], axis=int(transposed))
    weight = np.ascontiguousarray(weight.T) if transposed else weight
    constants = _weighted(view, bias or node.inputs[2:], x, weight, scales, out)
    return IntegerNode("qdense", (x.value,), _clamp(out, bounds), constants)


def _computed_product(view: QuantizedView, node: Node, out: Stored, bounds: Bounds,
                      trans_b: int) -> IntegerNode:
    a, b = (view.activation(value) for value in node.inputs[:2])
    depth = view.graph.values[node.inputs[0]].shape[-1]
    if len(node.inputs) > 2:
        raise StaysFloat("both of its inputs are computed: it must have no bias")
    greatest = (max(one.zp + 128, 127 - one.zp) for one in (a, b))
    bound = float(prod(greatest) * depth)
    _check_accumulator(np.array([bound]))
    mult, shift = _multiplier(a.scale * b.scale / out.scale, bound)
    attrs = {"trans_b": trans_b, "a_zp": a.zp, "b_zp": b.zp, "bias": 0, "mult": mult,
             "shift": shift}
    return IntegerNode("qmatmul", (a.value, b.value), attrs | _clamp(out, bounds))


def _add(view: QuantizedView, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    """Of two tensors, or of a product's result and its bias."""
    for value, other in (node.inputs, reversed(node.inputs)):
        core = view.producers.get(value)
        if core is not None and core.op == "matmul" and view.is_constant(other):
            if view.is_computed(core.inputs[1]):
                raise StaysFloat("it adds a constant to a product of two computed tensors")
            return _product(view, core, out, bounds, transposed=True, bias=(other,))
    a, b = (view.activation(value) for value in node.inputs)
    shapes = [view.graph.values[value].shape for value in node.inputs]
    if shapes[0] != shapes[1]:
        raise StaysFloat(f"its inputs must have one shape, not {shapes[0]} and {shapes[1]}")
    ma, mb, shift = add_multipliers(a.scale / out.scale, b.scale / out.scale)
    attrs = {"ma": ma, "mb": mb, "c": -(a.zp * ma + b.zp * mb), "shift": shift}
    return IntegerNode("qadd", (a.value, b.value), attrs | _clamp(out, bounds))


def _concat(view: QuantizedView, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    if node.attrs["axis"] != 1:
        raise StaysFloat(f"its axis must be 1, the channels, not {node.attrs['axis']}")
    parts = [_scaled("qrescale", view.activation(value), 1, out, bounds) for value in node.inputs]
    scales = {name: tuple(part.attrs[name] for part in parts)
              for name in ("bias", "mult", "shift")}
    return IntegerNode("qconcat", tuple(part.inputs[0] for part in parts),
                       scales | _clamp(out, bounds))


def _scaled(op: str, x: Stored, count: int, out: Stored, bounds: Bounds) -> IntegerNode:
    """One multiplier for the whole tensor, applied to sums of `count` elements."""
    bias = -x.zp * count
    bound = np.array([128.0 * count + abs(bias)])
    _check_accumulator(bound)
    mult, shift = _multiplier(x.scale / (out.scale * count), float(bound[0]))
    attrs = {"bias": bias, "mult": mult, "shift": shift}
    return IntegerNode(op, (x.value,), attrs | _clamp(out, bounds))


def _avgpool(view: QuantizedView, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    """Padded with the zero point, which adds nothing to a sum. One multiplier where all windows
    count as many elements, else one for each window.
    """
    x = view.activation(node.inputs[0])
    attrs = {name: node.attrs[name] for name in ("kernel", "strides", "pads")}
    area = attrs["kernel"][0] * attrs["kernel"][1]
    bias = -x.zp * area
    bound = 128.0 * area + abs(bias)
    _check_accumulator(np.array([bound]))
    counts = _counts(node, view.graph.values[node.inputs[0]].shape[2:])
    if np.all(counts == counts[0, 0]):
        counts = counts[:1, :1]
    pairs = [_multiplier(x.scale / (out.scale * int(count)), bound) for count in counts.flat]
    mult, shift = (np.array(column, np.int32).reshape(counts.shape)
                   for column in zip(*pairs, strict=True))
    return IntegerNode("qavgpool", (x.value,),
                       {**attrs, "pad_value": x.zp, "bias": bias} | _clamp(out, bounds),
                       (("mult", mult), ("shift", shift)))


def _counts(node: Node, size: tuple[int, ...]) -> np.ndarray:
    """How many elements each window of an average counts, [Ho, Wo]."""
    (kh, kw), (sh, sw), (top, left, bottom, right) = (
        node.attrs[name] for name in ("kernel", "strides", "pads"))
    counted = np.pad(np.ones(size, int), ((top, bottom), (left, right)),
                     constant_values=node.attrs["include_pad"])
    windows = np.lib.stride_tricks.sliding_window_view(counted, (kh, kw))[::sh, ::sw]
    return windows.sum(axis=(2, 3))


def _globalavgpool(view: QuantizedView, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    x = view.activation(node.inputs[0])
    rows, columns = view.graph.values[node.inputs[0]].shape[2:]
    return _scaled("qglobalavgpool", x, rows * columns, out, bounds)


def _leakyrelu(view: QuantizedView, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    alpha = node.attrs["alpha"]
    if not 0 <= alpha <= 1:
        raise StaysFloat(f"its slope below zero must be 0 to 1, not {alpha:g}")
    x = view.activation(node.inputs[0])
    above, below = (_scaled("qleakyrelu", Stored(x.value, x.scale * slope, x.zp), 1, out, bounds)
                    for slope in (1.0, alpha))
    attrs = {"mult_below": below.attrs["mult"], "shift_below": below.attrs["shift"]}
    return replace(above, attrs={**above.attrs, **attrs})


def _rescale(view: QuantizedView, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    x = view.activation(node.outputs[0])
    clamp = _clamp(out, bounds)
    if (x.scale, x.zp) == (out.scale, out.zp) and (clamp["lo"], clamp["hi"]) == (-128, 127):
        return IntegerNode("identity", (x.value,), {})
    return _scaled("qrescale", x, 1, out, bounds)


PATTERNS: dict[str, Pattern] = {
    "conv2d": _conv2d, "convtranspose2d": _convtranspose2d,
    "dense": _dense, "matmul": _matmul, "add": _add,
    "concat": _concat, "leakyrelu": _leakyrelu,
    "avgpool": _avgpool, "globalavgpool": _globalavgpool, "dequantizelinear": _rescale,
}
