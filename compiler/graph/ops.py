"""Operators: what each needs and the type of what it makes. One rule an operator.

Float operators (`conv2d` ... `identity`) carry ONNX's meaning on logical NCHW shapes; integer
operators (`qconv2d` ...) carry the meaning of docs/machine.md, section Numbers, on int8 tensors
in stored form (a uint8 tensor is stored as x - 128). The operators of `compiler.ops.general`
(`add`, `exp`, `reduce_sum`, `transpose`, ...) take any shape and element type; their tables stand
there.

| operator | inputs | attributes |
|---|---|---|
| conv2d | x, w [Co,Ci/group,kh,kw], bias [Co]? | strides, pads (top, left, bottom, right) |
| convtranspose2d | x, w [Ci,Co/group,kh,kw], bias [Co]? | strides, pads |
| dense | x [M,K], w [N,K] or [K,N], bias? | trans_b: 1 when w is [N,K] |
| matmul | a, b | |
| relu, identity | x | |
| leakyrelu | x | alpha: the slope below zero |
| clip | x | lo, hi: numbers, infinite ones too; hi where lo is above it |
| maxpool | x | kernel, strides, pads |
| avgpool | x | kernel, strides, pads, include_pad: 1 when pads count as elements |
| globalavgpool | x | |
| concat | any number of tensors | axis |
| reshape | x | shape |
| upsample | x | factors: rows and columns of each pixel |
| slice | x | begin, end, step of each axis |
| quantizelinear | x, scale, zero_point | axis |
| dequantizelinear | q, scale, zero_point | axis |
| qconv2d | x, w [Co,Ci/group,kh,kw], bias, mult, shift [Co] | as conv2d, pad_value, zp, lo, hi |
| qconvtranspose2d | as qconv2d | as convtranspose2d, pad_value, zp, lo, hi |
| qdense | x [...,K], w [N,K], bias, mult, shift [N] | zp, lo, hi |
| qconcat | any number of tensors | bias, mult, shift: one for each input; zp, lo, hi; axis: 1 |
| qmatmul | a, b [...,K,N] or [...,N,K] | trans_b: 1 when b is [...,N,K]; a_zp, b_zp; as qrescale |
| qadd | a, b | ma, mb, c, shift, zp, lo, hi |
| qmaxpool | x | kernel, strides, pads |
| qavgpool | x, mult, shift [Ho,Wo] or [1,1] | as maxpool, pad_value, bias, zp, lo, hi |
| qglobalavgpool, qrescale | x | bias, mult, shift, zp, lo, hi |
| qleakyrelu | x | as qrescale, mult_below, shift_below: a slope not above the other |
| quantize | x float32 | scale, zp (stored form) |
| dequantize | x int8 | scale, zp (stored form) |
| to_int8, to_uint8 | x | |

Convolutions may have `dilations` (rows, columns; 1 unless told) and a `group` (1 unless told), the
transposed ones an `output_padding` (below, right; 0 unless told). `qmatmul` multiplies a - a_zp by
b - b_zp (0 unless told); leading dimensions broadcast. `qconvtranspose2d` is a
convolution of its input with strides - 1 pixels of `pad_value` between neighbours and `pad_value`
around, by the kernel turned by 180 degrees.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from compiler import te
from compiler.graph.fixed_point import MAX_MULTIPLIER, MAX_SHIFT, MIN_MULTIPLIER
from compiler.graph.graph import Attrs, Node, TensorType
from compiler.ops.general import GENERAL
from compiler.ops.products import MOST_STEPS

__all__ = ["FLOAT_OPS", "GENERAL_OPS", "INTEGER_OPS", "OPS", "TypeRefused", "infer",
           "transposed_shape", "window_shape"]


class TypeRefused(ValueError):
    """An operator's inputs or attributes contradict its rule."""


Types = Sequence[TensorType]
Rule = Callable[[Node, Types], TensorType]


def infer(node: Node, types: Types) -> TensorType:
    """The type of the node's only output, or TypeRefused with one sentence that names the node."""
    if node.op not in OPS:
        raise TypeRefused(f"{node.name}: operator must be one of {', '.join(OPS)}, not {node.op!r}")
    if len(node.outputs) != 1:
        raise TypeRefused(f"{node.name}: {node.op} must have 1 output, not {len(node.outputs)}")
    try:
        return OPS[node.op](node, types)
    except KeyError as missing:
        raise TypeRefused(f"{node.name}: {node.op} needs the attribute {missing}") from None


def window_shape(size: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
                 pads: Sequence[int], dilations: Sequence[int] = (1, 1)) -> tuple[int, int]:
    """Output height and width of a sliding window; rounds down, as ONNX's ceil_mode 0."""
    padded = (size[0] + pads[0] + pads[2], size[1] + pads[1] + pads[3])
    rows, columns = ((p - (k - 1) * d - 1) // s + 1 for p, k, s, d
                     in zip(padded, kernel, strides, dilations, strict=True))
    return rows, columns


def transposed_shape(size: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
                     pads: Sequence[int], dilations: Sequence[int] = (1, 1),
                     output_padding: Sequence[int] = (0, 0)) -> tuple[int, int]:
    """Output height and width of a transposed convolution."""
    cut = (pads[0] + pads[2], pads[1] + pads[3])
    rows, columns = ((n - 1) * s + (k - 1) * d + 1 + more - less for n, k, s, d, more, less
                     in zip(size, kernel, strides, dilations, output_padding, cut, strict=True))
    return rows, columns


def _need(holds: bool, node: Node, sentence: str) -> None:
    if not holds:
        raise TypeRefused(f"{node.name}: {sentence}")


def _arity(node: Node, types: Types, *counts: int) -> None:
    wanted = " or ".join(map(str, counts))
    _need(len(types) in counts, node, f"{node.op} must have {wanted} inputs, not {len(types)}")


def _dtype(node: Node, types: Types, dtype: str) -> None:
    for name, type_ in zip(node.inputs, types, strict=True):
        _need(type_.dtype == dtype, node, f"input {name!r} must be {dtype}, not {type_.dtype}")


def _rank(node: Node, which: int, type_: TensorType, rank: int) -> None:
    name = node.inputs[which]
    _need(len(type_.shape) == rank, node,
          f"input {name!r} must have {rank} dimensions, not {type_}")


def _windows(node: Node, x: TensorType, kernel: Sequence[int],
             dilations: Sequence[int] = (1, 1)) -> tuple[int, int]:
    strides, pads = _steps(node, kernel)
    rows, columns = window_shape(x.shape[2:], kernel, strides, pads, dilations)
    apart = "" if tuple(dilations) == (1, 1) else f" and dilations {dilations!r}"
    _need(rows > 0 and columns > 0, node,
          f"kernel must fit the padded input, not {kernel!r} in {x} with pads {pads!r}{apart}")
    return rows, columns


def _steps(node: Node, kernel: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Strides and pads of a window."""
    strides, pads = node.attrs["strides"], node.attrs["pads"]
    _numbers(node, "strides", strides, 2, 1)
    _numbers(node, "pads", pads, 4, 0)
    _numbers(node, "kernel", kernel, 2, 1)
    return strides, pads


def _numbers(node: Node, role: str, numbers: Sequence[int], count: int, least: int) -> None:
    """What a window is described by."""
    _need(len(numbers) == count and min(numbers) >= least, node,
          f"{role} must be {count} integers of at least {least}, not {numbers!r}")
    _need(max(numbers) <= MOST_STEPS, node,
          f"{role} must be integers of at most {MOST_STEPS:,}, not {numbers!r}")


def _dilations(node: Node) -> Sequence[int]:
    dilations = node.attrs.get("dilations", (1, 1))
    _numbers(node, "dilations", dilations, 2, 1)
    return dilations


def _group(node: Node, x: TensorType, outputs: int, inputs: int) -> int:
    """The number of groups, which divides the outputs; each reads `inputs` channels."""
    group = node.attrs.get("group", 1)
    times = "" if group == 1 else f" in each of {group} groups"
    _need(group > 0, node, f"group must be at least 1, not {group!r}")
    _need(x.shape[1] == inputs * group, node,
          f"input channels must equal the weight's {inputs}{times}, not {x.shape[1]}")
    _need(outputs % group == 0, node,
          f"output channels must be a multiple of the group {group}, not {outputs}")
    return group


def _conv2d(node: Node, types: Types) -> TensorType:
    _arity(node, types, 2, 3)
    _dtype(node, types, "float32")
    return _convolved(node, types)


def _convolved(node: Node, types: Types) -> TensorType:
    x, w = _image_and_weight(node, types)
    _group(node, x, *w.shape[:2])
    _vectors(node, types[2:], w.shape[0])
    made = _windows(node, x, w.shape[2:], _dilations(node))
    return TensorType((x.shape[0], w.shape[0], *made), x.dtype)


def _image_and_weight(node: Node, types: Types) -> tuple[TensorType, TensorType]:
    x, w = types[:2]
    _rank(node, 0, x, 4)
    _rank(node, 1, w, 4)
    return x, w


def _vectors(node: Node, types: Types, channels: int) -> None:
    for name, vector in zip(node.inputs[2:], types, strict=True):
        _need(vector.shape == (channels,), node,
              f"input {name!r} must have shape ({channels},), not {vector.shape!r}")


def _convtranspose2d(node: Node, types: Types) -> TensorType:
    _arity(node, types, 2, 3)
    _dtype(node, types, "float32")
    x, w = _image_and_weight(node, types)
    group = node.attrs.get("group", 1)
    _need(group > 0, node, f"group must be at least 1, not {group!r}")
    _need(x.shape[1] == w.shape[0], node,
          f"input channels must equal the weight's {w.shape[0]}, not {x.shape[1]}")
    _need(w.shape[0] % group == 0, node,
          f"input channels must be a multiple of the group {group}, not {w.shape[0]}")
    return _transposed(node, types, w.shape[1] * group)


def _transposed(node: Node, types: Types, channels: int) -> TensorType:
    x, w = types[:2]
    _vectors(node, types[2:], channels)
    strides, pads = _steps(node, w.shape[2:])
    more = node.attrs.get("output_padding", (0, 0))
    _numbers(node, "output_padding", more, 2, 0)
    made = transposed_shape(x.shape[2:], w.shape[2:], strides, pads, _dilations(node), more)
    _need(min(made) > 0, node, f"pads must leave an output, not {pads!r}, which leave {made!r}")
    return TensorType((x.shape[0], channels, *made), x.dtype)


def _dense(node: Node, types: Types) -> TensorType:
    _arity(node, types, 2, 3)
    _dtype(node, types, "float32")
    _need(node.attrs["trans_b"] in (0, 1), node,
          f"trans_b must be 0 or 1, not {node.attrs['trans_b']!r}")
    x, w = types[:2]
    _rank(node, 0, x, 2)
    _rank(node, 1, w, 2)
    width, depth = w.shape if node.attrs["trans_b"] else w.shape[::-1]
    _need(x.shape[1] == depth, node, f"input width must equal the weight's {depth}, "
          f"not {x.shape[1]}")
    made = TensorType((x.shape[0], width), "float32")
    if len(types) == 3:
        _need(_broadcast(types[2].shape, made.shape) == made.shape, node,
              f"bias must broadcast to {made}, not {types[2]}")
    return made


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def _matmul(node: Node, types: Types) -> TensorType:
    _arity(node, types, 2)
    _dtype(node, types, "float32")
    return TensorType(_multiplied(node, *types), "float32")


def _qmatmul(node: Node, types: Types) -> TensorType:
    """Of two computed tensors, one multiplier for the whole result."""
    _arity(node, types, 2)
    _dtype(node, types, "int8")
    _requantized(node)
    for name in ("a_zp", "b_zp"):
        value = node.attrs.get(name, 0)
        _need(-128 <= value <= 127, node, f"{name} must be an int8, not {value!r}")
    _need(node.attrs["trans_b"] in (0, 1), node,
          f"trans_b must be 0 or 1, not {node.attrs['trans_b']!r}")
    a, b = types
    if node.attrs["trans_b"] and len(b.shape) >= 2:
        b = TensorType((*b.shape[:-2], b.shape[-1], b.shape[-2]), b.dtype)
    return TensorType(_multiplied(node, a, b), "int8")


def _multiplied(node: Node, a: TensorType, b: TensorType) -> tuple[int, ...]:
    _need(min(len(a.shape), len(b.shape)) >= 2, node,
          f"matmul inputs must have at least 2 dimensions, not {a} and {b}")
    leading = _broadcast(a.shape[:-2], b.shape[:-2])
    if leading is None or a.shape[-1] != b.shape[-2]:
        raise TypeRefused(f"{node.name}: matmul inputs must agree in their inner and leading "
                          f"extents, not {a} and {b}")
    return (*leading, a.shape[-2], b.shape[-1])


def _relu(node: Node, types: Types) -> TensorType:
    _arity(node, types, 1)
    _dtype(node, types, "float32")
    return types[0]


def _clip(node: Node, types: Types) -> TensorType:
    for name in ("lo", "hi"):
        _need(node.attrs[name] == node.attrs[name], node, f"{name} must be a number, not nan")
    return _relu(node, types)


def _leakyrelu(node: Node, types: Types) -> TensorType:
    alpha = node.attrs["alpha"]
    _need(abs(alpha) < float("inf"), node, f"alpha must be finite, not {alpha!r}")
    return _relu(node, types)


def _same(node: Node, types: Types) -> TensorType:
    _arity(node, types, 1)
    return types[0]


def _pooled(node: Node, types: Types) -> TensorType:
    x = types[0]
    _rank(node, 0, x, 4)
    kernel, pads = node.attrs["kernel"], node.attrs["pads"]
    shape = (*x.shape[:2], *_windows(node, x, kernel))
    _need(max(pads[0], pads[2]) < kernel[0] and max(pads[1], pads[3]) < kernel[1], node,
          f"pads must be smaller than the kernel {kernel!r}, not {pads!r}")
    return TensorType(shape, x.dtype)


def _maxpool(node: Node, types: Types) -> TensorType:
    _arity(node, types, 1)
    _need(types[0].dtype in ("float32", "int8", "uint8"), node,
          f"input {node.inputs[0]!r} must be float32, int8 or uint8, not {types[0].dtype}")
    return _pooled(node, types)


def _avgpool(node: Node, types: Types) -> TensorType:
    _arity(node, types, 1)
    _dtype(node, types, "float32")
    _need(node.attrs["include_pad"] in (0, 1), node,
          f"include_pad must be 0 or 1, not {node.attrs['include_pad']!r}")
    return _pooled(node, types)


def _qavgpool(node: Node, types: Types) -> TensorType:
    """One multiplier for all windows, or one for each place of a window."""
    _arity(node, types, 3)
    for name, type_, dtype in zip(node.inputs, types, ("int8", "int32", "int32"), strict=True):
        _need(type_.dtype == dtype, node, f"input {name!r} must be {dtype}, not {type_.dtype}")
    bias, value = node.attrs["bias"], node.attrs["pad_value"]
    _need(-2**31 <= bias < 2**31, node, f"bias must be an int32, not {bias!r}")
    _need(-128 <= value <= 127, node, f"pad_value must be an int8, not {value!r}")
    _clamp(node)
    made = _pooled(node, types)
    for name, type_ in zip(node.inputs[1:], types[1:], strict=True):
        _need(type_.shape in (made.shape[2:], (1, 1)), node,
              f"input {name!r} must have shape {made.shape[2:]} or (1, 1), not {type_.shape}")
    _need(types[1] == types[2], node,
          f"mult and shift must have one shape, not {types[1].shape} and {types[2].shape}")
    return made


def _averaged(node: Node, types: Types) -> TensorType:
    _rank(node, 0, types[0], 4)
    return TensorType((*types[0].shape[:2], 1, 1), types[0].dtype)


def _globalavgpool(node: Node, types: Types) -> TensorType:
    _arity(node, types, 1)
    _dtype(node, types, "float32")
    return _averaged(node, types)


def _concat(node: Node, types: Types) -> TensorType:
    """One after the other along the axis; all of one type but for their extent there."""
    first, axis = types[0], node.attrs["axis"]
    _need(0 <= axis < len(first.shape), node,
          f"axis must be 0 to {len(first.shape) - 1}, not {axis}")
    for name, type_ in zip(node.inputs, types, strict=True):
        _need(_without(type_, axis) == _without(first, axis), node,
              f"input {name!r} must be {first} but for axis {axis}, not {type_}")
    shape = list(first.shape)
    shape[axis] = sum(type_.shape[axis] for type_ in types)
    return TensorType(tuple(shape), first.dtype)


def _without(type_: TensorType, axis: int) -> tuple:
    return type_.shape[:axis], type_.shape[axis + 1:], type_.dtype


def _upsample(node: Node, types: Types) -> TensorType:
    """Each pixel repeated, in a block of whole rows and columns."""
    _arity(node, types, 1)
    _rank(node, 0, types[0], 4)
    factors = node.attrs["factors"]
    _need(len(factors) == 2 and min(factors) > 0, node,
          f"factors must be 2 integers of at least 1, not {factors!r}")
    n, c, h, w = types[0].shape
    return TensorType((n, c, h * factors[0], w * factors[1]), types[0].dtype)


def _slice(node: Node, types: Types) -> TensorType:
    """Of every axis, each `step`-th element from `begin` to before `end`."""
    _arity(node, types, 1)
    shape, sides = types[0].shape, [node.attrs[name] for name in ("begin", "end", "step")]
    _need(all(len(side) == len(shape) for side in sides), node,
          f"begin, end and step must have {len(shape)} numbers for {types[0]}")
    for axis, (extent, begin, end, step) in enumerate(zip(shape, *sides, strict=True)):
        _need(0 <= begin < end <= extent and step > 0, node,
              f"slice of axis {axis} must lie in 0 to {extent} with a step of at least 1, "
              f"not {begin} to {end} with step {step}")
    return TensorType(tuple(-(-(end - begin) // step) for begin, end, step
                            in zip(*sides, strict=True)), types[0].dtype)


def _qconcat(node: Node, types: Types) -> TensorType:
    """Along the channels, each input requantized by itself."""
    _dtype(node, types, "int8")
    for name in ("bias", "mult", "shift"):
        _need(len(node.attrs[name]) == len(types), node,
              f"{name} must have a number for each of {len(types)} inputs, "
              f"not {node.attrs[name]!r}")
    for bias, mult, shift in zip(*(node.attrs[k] for k in ("bias", "mult", "shift")), strict=True):
        _multiplier(node, bias, mult, shift)
    _clamp(node)
    return _concat(replace(node, attrs={"axis": node.attrs.get("axis", 1)}), types)


def _reshape(node: Node, types: Types) -> TensorType:
    _arity(node, types, 1)
    made = TensorType(node.attrs["shape"], types[0].dtype)
    _need(np.prod(made.shape, dtype=int) == np.prod(types[0].shape, dtype=int), node,
          f"shape must keep the number of elements of {types[0]}, not {made.shape!r}")
    return made


def _scaled(node: Node, types: Types) -> tuple[TensorType, TensorType, TensorType]:
    _arity(node, types, 3)
    x, scale, zero = types
    _need(scale.dtype == "float32", node, f"scale must be float32, not {scale.dtype}")
    axis = node.attrs["axis"]
    extents = x.shape[axis:axis + 1] if axis >= 0 else None
    _need(scale.shape in ((), extents), node,
          f"scale must be a scalar or match axis {axis} of {x}, not {scale}")
    _need(zero.shape == scale.shape, node,
          f"zero point must have the shape of the scale {scale}, not {zero}")
    return x, scale, zero


def _quantizelinear(node: Node, types: Types) -> TensorType:
    x, _, zero = _scaled(node, types)
    _need(x.dtype == "float32", node,
          f"input {node.inputs[0]!r} must be float32, not {x.dtype}")
    _need(zero.dtype in ("int8", "uint8"), node,
          f"zero point must be int8 or uint8, not {zero.dtype}")
    return TensorType(x.shape, zero.dtype)


def _dequantizelinear(node: Node, types: Types) -> TensorType:
    x, _, zero = _scaled(node, types)
    _need(x.dtype in ("int8", "uint8", "int32"), node,
          f"input {node.inputs[0]!r} must be int8, uint8 or int32, not {x.dtype}")
    _need(zero.dtype == x.dtype, node, f"zero point must be {x.dtype}, not {zero.dtype}")
    return TensorType(x.shape, "float32")


def _clamp(node: Node) -> None:
    zp, lo, hi = (node.attrs[name] for name in ("zp", "lo", "hi"))
    _need(-128 <= zp <= 127, node, f"zp must be an int8, not {zp!r}")
    _need(-128 <= lo <= hi <= 127, node, f"lo and hi must be ordered int8, not {lo!r} and {hi!r}")


def _requantized(node: Node) -> None:
    """The attributes of operators that carry one multiplier for the whole tensor."""
    _multiplier(node, *(node.attrs[name] for name in ("bias", "mult", "shift")))
    _clamp(node)


def _multiplier(node: Node, bias: int, mult: int, shift: int) -> None:
    _need(mult == 0 or MIN_MULTIPLIER <= mult <= MAX_MULTIPLIER, node,
          f"mult must be 0 or {MIN_MULTIPLIER} to {MAX_MULTIPLIER}, not {mult!r}")
    _need(0 <= shift <= MAX_SHIFT, node, f"shift must be 0 to {MAX_SHIFT}, not {shift!r}")
    _need(-2**31 <= bias < 2**31, node, f"bias must be an int32, not {bias!r}")


def _per_channel(node: Node, types: Types) -> None:
    """int8 data and weight, then three int32 vectors: bias, mult, shift."""
    _arity(node, types, 5)
    for name, type_, dtype in zip(node.inputs, types, ("int8",) * 2 + ("int32",) * 3, strict=True):
        _need(type_.dtype == dtype, node, f"input {name!r} must be {dtype}, not {type_.dtype}")
    _clamp(node)


def _qconv2d(node: Node, types: Types) -> TensorType:
    _padded(node, types)
    return _convolved(node, types)


def _padded(node: Node, types: Types) -> None:
    _per_channel(node, types)
    value = node.attrs["pad_value"]
    _need(-128 <= value <= 127, node, f"pad_value must be an int8, not {value!r}")


def _qconvtranspose2d(node: Node, types: Types) -> TensorType:
    _padded(node, types)
    x, w = _image_and_weight(node, types)
    _group(node, x, *w.shape[:2])
    return _transposed(node, types, w.shape[0])


def _qdense(node: Node, types: Types) -> TensorType:
    _per_channel(node, types)
    x, w = types[:2]
    _need(len(x.shape) >= 2, node, f"input {node.inputs[0]!r} must have at least 2 dimensions, "
          f"not {x}")
    _rank(node, 1, w, 2)
    _need(x.shape[-1] == w.shape[1], node,
          f"input width must equal the weight's {w.shape[1]}, not {x.shape[-1]}")
    for name, vector in zip(node.inputs[2:], types[2:], strict=True):
        _need(vector.shape == w.shape[:1], node,
              f"input {name!r} must have shape ({w.shape[0]},), not {vector.shape!r}")
    return TensorType((*x.shape[:-1], w.shape[0]), "int8")


def _qadd(node: Node, types: Types) -> TensorType:
    _arity(node, types, 2)
    _dtype(node, types, "int8")
    a, b = types
    _need(a == b, node, f"qadd inputs must have one type, not {a} and {b}")
    for name in ("ma", "mb"):
        _need(0 <= node.attrs[name] <= MAX_MULTIPLIER, node,
              f"{name} must be 0 to {MAX_MULTIPLIER}, not {node.attrs[name]!r}")
    shift, c = node.attrs["shift"], node.attrs["c"]
    _need(0 <= shift <= MAX_SHIFT, node, f"shift must be 0 to {MAX_SHIFT}, not {shift!r}")
    _need(-2**31 <= c < 2**31, node, f"c must be an int32, not {c!r}")
    _clamp(node)
    return a


def _int8(rule: Rule) -> Rule:
    def checked(node: Node, types: Types) -> TensorType:
        _arity(node, types, 1)
        _dtype(node, types, "int8")
        return rule(node, types)
    return checked


def _qglobalavgpool(node: Node, types: Types) -> TensorType:
    _requantized(node)
    return _averaged(node, types)


def _qrescale(node: Node, types: Types) -> TensorType:
    _requantized(node)
    return types[0]


def _qleakyrelu(node: Node, types: Types) -> TensorType:
    """The greater of two requantizations: the first where x + bias is positive."""
    _requantized(node)
    mult, shift, below, less = (node.attrs[name] for name in
                                ("mult", "shift", "mult_below", "shift_below"))
    _multiplier(node, 0, below, less)
    _need(below << shift <= mult << less, node,
          f"slope below zero must be at most {mult} / 2**{shift}, not {below} / 2**{less}")
    return types[0]


def _cast(source: str, target: str) -> Rule:
    def cast(node: Node, types: Types) -> TensorType:
        _arity(node, types, 1)
        _dtype(node, types, source)
        return TensorType(types[0].shape, target)
    return cast


def _parameters(source: str, target: str) -> Rule:
    cast = _cast(source, target)

    def scaled(node: Node, types: Types) -> TensorType:
        scale, zp = node.attrs["scale"], node.attrs["zp"]
        _need(0 < scale < float("inf"), node, f"scale must be positive, not {scale!r}")
        _need(-128 <= zp <= 127, node, f"zp must be an int8, not {zp!r}")
        return cast(node, types)
    return scaled


FLOAT_OPS: dict[str, Rule] = {
    "conv2d": _conv2d, "convtranspose2d": _convtranspose2d,
    "dense": _dense, "matmul": _matmul, "relu": _relu, "clip": _clip,
    "leakyrelu": _leakyrelu, "identity": _same, "concat": _concat,
    "maxpool": _maxpool, "avgpool": _avgpool, "globalavgpool": _globalavgpool,
    "reshape": _reshape, "upsample": _upsample, "slice": _slice,
    "quantizelinear": _quantizelinear, "dequantizelinear": _dequantizelinear,
}
INTEGER_OPS: dict[str, Rule] = {
    "qconv2d": _qconv2d, "qconvtranspose2d": _qconvtranspose2d,
    "qdense": _qdense, "qadd": _qadd, "qmaxpool": _int8(_pooled),
    "qavgpool": _qavgpool, "qconcat": _qconcat,
    "qglobalavgpool": _int8(_qglobalavgpool), "qrescale": _int8(_qrescale),
    "qleakyrelu": _int8(_qleakyrelu), "qmatmul": _qmatmul,
    "quantize": _parameters("float32", "int8"), "dequantize": _parameters("int8", "float32"),
    "to_int8": _cast("uint8", "int8"), "to_uint8": _cast("int8", "uint8"),
}


def _general(op: str) -> Rule:
    """The rule of an operator that says itself what it makes."""
    def rule(node: Node, types: Types) -> TensorType:
        try:
            return _general_type(op, Attrs(node.attrs), tuple(types))
        except (ValueError, TypeError) as error:
            raise TypeRefused(f"{node.name}: {error}") from None
    return rule


@lru_cache(4096)
def _general_type(op: str, attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    inputs = [te.placeholder(type_.shape, type_.dtype, f"x{position}")
              for position, type_ in enumerate(types)]
    made = GENERAL[op].define(attrs, inputs, "y")
    return TensorType(made.shape, made.dtype)


GENERAL_OPS: dict[str, Rule] = {op: _general(op) for op in GENERAL}
OPS: dict[str, Rule] = FLOAT_OPS | INTEGER_OPS | GENERAL_OPS
