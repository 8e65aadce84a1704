"""What rules of operators have in common: their checks, and the types that windows make."""

from collections.abc import Callable, Sequence

import numpy as np

from compiler.errors import Error
from compiler.ops.node import Node, TensorType
from compiler.ops.products import MOST_STEPS

__all__ = ["Rule", "TypeRefused", "Types", "averaged", "broadcast", "concatenated", "convolved",
           "grouped", "image_and_weight", "multiplied", "need", "need_arity", "need_dtype",
           "need_rank", "pooled", "transposed", "transposed_shape", "window_shape"]

Types = Sequence[TensorType]
Rule = Callable[[Node, Types], TensorType]


class TypeRefused(Error, ValueError):
    """An operator's inputs or attributes contradict its rule."""

    exit_status = None


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


def need(holds: bool, node: Node, sentence: str) -> None:
    """Refuses the node with the sentence unless it holds."""
    if not holds:
        raise TypeRefused(f"{node.name}: {sentence}")


def need_arity(node: Node, types: Types, *counts: int) -> None:
    """Refuses a number of inputs that is none of `counts`."""
    wanted = " or ".join(map(str, counts))
    need(len(types) in counts, node, f"{node.op} must have {wanted} inputs, not {len(types)}")


def need_dtype(node: Node, types: Types, dtype: str) -> None:
    """Refuses inputs of other element types."""
    for name, type_ in zip(node.inputs, types, strict=True):
        need(type_.dtype == dtype, node, f"input {name!r} must be {dtype}, not {type_.dtype}")


def need_rank(node: Node, which: int, type_: TensorType, rank: int) -> None:
    """Refuses the input number `which` if it has not so many dimensions."""
    name = node.inputs[which]
    need(len(type_.shape) == rank, node,
         f"input {name!r} must have {rank} dimensions, not {type_}")


def _windows(node: Node, x: TensorType, kernel: Sequence[int],
             dilations: Sequence[int] = (1, 1)) -> tuple[int, int]:
    strides, pads = _steps(node, kernel)
    rows, columns = window_shape(x.shape[2:], kernel, strides, pads, dilations)
    apart = "" if tuple(dilations) == (1, 1) else f" and dilations {dilations!r}"
    need(rows > 0 and columns > 0, node,
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
    need(len(numbers) == count and min(numbers) >= least, node,
         f"{role} must be {count} integers of at least {least}, not {numbers!r}")
    need(max(numbers) <= MOST_STEPS, node,
         f"{role} must be integers of at most {MOST_STEPS:,}, not {numbers!r}")


def _dilations(node: Node) -> Sequence[int]:
    dilations = node.attrs.get("dilations", (1, 1))
    _numbers(node, "dilations", dilations, 2, 1)
    return dilations


def grouped(node: Node, x: TensorType, outputs: int, inputs: int) -> int:
    """The number of groups, which divides the outputs; each reads `inputs` channels."""
    group = node.attrs.get("group", 1)
    times = "" if group == 1 else f" in each of {group} groups"
    need(group > 0, node, f"group must be at least 1, not {group!r}")
    need(x.shape[1] == inputs * group, node,
         f"input channels must equal the weight's {inputs}{times}, not {x.shape[1]}")
    need(outputs % group == 0, node,
         f"output channels must be a multiple of the group {group}, not {outputs}")
    return group


def convolved(node: Node, types: Types) -> TensorType:
    """What a convolution makes; a vector (a bias, say) has a number for each channel."""
    x, w = image_and_weight(node, types)
    grouped(node, x, *w.shape[:2])
    _vectors(node, types[2:], w.shape[0])
    made = _windows(node, x, w.shape[2:], _dilations(node))
    return TensorType((x.shape[0], w.shape[0], *made), x.dtype)


def image_and_weight(node: Node, types: Types) -> tuple[TensorType, TensorType]:
    """The first two inputs, both with four dimensions."""
    x, w = types[:2]
    need_rank(node, 0, x, 4)
    need_rank(node, 1, w, 4)
    return x, w


def _vectors(node: Node, types: Types, channels: int) -> None:
    for name, vector in zip(node.inputs[2:], types, strict=True):
        need(vector.shape == (channels,), node,
             f"input {name!r} must have shape ({channels},), not {vector.shape!r}")


def transposed(node: Node, types: Types, channels: int) -> TensorType:
    """What a transposed convolution makes."""
    x, w = types[:2]
    _vectors(node, types[2:], channels)
    strides, pads = _steps(node, w.shape[2:])
    more = node.attrs.get("output_padding", (0, 0))
    _numbers(node, "output_padding", more, 2, 0)
    made = transposed_shape(x.shape[2:], w.shape[2:], strides, pads, _dilations(node), more)
    need(min(made) > 0, node, f"pads must leave an output, not {pads!r}, which leave {made!r}")
    return TensorType((x.shape[0], channels, *made), x.dtype)


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of both together by NumPy's rules, or None."""
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def multiplied(node: Node, a: TensorType, b: TensorType) -> tuple[int, ...]:
    """The shape of a matrix product, or of a stack of them."""
    need(min(len(a.shape), len(b.shape)) >= 2, node,
         f"matmul inputs must have at least 2 dimensions, not {a} and {b}")
    leading = broadcast(a.shape[:-2], b.shape[:-2])
    if leading is None or a.shape[-1] != b.shape[-2]:
        raise TypeRefused(f"{node.name}: matmul inputs must agree in their inner and leading "
                          f"extents, not {a} and {b}")
    return (*leading, a.shape[-2], b.shape[-1])


def pooled(node: Node, types: Types) -> TensorType:
    """What a window makes of each channel."""
    x = types[0]
    need_rank(node, 0, x, 4)
    kernel, pads = node.attrs["kernel"], node.attrs["pads"]
    shape = (*x.shape[:2], *_windows(node, x, kernel))
    need(max(pads[0], pads[2]) < kernel[0] and max(pads[1], pads[3]) < kernel[1], node,
         f"pads must be smaller than the kernel {kernel!r}, not {pads!r}")
    return TensorType(shape, x.dtype)


def averaged(node: Node, types: Types) -> TensorType:
    """One pixel a channel."""
    need_rank(node, 0, types[0], 4)
    return TensorType((*types[0].shape[:2], 1, 1), types[0].dtype)


def concatenated(node: Node, types: Types) -> TensorType:
    """One after the other along the axis; all of one type but for their extent there."""
    first, axis = types[0], node.attrs["axis"]
    need(0 <= axis < len(first.shape), node,
         f"axis must be 0 to {len(first.shape) - 1}, not {axis}")
    for name, type_ in zip(node.inputs, types, strict=True):
        need(_without(type_, axis) == _without(first, axis), node,
             f"input {name!r} must be {first} but for axis {axis}, not {type_}")
    shape = list(first.shape)
    shape[axis] = sum(type_.shape[axis] for type_ in types)
    return TensorType(tuple(shape), first.dtype)


def _without(type_: TensorType, axis: int) -> tuple:
    return type_.shape[:axis], type_.shape[axis + 1:], type_.dtype
