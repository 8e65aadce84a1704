"""Convolutions.

Convolutions of float32 images have operators of their own, which the accelerator supports in
integers; those over one axis are of images of one row, and all others use the general form.
"""

from collections.abc import Sequence

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import operator


def spatial(value: Value, role: str = "weight") -> int:
    """The number of axes that windows move along: all but the first two."""
    if value.rank < 3:
        raise NodeRefused(f"its {role} must have 3 dimensions at least, not {_typed(value)}")
    return value.rank - 2


def check_window(rank: int, **numbers: Sequence[int] | None) -> None:
    for name, value in numbers.items():
        count = 2 * rank if name == "pads" else rank
        if value is not None and len(value) != count:
            raise NodeRefused(f"{name} must have {count} numbers, not {len(value)}")


def padded_sides(x: Value, reach: Sequence[int], strides: Sequence[int],
                 pads: Sequence[int] | None, auto_pad: str) -> tuple[int, ...]:
    """The pads before all axes, then those after."""
    if auto_pad not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise NodeRefused("auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, "
                          f"not {auto_pad}")
    if auto_pad == "NOTSET":
        return tuple(pads or (0,) * (2 * len(reach)))
    sides = [_sides(*axis, auto_pad) for axis in zip(x.shape[2:], reach, strides, strict=True)]
    return (*(low for low, _ in sides), *(high for _, high in sides))


def _sides(size: int, reach: int, stride: int, mode: str) -> tuple[int, int]:
    """The pads of one axis; SAME gives ceil(size / stride) results."""
    if mode == "VALID" or stride < 1:
        return 0, 0
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    less, more = total // 2, total - total // 2
    return (less, more) if mode == "SAME_UPPER" else (more, less)


def _reach(x: Value, w: Value, kernel: Sequence[int] | None, dilations: Sequence[int],
           ) -> tuple[int, ...]:
    """The distance from a kernel's first tap to its last along each axis."""
    if x.rank != w.rank or x.rank < 3:
        raise NodeRefused(f"input must have {max(w.rank, 3)} dimensions, not {_typed(x)}")
    if kernel is not None and tuple(kernel) != w.shape[2:]:
        raise NodeRefused(f"kernel_shape must be the weight's {w.shape[2:]}, not {kernel}")
    return tuple((size - 1) * step + 1 for size, step in zip(w.shape[2:], dilations, strict=True))


def _typed(x: Value) -> str:
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"


def _unusual(**numbers: object) -> dict[str, object]:
    """The attributes among dilations, group and output padding that differ from their defaults."""
    usual = {"dilations": (1, 1), "group": 1, "output_padding": (0, 0)}
    return {name: value for name, value in numbers.items() if value not in (usual[name], None)}


def in_one_row(numbers: Sequence[int], row: int) -> tuple[int, ...]:
    """The numbers of one axis, or of both its sides, with `row` for the only row before each."""
    return tuple(number for own in numbers for number in (row, own))


def _of_images(t, op: str, inputs: Sequence[Value], rank: int, strides: Sequence[int],
               pads: Sequence[int], **spread: Sequence[int] | int) -> Value:
    """A convolution of images, or over one axis, of float32. `spread` has dilations, group, output
    padding.
    """
    if rank == 2:
        return t.emit(op, *inputs, strides=strides, pads=pads, **_unusual(**spread))
    x, w, *bias = inputs
    rows = {"dilations": 1, "output_padding": 0}
    spread = {name: numbers if isinstance(numbers, int) else in_one_row(numbers, rows[name])
              for name, numbers in spread.items()}
    result = t.emit(op, x.unsqueeze(2), w.unsqueeze(2), *bias, strides=in_one_row(strides, 1),
                    pads=in_one_row(pads, 0), **_unusual(**spread))
    return result.reshape(*result.shape[:2], result.shape[3])


@operator("Conv")
def conv(t, x, w, b=None, *, auto_pad, dilations=None, group, kernel_shape=None, pads=None,
         strides=None):
    rank = spatial(w)
    dilations, strides = dilations or (1,) * rank, strides or (1,) * rank
    check_window(rank, kernel_shape=kernel_shape, dilations=dilations, strides=strides, pads=pads)
    pads = padded_sides(x, _reach(x, w, kernel_shape, dilations), strides, pads, auto_pad)
    if x.dtype == "float32" and (rank == 2 or rank == 1 and min(pads) >= 0):
        inputs = (x, w) if b is None else (x, w, b)
        return _of_images(t, "conv2d", inputs, rank, strides, pads, dilations=dilations,
                          group=group)
    sums = convolved(t, x, w, strides, pads, dilations, group)
    return sums if b is None else sums + b.reshape(1, b.size, *(1,) * rank)


def convolved(t, x: Value, w: Value, strides: Sequence[int], pads: Sequence[int],
              dilations: Sequence[int], group: int) -> Value:
    """Convolves in the type of the inputs; negative pads crop."""
    rank = w.rank - 2
    if min(pads) < 0:
        cut = [(0, 0, *(min(pad, 0) for pad in side)) for side in (pads[:rank], pads[rank:])]
        x = t.emit("pad", x, x.like(0), mode="constant", before=cut[0], after=cut[1])
        pads = [max(pad, 0) for pad in pads]
    return t.emit("conv", x, w, strides=strides, pads=pads, dilations=dilations, group=group)


@operator("ConvTranspose")
def conv_transpose(t, x, w, b=None, *, auto_pad, dilations=None, group, kernel_shape=None,
                   output_padding=None, output_shape=None, pads=None, strides=None):
    rank = spatial(w)
    dilations, strides = dilations or (1,) * rank, strides or (1,) * rank
    output_padding, pads = output_padding or (0,) * rank, pads or (0,) * (2 * rank)
    check_window(rank, kernel_shape=kernel_shape, dilations=dilations, strides=strides, pads=pads,
                 output_padding=output_padding)
    reach = _reach(x, w, kernel_shape, dilations)
    wanted = _wanted(x, strides, output_shape, auto_pad)
    if wanted is not None:
        cut = [_cut(*axis, auto_pad) for axis in zip(x.shape[2:], reach, strides, output_padding,
                                                     wanted, strict=True)]
        pads = (*(before for before, _, _ in cut), *(after for _, after, _ in cut))
        output_padding = tuple(more for _, _, more in cut)
    if x.dtype == "float32" and (rank == 2 or rank == 1 and min(pads) >= 0):
        inputs = (x, w) if b is None else (x, w, b)
        return _of_images(t, "convtranspose2d", inputs, rank, strides, pads, dilations=dilations,
                          group=group, output_padding=output_padding)
    sums = _spread(t, x, w, strides, pads, dilations, group, output_padding, reach)
    return sums if b is None else sums + b.reshape(1, b.size, *(1,) * rank)


def _wanted(x: Value, strides: Sequence[int], output_shape: Sequence[int] | None,
            auto_pad: str) -> tuple[int, ...] | None:
    """The extents of the result, where the node gives them."""
    if output_shape is not None:
        check_window(x.rank - 2, output_shape=output_shape)
        return tuple(output_shape)
    if auto_pad.startswith("SAME"):
        return tuple(size * stride for size, stride in zip(x.shape[2:], strides, strict=True))
    return None


def _cut(size: int, reach: int, stride: int, more: int, wanted: int,
         mode: str) -> tuple[int, int, int]:
    """Pads before and after, and output padding, for `wanted` results along one axis.
    """
    total = (size - 1) * stride + reach + more - wanted
    if total < 0 and mode.startswith("SAME"):
        raise NodeRefused(f"kernel must be no shorter than the stride {stride} for auto_pad {mode}")
    less = max(total, 0) // 2
    rest = max(total, 0) - less
    before, after = (rest, less) if mode != "SAME_UPPER" else (less, rest)
    return before, after, more + max(-total, 0)


def _spread(t, x: Value, w: Value, strides, pads, dilations, group: int, output_padding,
            reach) -> Value:
    """A convolution of x, with zeros between its elements, by the flipped kernel."""
    rank = spatial(w)
    inputs, each, *kernel = w.shape
    if group < 1 or inputs % group or x.shape[1] != inputs:
        raise NodeRefused(f"input channels must be the weight's {inputs}, in {group} groups, "
                          f"not {x.shape[1]}")
    turned = t.emit("reverse", w, axes=tuple(range(2, 2 + rank)))
    turned = turned.reshape(group, inputs // group, each, *kernel)
    turned = turned.transpose(0, 2, 1, *range(3, 3 + rank))
    turned = turned.reshape(group * each, inputs // group, *kernel)
    before = [r - 1 - pad for r, pad in zip(reach, pads[:rank], strict=True)]
    after = [r - 1 - pad + more for r, pad, more
             in zip(reach, pads[rank:], output_padding, strict=True)]
    wide = t.emit("pad", x, x.like(0), mode="constant", before=(0, 0, *before),
                  after=(0, 0, *after), between=(0, 0, *(stride - 1 for stride in strides)))
    return convolved(t, wide, turned, (1,) * rank, (0,) * (2 * rank), dilations, group)
