"""Rules of integer operators, by the table in `compiler.graph.ops`."""

from dataclasses import replace

from compiler.ops.fixed_point import MAX_MULTIPLIER, MAX_SHIFT, MIN_MULTIPLIER
from compiler.graph.graph import Node, TensorType
from compiler.ops.rules import (Rule, Types, averaged, concatenated, convolved, grouped,
                                  image_and_weight, multiplied, need, need_arity, need_dtype,
                                  need_rank, pooled, transposed)

__all__ = ["INTEGER_OPS"]


def _qmatmul(node: Node, types: Types) -> TensorType:
    """Of two computed tensors, one multiplier for the whole result."""
    need_arity(node, types, 2)
    need_dtype(node, types, "int8")
    _requantized(node)
    for name in ("a_zp", "b_zp"):
        value = node.attrs.get(name, 0)
        need(-128 <= value <= 127, node, f"{name} must be an int8, not {value!r}")
    need(node.attrs["trans_b"] in (0, 1), node,
         f"trans_b must be 0 or 1, not {node.attrs['trans_b']!r}")
    a, b = types
    if node.attrs["trans_b"] and len(b.shape) >= 2:
        b = TensorType((*b.shape[:-2], b.shape[-1], b.shape[-2]), b.dtype)
    return TensorType(multiplied(node, a, b), "int8")


def _qavgpool(node: Node, types: Types) -> TensorType:
    """One multiplier for all windows, or one for each place of a window."""
    need_arity(node, types, 3)
    for name, type_, dtype in zip(node.inputs, types, ("int8", "int32", "int32"), strict=True):
        need(type_.dtype == dtype, node, f"input {name!r} must be {dtype}, not {type_.dtype}")
    bias, value = node.attrs["bias"], node.attrs["pad_value"]
    need(-2**31 <= bias < 2**31, node, f"bias must be an int32, not {bias!r}")
    need(-128 <= value <= 127, node, f"pad_value must be an int8, not {value!r}")
    _clamp(node)
    made = pooled(node, types)
    for name, type_ in zip(node.inputs[1:], types[1:], strict=True):
        need(type_.shape in (made.shape[2:], (1, 1)), node,
             f"input {name!r} must have shape {made.shape[2:]} or (1, 1), not {type_.shape}")
    need(types[1] == types[2], node,
         f"mult and shift must have one shape, not {types[1].shape} and {types[2].shape}")
    return made


def _qconcat(node: Node, types: Types) -> TensorType:
    """Along the channels, each input requantized by itself."""
    need_dtype(node, types, "int8")
    for name in ("bias", "mult", "shift"):
        need(len(node.attrs[name]) == len(types), node,
             f"{name} must have a number for each of {len(types)} inputs, "
             f"not {node.attrs[name]!r}")
    for bias, mult, shift in zip(*(node.attrs[k] for k in ("bias", "mult", "shift")), strict=True):
        _multiplier(node, bias, mult, shift)
    _clamp(node)
    return concatenated(replace(node, attrs={"axis": node.attrs.get("axis", 1)}), types)


def _clamp(node: Node) -> None:
    zp, lo, hi = (node.attrs[name] for name in ("zp", "lo", "hi"))
    need(-128 <= zp <= 127, node, f"zp must be an int8, not {zp!r}")
    need(-128 <= lo <= hi <= 127, node, f"lo and hi must be ordered int8, not {lo!r} and {hi!r}")


def _requantized(node: Node) -> None:
    """The attributes of operators that carry one multiplier for the whole tensor."""
    _multiplier(node, *(node.attrs[name] for name in ("bias", "mult", "shift")))
    _clamp(node)


def _multiplier(node: Node, bias: int, mult: int, shift: int) -> None:
    need(mult == 0 or MIN_MULTIPLIER <= mult <= MAX_MULTIPLIER, node,
         f"mult must be 0 or {MIN_MULTIPLIER} to {MAX_MULTIPLIER}, not {mult!r}")
    need(0 <= shift <= MAX_SHIFT, node, f"shift must be 0 to {MAX_SHIFT}, not {shift!r}")
    need(-2**31 <= bias < 2**31, node, f"bias must be an int32, not {bias!r}")


def _per_channel(node: Node, types: Types) -> None:
    """int8 data and weight, then three int32 vectors: bias, mult, shift."""
    need_arity(node, types, 5)
    for name, type_, dtype in zip(node.inputs, types, ("int8",) * 2 + ("int32",) * 3, strict=True):
        need(type_.dtype == dtype, node, f"input {name!r} must be {dtype}, not {type_.dtype}")
    _clamp(node)


def _qconv2d(node: Node, types: Types) -> TensorType:
    _padded(node, types)
    return convolved(node, types)


def _padded(node: Node, types: Types) -> None:
    _per_channel(node, types)
    value = node.attrs["pad_value"]
    need(-128 <= value <= 127, node, f"pad_value must be an int8, not {value!r}")


def _qconvtranspose2d(node: Node, types: Types) -> TensorType:
    _padded(node, types)
    x, w = image_and_weight(node, types)
    grouped(node, x, *w.shape[:2])
    return transposed(node, types, w.shape[0])


def _qdense(node: Node, types: Types) -> TensorType:
    _per_channel(node, types)
    x, w = types[:2]
    need(len(x.shape) >= 2, node, f"input {node.inputs[0]!r} must have at least 2 dimensions, "
         f"not {x}")
    need_rank(node, 1, w, 2)
    need(x.shape[-1] == w.shape[1], node,
         f"input width must equal the weight's {w.shape[1]}, not {x.shape[-1]}")
    for name, vector in zip(node.inputs[2:], types[2:], strict=True):
        need(vector.shape == w.shape[:1], node,
             f"input {name!r} must have shape ({w.shape[0]},), not {vector.shape!r}")
    return TensorType((*x.shape[:-1], w.shape[0]), "int8")


def _qadd(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2)
    need_dtype(node, types, "int8")
    a, b = types
    need(a == b, node, f"qadd inputs must have one type, not {a} and {b}")
    for name in ("ma", "mb"):
        need(0 <= node.attrs[name] <= MAX_MULTIPLIER, node,
             f"{name} must be 0 to {MAX_MULTIPLIER}, not {node.attrs[name]!r}")
    shift, c = node.attrs["shift"], node.attrs["c"]
    need(0 <= shift <= MAX_SHIFT, node, f"shift must be 0 to {MAX_SHIFT}, not {shift!r}")
    need(-2**31 <= c < 2**31, node, f"c must be an int32, not {c!r}")
    _clamp(node)
    return a


def _int8(rule: Rule) -> Rule:
    def checked(node: Node, types: Types) -> TensorType:
        need_arity(node, types, 1)
        need_dtype(node, types, "int8")
        return rule(node, types)
    return checked


def _qglobalavgpool(node: Node, types: Types) -> TensorType:
    _requantized(node)
    return averaged(node, types)


def _qrescale(node: Node, types: Types) -> TensorType:
    _requantized(node)
    return types[0]


def _qleakyrelu(node: Node, types: Types) -> TensorType:
    """The greater of two requantizations: the first where x + bias is positive."""
    _requantized(node)
    mult, shift, below, less = (node.attrs[name] for name in
                                ("mult", "shift", "mult_below", "shift_below"))
    _multiplier(node, 0, below, less)
    need(below << shift <= mult << less, node,
         f"slope below zero must be at most {mult} / 2**{shift}, not {below} / 2**{less}")
    return types[0]


def _cast(source: str, target: str) -> Rule:
    def cast(node: Node, types: Types) -> TensorType:
        need_arity(node, types, 1)
        need_dtype(node, types, source)
        return TensorType(types[0].shape, target)
    return cast


def _parameters(source: str, target: str) -> Rule:
    cast = _cast(source, target)

    def scaled(node: Node, types: Types) -> TensorType:
        scale, zp = node.attrs["scale"], node.attrs["zp"]
        need(0 < scale < float("inf"), node, f"scale must be positive, not {scale!r}")
        need(-128 <= zp <= 127, node, f"zp must be an int8, not {zp!r}")
        return cast(node, types)
    return scaled


INTEGER_OPS: dict[str, Rule] = {
    "qconv2d": _qconv2d, "qconvtranspose2d": _qconvtranspose2d,
    "qdense": _qdense, "qadd": _qadd, "qmaxpool": _int8(pooled),
    "qavgpool": _qavgpool, "qconcat": _qconcat,
    "qglobalavgpool": _int8(_qglobalavgpool), "qrescale": _int8(_qrescale),
    "qleakyrelu": _int8(_qleakyrelu), "qmatmul": _qmatmul,
    "quantize": _parameters("float32", "int8"), "dequantize": _parameters("int8", "float32"),
    "to_int8": _cast("uint8", "int8"), "to_uint8": _cast("int8", "uint8"),
}
