"""Rules of float operators, by the table in `compiler.graph.ops`."""

from math import prod

from compiler.graph.graph import Node, TensorType
from compiler.ops.rules import (Rule, Types, averaged, broadcast, concatenated, convolved,
                                  image_and_weight, multiplied, need, need_arity, need_dtype,
                                  need_rank, pooled, transposed)

__all__ = ["FLOAT_OPS"]


def _conv2d(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2, 3)
    need_dtype(node, types, "float32")
    return convolved(node, types)


def _convtranspose2d(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2, 3)
    need_dtype(node, types, "float32")
    x, w = image_and_weight(node, types)
    group = node.attrs.get("group", 1)
    need(group > 0, node, f"group must be at least 1, not {group!r}")
    need(x.shape[1] == w.shape[0], node,
         f"input channels must equal the weight's {w.shape[0]}, not {x.shape[1]}")
    need(w.shape[0] % group == 0, node,
         f"input channels must be a multiple of the group {group}, not {w.shape[0]}")
    return transposed(node, types, w.shape[1] * group)


def _dense(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2, 3)
    need_dtype(node, types, "float32")
    need(node.attrs["trans_b"] in (0, 1), node,
         f"trans_b must be 0 or 1, not {node.attrs['trans_b']!r}")
    x, w = types[:2]
    need_rank(node, 0, x, 2)
    need_rank(node, 1, w, 2)
    width, depth = w.shape if node.attrs["trans_b"] else w.shape[::-1]
    need(x.shape[1] == depth, node, f"input width must equal the weight's {depth}, "
         f"not {x.shape[1]}")
    made = TensorType((x.shape[0], width), "float32")
    if len(types) == 3:
        need(broadcast(types[2].shape, made.shape) == made.shape, node,
             f"bias must broadcast to {made}, not {types[2]}")
    return made


def _matmul(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2)
    need_dtype(node, types, "float32")
    return TensorType(multiplied(node, *types), "float32")


def _relu(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    need_dtype(node, types, "float32")
    return types[0]


def _clip(node: Node, types: Types) -> TensorType:
    for name in ("lo", "hi"):
        need(node.attrs[name] == node.attrs[name], node, f"{name} must be a number, not nan")
    return _relu(node, types)


def _leakyrelu(node: Node, types: Types) -> TensorType:
    alpha = node.attrs["alpha"]
    need(abs(alpha) < float("inf"), node, f"alpha must be finite, not {alpha!r}")
    return _relu(node, types)


def _same(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    return types[0]


def _maxpool(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    need(types[0].dtype in ("float32", "int8", "uint8"), node,
         f"input {node.inputs[0]!r} must be float32, int8 or uint8, not {types[0].dtype}")
    return pooled(node, types)


def _avgpool(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    need_dtype(node, types, "float32")
    need(node.attrs["include_pad"] in (0, 1), node,
         f"include_pad must be 0 or 1, not {node.attrs['include_pad']!r}")
    return pooled(node, types)


def _globalavgpool(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    need_dtype(node, types, "float32")
    return averaged(node, types)


def _upsample(node: Node, types: Types) -> TensorType:
    """Each pixel repeated, in a block of whole rows and columns."""
    need_arity(node, types, 1)
    need_rank(node, 0, types[0], 4)
    factors = node.attrs["factors"]
    need(len(factors) == 2 and min(factors) > 0, node,
         f"factors must be 2 integers of at least 1, not {factors!r}")
    n, c, h, w = types[0].shape
    return TensorType((n, c, h * factors[0], w * factors[1]), types[0].dtype)


def _slice(node: Node, types: Types) -> TensorType:
    """Of every axis, each `step`-th element from `begin` to before `end`."""
    need_arity(node, types, 1)
    shape, sides = types[0].shape, [node.attrs[name] for name in ("begin", "end", "step")]
    need(all(len(side) == len(shape) for side in sides), node,
         f"begin, end and step must have {len(shape)} numbers for {types[0]}")
    for axis, (extent, begin, end, step) in enumerate(zip(shape, *sides, strict=True)):
        need(0 <= begin < end <= extent and step > 0, node,
             f"slice of axis {axis} must lie in 0 to {extent} with a step of at least 1, "
             f"not {begin} to {end} with step {step}")
    return TensorType(tuple(-(-(end - begin) // step) for begin, end, step
                            in zip(*sides, strict=True)), types[0].dtype)


def _reshape(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    made = TensorType(node.attrs["shape"], types[0].dtype)
    need(prod(made.shape) == prod(types[0].shape), node,
         f"shape must keep the number of elements of {types[0]}, not {made.shape!r}")
    return made


def _scaled(node: Node, types: Types) -> tuple[TensorType, TensorType, TensorType]:
    need_arity(node, types, 3)
    x, scale, zero = types
    need(scale.dtype == "float32", node, f"scale must be float32, not {scale.dtype}")
    axis = node.attrs["axis"]
    extents = x.shape[axis:axis + 1] if axis >= 0 else None
    need(scale.shape in ((), extents), node,
         f"scale must be a scalar or match axis {axis} of {x}, not {scale}")
    need(zero.shape == scale.shape, node,
         f"zero point must have the shape of the scale {scale}, not {zero}")
    return x, scale, zero


def _quantizelinear(node: Node, types: Types) -> TensorType:
    x, _, zero = _scaled(node, types)
    need(x.dtype == "float32", node,
         f"input {node.inputs[0]!r} must be float32, not {x.dtype}")
    need(zero.dtype in ("int8", "uint8"), node,
         f"zero point must be int8 or uint8, not {zero.dtype}")
    return TensorType(x.shape, zero.dtype)


def _dequantizelinear(node: Node, types: Types) -> TensorType:
    x, _, zero = _scaled(node, types)
    need(x.dtype in ("int8", "uint8", "int32"), node,
         f"input {node.inputs[0]!r} must be int8, uint8 or int32, not {x.dtype}")
    need(zero.dtype == x.dtype, node, f"zero point must be {x.dtype}, not {zero.dtype}")
    return TensorType(x.shape, "float32")


FLOAT_OPS: dict[str, Rule] = {
    "conv2d": _conv2d, "convtranspose2d": _convtranspose2d,
    "dense": _dense, "matmul": _matmul, "relu": _relu, "clip": _clip,
    "leakyrelu": _leakyrelu, "identity": _same, "concat": concatenated,
    "maxpool": _maxpool, "avgpool": _avgpool, "globalavgpool": _globalavgpool,
    "reshape": _reshape, "upsample": _upsample, "slice": _slice,
    "quantizelinear": _quantizelinear, "dequantizelinear": _dequantizelinear,
}
