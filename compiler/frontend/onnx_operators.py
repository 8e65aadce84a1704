"""ONNX operators: what each accepts and the graph node that it becomes.

Every operator is read in two steps, so that one look at a model finds everything that is wrong:
`read` checks attributes, which needs no types, and `build` adds the node. Either raises
NodeRefused with the reason alone; the importer adds the place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, inf, prod
from typing import Any, Protocol

import numpy as np
import onnx

from compiler.graph.graph import TensorType

__all__ = ["OPERATORS", "NodeRefused", "Operator", "Placed", "Scope"]


class NodeRefused(Exception):
    """Why a node cannot be imported."""


class Scope(Protocol):
    """What operators see of the graph that is being built."""

    def type_of(self, value: str) -> TensorType: ...
    def constant(self, value: str, role: str) -> np.ndarray: ...
    def add_constant(self, stem: str, array: np.ndarray) -> str: ...
    def define_constant(self, value: str, array: np.ndarray) -> None: ...
    def emit(self, op: str, inputs: tuple[str, ...], **attrs: object) -> None: ...


@dataclass(slots=True)
class Attributes:
    """The attributes of an ONNX node; each is taken once and none may be left over."""

    items: dict[str, Any]
    taken: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, node: onnx.NodeProto) -> "Attributes":
        items = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        return cls({name: value.decode() if isinstance(value, bytes) else value
                    for name, value in items.items()})

    def take(self, name: str, default: Any = None) -> Any:
        self.taken.add(name)
        value = self.items.get(name, default)
        return tuple(value) if isinstance(value, list) else value

    def require(self, name: str, wanted: object) -> None:
        """The attribute must have the wanted value, which is also its default."""
        value = self.take(name, wanted)
        if value != wanted:
            raise NodeRefused(f"{name} must be {wanted}, not {value}")

    def close(self) -> None:
        for name in self.items:
            if name not in self.taken:
                raise NodeRefused(f"attribute {name!r} is not supported")


Read = Callable[[Attributes], dict[str, object]]


@dataclass(frozen=True, slots=True)
class Operator:
    """`inputs` bounds the number of inputs; `build(scope, node, attributes)` adds the node. Where
    there may be `gaps`, an absent input before a present one has the name "".
    """

    read: Read
    build: Callable[[Scope, "Placed", dict], None]
    inputs: tuple[int, int]
    gaps: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """An ONNX node for `build`: its inputs (trailing absent ones dropped) and its output."""

    inputs: tuple[str, ...]
    output: str


def _nothing(attributes: Attributes) -> dict[str, object]:
    return {}


def _read_window(attributes: Attributes) -> dict[str, object]:
    for value in attributes.take("dilations", ()):
        if value != 1:
            raise NodeRefused(f"dilations must be 1, not {value}")
    return _read_strided(attributes)


def _read_strided(attributes: Attributes) -> dict[str, Any]:
    """A window but for its dilations."""
    read = {"kernel": attributes.take("kernel_shape"), "pads": attributes.take("pads"),
            "strides": attributes.take("strides", (1, 1)),
            "auto_pad": attributes.take("auto_pad", "NOTSET")}
    for name, length in (("kernel", 2), ("strides", 2), ("pads", 4)):
        if read[name] is not None and len(read[name]) != length:
            raise NodeRefused(f"{name} must have {length} numbers, not {len(read[name])}")
    if read["auto_pad"] not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise NodeRefused("auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, "
                          f"not {read['auto_pad']}")
    return read


def _read_conv(attributes: Attributes) -> dict[str, Any]:
    read = _read_strided(attributes)
    read |= {"dilations": attributes.take("dilations", (1, 1)),
             "group": attributes.take("group", 1)}
    _require_pair("dilations", read["dilations"])
    return read


def _require_pair(name: str, value: tuple[int, ...] | None) -> None:
    if value is not None and len(value) != 2:
        raise NodeRefused(f"{name} must have 2 numbers, not {len(value)}")


def _read_conv_transpose(attributes: Attributes) -> dict[str, Any]:
    read = _read_conv(attributes)
    for name in ("output_padding", "output_shape"):
        read[name] = attributes.take(name)
        _require_pair(name, read[name])
    return read


def _read_maxpool(attributes: Attributes) -> dict[str, object]:
    attributes.require("ceil_mode", 0)
    attributes.require("storage_order", 0)
    return _read_kernel(attributes)


def _read_avgpool(attributes: Attributes) -> dict[str, object]:
    attributes.require("ceil_mode", 0)
    include = attributes.take("count_include_pad", 0)
    return {"include_pad": include, **_read_kernel(attributes)}


def _read_kernel(attributes: Attributes) -> dict[str, object]:
    read = _read_window(attributes)
    if read["kernel"] is None:
        raise NodeRefused("kernel_shape must be given")
    return read


def _window_attrs(x: TensorType, kernel: tuple[int, ...], read: dict) -> dict[str, object]:
    if len(x.shape) != 4 or len(kernel) != 2:
        raise NodeRefused(f"input must have 4 dimensions, not {x}")
    pads = [_axis_pads(*sides) for sides in
            zip(x.shape[2:], kernel, read["strides"], (read["auto_pad"],) * 2, strict=True)]
    automatic = (pads[0][0], pads[1][0], pads[0][1], pads[1][1])
    explicit = read["pads"] or (0, 0, 0, 0)
    return {"strides": read["strides"],
            "pads": explicit if read["auto_pad"] == "NOTSET" else automatic}


def _axis_pads(size: int, kernel: int, stride: int, mode: str) -> tuple[int, int]:
    """Pads before and after along one axis; SAME gives ceil(size / stride) results."""
    if not mode.startswith("SAME"):
        return 0, 0
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    less, more = total // 2, total - total // 2
    return (less, more) if mode == "SAME_UPPER" else (more, less)


def _conv(scope: Scope, node: Placed, read: dict) -> None:
    x, w = (scope.type_of(value) for value in node.inputs[:2])
    reach = _reach(x, w, read)
    scope.emit("conv2d", node.inputs, **_window_attrs(x, reach, read), **_spread(read))


def _reach(x: TensorType, w: TensorType, read: dict) -> tuple[int, ...]:
    """Rows and columns from the first to the last tap of a kernel."""
    kernel = w.shape[2:]
    if read["kernel"] not in (None, kernel):
        raise NodeRefused(f"kernel_shape must be the weight's {kernel}, not {read['kernel']}")
    if len(x.shape) != 4 or len(kernel) != 2:
        raise NodeRefused(f"input must have 4 dimensions, not {x}")
    return tuple((size - 1) * step + 1
                 for size, step in zip(kernel, read["dilations"], strict=True))


def _spread(read: dict) -> dict[str, object]:
    """Dilations, group and output padding where they are not the usual ones."""
    usual = {"dilations": (1, 1), "group": 1, "output_padding": (0, 0)}
    return {name: read[name] for name, value in usual.items()
            if name in read and read[name] not in (value, None)}


def _conv_transpose(scope: Scope, node: Placed, read: dict) -> None:
    x, w = (scope.type_of(value) for value in node.inputs[:2])
    reach = _reach(x, w, read)
    more, wanted = read["output_padding"] or (0, 0), _wanted(x, read)
    pads = read["pads"] or (0, 0, 0, 0)
    if wanted is not None:
        (top, bottom, below), (left, right, beside) = (
            _cut(*one, read["auto_pad"]) for one in zip(
                x.shape[2:], reach, read["strides"], more, wanted, strict=True))
        pads, read = (top, left, bottom, right), {**read, "output_padding": (below, beside)}
    scope.emit("convtranspose2d", node.inputs, strides=read["strides"], pads=pads,
               **_spread(read))


def _wanted(x: TensorType, read: dict) -> tuple[int, ...] | None:
    """Height and width of the result where the node says them."""
    if read["output_shape"] is not None:
        return read["output_shape"]
    if read["auto_pad"].startswith("SAME"):
        return tuple(size * stride for size, stride
                     in zip(x.shape[2:], read["strides"], strict=True))
    return None


def _cut(size: int, reach: int, stride: int, more: int, wanted: int,
         mode: str) -> tuple[int, int, int]:
    """Pads before and after, and output padding, along one axis that shall have `wanted` results.
    """
    total = (size - 1) * stride + reach + more - wanted
    if total < 0 and mode.startswith("SAME"):
        raise NodeRefused(f"kernel must be no shorter than the stride {stride} for auto_pad {mode}")
    less = max(total, 0) // 2
    rest = max(total, 0) - less
    before, after = (rest, less) if mode != "SAME_UPPER" else (less, rest)
    return before, after, more + max(-total, 0)


def _maxpool(scope: Scope, node: Placed, read: dict) -> None:
    attrs = _window_attrs(scope.type_of(node.inputs[0]), read["kernel"], read)
    scope.emit("maxpool", node.inputs, kernel=read["kernel"], **attrs)


def _avgpool(scope: Scope, node: Placed, read: dict) -> None:
    attrs = _window_attrs(scope.type_of(node.inputs[0]), read["kernel"], read)
    scope.emit("avgpool", node.inputs, kernel=read["kernel"], include_pad=read["include_pad"],
               **attrs)


def _read_gemm(attributes: Attributes) -> dict[str, object]:
    attributes.require("alpha", 1.0)
    attributes.require("beta", 1.0)
    attributes.require("transA", 0)
    return {"trans_b": attributes.take("transB", 0)}


def _gemm(scope: Scope, node: Placed, read: dict) -> None:
    scope.emit("dense", node.inputs, **read)


def _read_clip(attributes: Attributes) -> dict[str, object]:
    """Bounds are attributes before opset 11, inputs since."""
    return {"lo": attributes.take("min", -inf), "hi": attributes.take("max", inf)}


def _clip(scope: Scope, node: Placed, read: dict) -> None:
    bounds = dict(read)
    for name, role, value in zip(("lo", "hi"), ("min", "max"), node.inputs[1:], strict=False):
        if value:
            bounds[name] = _number(scope.constant(value, role), role)
    scope.emit("clip", node.inputs[:1], **bounds)


def _number(array: np.ndarray, role: str) -> float:
    if array.size != 1:
        raise NodeRefused(f"its {role} must be one number, not {array.size}")
    return float(array.reshape(()))


def _slice(scope: Scope, node: Placed, read: dict) -> None:
    shape = scope.type_of(node.inputs[0]).shape
    given = {role: [int(v) for v in scope.constant(value, role).reshape(-1)] for role, value
             in zip(("starts", "ends", "axes", "steps"), node.inputs[1:], strict=False) if value}
    starts, ends = (given.get(role, []) for role in ("starts", "ends"))
    axes = [_axis(axis, len(shape)) for axis in given.get("axes", range(len(starts)))]
    steps = given.get("steps", [1] * len(starts))
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise NodeRefused("starts, ends, axes and steps must have as many numbers, not "
                          f"{len(starts)}, {len(ends)}, {len(axes)} and {len(steps)}")
    begin, end, step = [0] * len(shape), list(shape), [1] * len(shape)
    for axis, first, last, stride in zip(axes, starts, ends, steps, strict=True):
        if stride < 1:
            raise NodeRefused(f"steps must be at least 1, not {stride}")
        begin[axis], end[axis], step[axis] = *slice(first, last).indices(shape[axis])[:2], stride
    scope.emit("slice", node.inputs[:1], begin=tuple(begin), end=tuple(end), step=tuple(step))


def _read_resize(attributes: Attributes) -> dict[str, object]:
    attributes.require("mode", "nearest")
    for name, usual in (("antialias", 0), ("exclude_outside", 0), ("axes", None),
                        ("keep_aspect_ratio_policy", "stretch")):
        attributes.require(name, usual)
    for name in ("cubic_coeff_a", "extrapolation_value"):
        attributes.take(name)
    return {"place": attributes.take("coordinate_transformation_mode", "half_pixel"),
            "nearest": attributes.take("nearest_mode", "round_prefer_floor")}


def _resize(scope: Scope, node: Placed, read: dict) -> None:
    """Opset 10 has scales as the second input, and no choice of places."""
    shape = scope.type_of(node.inputs[0]).shape
    if len(node.inputs) == 2:
        inputs, read = {"scales": node.inputs[1]}, {"place": "asymmetric", "nearest": "floor"}
    else:
        inputs = dict(zip(("roi", "scales", "sizes"), node.inputs[1:], strict=False))
    scales = _scales(scope, inputs, shape)
    text = [f"{scale:g}" for scale in scales]
    factors = [int(scale) for scale in scales if scale % 1 == 0]
    if len(shape) != 4 or len(factors) != 4 or len(scales) != 4 or factors[:2] != [1, 1]:
        raise NodeRefused("scales must be whole numbers for rows and columns of an image, and 1 "
                          f"for images and channels, not {', '.join(text)}")
    if not all(_repeats(factor, extent, **read)
               for factor, extent in zip(factors[2:], shape[2:], strict=True)):
        raise NodeRefused(f"pixels must be repeated, which {read['place']} with {read['nearest']} "
                          f"and scales {', '.join(text[2:])} does not")
    scope.emit("upsample", node.inputs[:1], factors=tuple(factors[2:]))


def _scales(scope: Scope, inputs: Mapping, shape: tuple[int, ...]) -> list[float]:
    """The factor of each axis, from the factors or from the extents that are wanted."""
    if not inputs.get("sizes"):
        return scope.constant(inputs.get("scales", ""), "scales").reshape(-1).tolist()
    sizes = scope.constant(inputs["sizes"], "sizes").reshape(-1)
    if len(sizes) != len(shape):
        raise NodeRefused(f"sizes must have {len(shape)} numbers, not {len(sizes)}")
    return [int(size) / extent for size, extent in zip(sizes, shape, strict=True)]


def _repeats(factor: int, extent: int, place: str, nearest: str) -> bool:
    """Whether each place of the result takes the pixel that a repetition puts there."""
    half = Fraction(1, 2)
    places: dict[str, Callable[[int], Fraction]] = {
        "asymmetric": lambda i: Fraction(i, factor),
        "half_pixel": lambda i: (i + half) / factor - half,
        "half_pixel_symmetric": lambda i: (i + half) / factor - half,
        "pytorch_half_pixel": lambda i: (i + half) / factor - half if factor * extent > 1 else
        Fraction(0)}
    roundings: dict[str, Callable[[Fraction], int]] = {
        "floor": floor, "ceil": ceil, "round_prefer_floor": lambda x: ceil(x - half),
        "round_prefer_ceil": lambda x: floor(x + half)}
    if place not in places or nearest not in roundings:
        return False
    return all(min(max(roundings[nearest](places[place](i)), 0), extent - 1) == i // factor
               for i in range(factor * extent))


def _leakyrelu(scope: Scope, node: Placed, read: dict) -> None:
    scope.emit("leakyrelu", node.inputs, **read)


def _read_concat(attributes: Attributes) -> dict[str, object]:
    axis = attributes.take("axis")
    if axis is None:
        raise NodeRefused("axis must be given")
    return {"axis": axis}


def _concat(scope: Scope, node: Placed, read: dict) -> None:
    axis = _axis(read["axis"], len(scope.type_of(node.inputs[0]).shape))
    scope.emit("concat", node.inputs, axis=axis)


def _plain(op: str) -> Callable[[Scope, Placed, dict], None]:
    def build(scope: Scope, node: Placed, read: dict) -> None:
        scope.emit(op, node.inputs)
    return build


def _read_flatten(attributes: Attributes) -> dict[str, object]:
    return {"axis": attributes.take("axis", 1)}


def _flatten(scope: Scope, node: Placed, read: dict) -> None:
    shape, axis = scope.type_of(node.inputs[0]).shape, read["axis"]
    if not -len(shape) <= axis <= len(shape):
        raise NodeRefused(f"axis must be -{len(shape)} to {len(shape)}, not {axis}")
    axis += len(shape) if axis < 0 else 0
    scope.emit("reshape", node.inputs, shape=(prod(shape[:axis]), prod(shape[axis:])))


def _read_reshape(attributes: Attributes) -> dict[str, object]:
    attributes.require("allowzero", 0)
    return {}


def _reshape(scope: Scope, node: Placed, read: dict) -> None:
    old = scope.type_of(node.inputs[0]).shape
    wanted = tuple(int(extent) for extent in scope.constant(node.inputs[1], "shape").reshape(-1))
    if wanted.count(-1) > 1 or min(wanted, default=1) < -1 or 0 in wanted[len(old):]:
        raise NodeRefused(f"shape must hold extents, 0 for a kept one and one -1, not {wanted}")
    kept = [old[i] if extent == 0 else extent for i, extent in enumerate(wanted)]
    if -1 in kept:
        kept[kept.index(-1)] = max(1, prod(old) // prod(e for e in kept if e != -1))
    scope.emit("reshape", node.inputs[:1], shape=tuple(kept))


def _read_transpose(attributes: Attributes) -> dict[str, object]:
    return {"perm": attributes.take("perm")}


def _transpose(scope: Scope, node: Placed, read: dict) -> None:
    """The axes are turned round where the node names none."""
    rank = len(scope.type_of(node.inputs[0]).shape)
    scope.emit("transpose", node.inputs, perm=read["perm"] or tuple(reversed(range(rank))))


def _read_quantize(attributes: Attributes) -> dict[str, object]:
    attributes.require("block_size", 0)
    attributes.take("saturate", 1)
    _require_dtype(attributes, "precision", ("FLOAT",))
    dtype = _require_dtype(attributes, "output_dtype", ("INT8", "UINT8"))
    return {"axis": attributes.take("axis", 1), "dtype": "int8" if dtype == "INT8" else "uint8"}


def _read_dequantize(attributes: Attributes) -> dict[str, object]:
    attributes.require("block_size", 0)
    _require_dtype(attributes, "output_dtype", ("FLOAT",))
    return {"axis": attributes.take("axis", 1), "dtype": None}


def _require_dtype(attributes: Attributes, name: str, wanted: tuple[str, ...]) -> str | None:
    """The name of the ONNX type in the attribute, None when it is not given."""
    code = attributes.take(name, 0)
    found = onnx.TensorProto.DataType.Name(code)
    if code and found not in wanted:
        raise NodeRefused(f"{name} must be {' or '.join(wanted)}, not {found}")
    return found if code else None


def _scaled(op: str) -> Callable[[Scope, Placed, dict], None]:
    """Quantization with scale and zero point made explicit constants of one shape."""
    def build(scope: Scope, node: Placed, read: dict) -> None:
        x = scope.type_of(node.inputs[0])
        scale_name = node.inputs[1]
        scale = scope.constant(scale_name, "scale")
        if not np.all((scale > 0) & np.isfinite(scale)):
            raise NodeRefused("every scale must be positive and finite")
        whole = scale.size == 1
        if len(node.inputs) == 3:
            zero_name, zero = node.inputs[2], scope.constant(node.inputs[2], "zero point")
        else:
            zero_name, zero = "", np.zeros(scale.shape, read["dtype"] or x.dtype)
        axis = 0 if whole else _axis(read["axis"], len(x.shape))
        parameters = [_shaped(scope, *one, whole, f"{node.output}_{role}") for role, one in
                      (("scale", (scale_name, scale)), ("zero_point", (zero_name, zero)))]
        scope.emit(op, (node.inputs[0], *parameters), axis=axis)
    return build


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise NodeRefused(f"axis must be -{rank} to {rank - 1}, not {axis}")
    return axis + rank if axis < 0 else axis


def _shaped(scope: Scope, name: str, array: np.ndarray, whole: bool, stem: str) -> str:
    """The constant's name; a new constant when it had none or is one number in a vector."""
    flat = array.reshape(()) if whole and array.size == 1 else array
    return name if name and flat.shape == array.shape else scope.add_constant(stem, flat)


CONSTANT_FORMS = {"value_float": np.float32, "value_floats": np.float32,
                  "value_int": np.int64, "value_ints": np.int64}


def _read_constant(attributes: Attributes) -> dict[str, object]:
    for name, dtype in CONSTANT_FORMS.items():
        value = attributes.take(name)
        if value is not None:
            return {"array": np.array(value, dtype)}
    value = attributes.take("value")
    attributes.close()
    if value is None:
        raise NodeRefused("value must be given")
    return {"array": onnx.numpy_helper.to_array(value)}


def _constant(scope: Scope, node: Placed, read: dict) -> None:
    scope.define_constant(node.output, read["array"])


ANY = 2**31 - 1
"""ONNX's limit of inputs where there may be any number."""

OPERATORS: dict[str, Operator] = {
    "Add": Operator(_nothing, _plain("add"), (2, 2)),
    "AveragePool": Operator(_read_avgpool, _avgpool, (1, 1)),
    "Clip": Operator(_read_clip, _clip, (1, 3), gaps=True),
    "Concat": Operator(_read_concat, _concat, (1, ANY)),
    "Constant": Operator(_read_constant, _constant, (0, 0)),
    "Conv": Operator(_read_conv, _conv, (2, 3)),
    "ConvTranspose": Operator(_read_conv_transpose, _conv_transpose, (2, 3)),
    "DequantizeLinear": Operator(_read_dequantize, _scaled("dequantizelinear"), (2, 3)),
    "Flatten": Operator(_read_flatten, _flatten, (1, 1)),
    "Gemm": Operator(_read_gemm, _gemm, (2, 3)),
    "GlobalAveragePool": Operator(_nothing, _plain("globalavgpool"), (1, 1)),
    "Identity": Operator(_nothing, _plain("identity"), (1, 1)),
    "LeakyRelu": Operator(lambda attributes: {"alpha": attributes.take("alpha", 0.01)},
                          _leakyrelu, (1, 1)),
    "MatMul": Operator(_nothing, _plain("matmul"), (2, 2)),
    "MaxPool": Operator(_read_maxpool, _maxpool, (1, 1)),
    "QuantizeLinear": Operator(_read_quantize, _scaled("quantizelinear"), (2, 3)),
    "Relu": Operator(_nothing, _plain("relu"), (1, 1)),
    "Reshape": Operator(_read_reshape, _reshape, (2, 2)),
    "Resize": Operator(_read_resize, _resize, (2, 4), gaps=True),
    "Slice": Operator(_nothing, _slice, (3, 5), gaps=True),
    "Transpose": Operator(_read_transpose, _transpose, (1, 1)),
}
