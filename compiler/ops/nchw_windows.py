"""Operators with sliding windows on NCHW tensors: convolution and pooling.

Each takes the attributes of the operator, its input tensors and the name of its result, and
returns the result. What it computes on the way is named after the result: ``y_padded``, ``y_acc``.
A window of an operator is given by ``strides`` and ``pads`` (top, left, bottom, right), that of a
convolution perhaps by ``dilations`` too.
"""

from collections.abc import Callable, Mapping, Sequence

from compiler import te
from compiler.ops.arithmetic import requantize
from compiler.te import Axis, Expr, Tensor

__all__ = ["avgpool", "conv2d", "convtranspose2d", "globalavgpool", "maxpool", "qavgpool",
           "qconv2d", "qconvtranspose2d", "qglobalavgpool"]

Attrs = Mapping
_INFINITY = float("inf")
_LOWEST = {"float32": -_INFINITY, "int8": -128, "uint8": 0}


def conv2d(attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    """``x`` [N,Ci,H,W], ``w`` [Co,Ci/group,kh,kw], perhaps ``bias`` [Co]; sums in float32."""
    return _biased(_convolved, attrs, inputs, name)


def convtranspose2d(attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    """``x`` [N,Ci,H,W], ``w`` [Ci,Co/group,kh,kw], perhaps ``bias`` [Co]; sums in float32."""
    return _biased(_transposed, attrs, inputs, name)


def qconv2d(attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    """``x`` and ``w`` as `conv2d`; ``bias``, ``mult``, ``shift`` [Co]; sums wrap at 32 bits."""
    return _requantized(_convolved, attrs, inputs, name)


def qconvtranspose2d(attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    """As `qconv2d`, ``w`` [Co,Ci/group,kh,kw] too; what is between pixels has the pad value."""
    return _requantized(_turned, attrs, inputs, name)


Sums = Callable[[Attrs, Tensor, Tensor, int, str, str], Tensor]


def _biased(sums: Sums, attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    x, w, *rest = inputs
    if not rest:
        return sums(attrs, x, w, 0, "float32", name)
    bias, acc = rest[0], sums(attrs, x, w, 0, "float32", f"{name}_acc")
    return te.compute(acc.shape, lambda n, c, h, w: acc[n, c, h, w] + bias[c], name)


def _requantized(sums: Sums, attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    x, w, bias, mult, shift = inputs
    acc = sums(attrs, x, w, attrs["pad_value"], "int32", f"{name}_acc")
    return te.compute(acc.shape, lambda n, c, h, w: requantize(
        acc[n, c, h, w], bias[c], mult[c], shift[c],
        attrs["zp"], attrs["lo"], attrs["hi"]).astype("int8"), name)


def maxpool(attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    """``x`` [N,C,H,W] of any type with a lowest value, which is what it is padded with."""
    x, kernel, (sh, sw) = inputs[0], attrs["kernel"], attrs["strides"]
    shape, padded = _windowed(attrs, x, kernel, _LOWEST[x.dtype], name)
    kh, kw = _kernel_axes(kernel, name)
    return te.compute(shape, lambda n, c, h, w: te.max(
        padded[n, c, h * sh + kh.var, w * sw + kw.var], (kh, kw)), name)


def avgpool(attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    """Mean of each window of ``x``, summed in float64 and rounded once. Pads count as elements
    where ``include_pad`` is 1.
    """
    kernel, strides, pads = attrs["kernel"], attrs["strides"], attrs["pads"]
    total = _window_sums(attrs, inputs[0], 0, "float64", f"{name}_sum")

    def mean(n, c, *place):
        if attrs["include_pad"]:
            return (total[n, c, *place] / float(kernel[0] * kernel[1])).astype("float32")
        rows, columns = (_reached(*one) for one in zip(
            place, strides, kernel, pads[:2], inputs[0].shape[2:], strict=True))
        return (total[n, c, *place] / (rows * columns).astype("float64")).astype("float32")

    return te.compute(total.shape, lambda n, c, h, w: mean(n, c, h, w), name)


def _reached(index: Expr, stride: int, kernel: int, before: int, size: int) -> Expr:
    """Elements along one axis in window number `index`."""
    first = index * stride - before
    return te.minimum(first + kernel, size) - te.maximum(first, 0)


def qavgpool(attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    """Sum of each window, requantized; the multipliers hold the number of elements."""
    x, mult, shift = inputs
    total = _window_sums(attrs, x, attrs["pad_value"], "int32", f"{name}_sum")

    def average(n, c, h, w):
        place = (h, w) if mult.shape == total.shape[2:] else (te.const(0, te.INDEX),) * 2
        return requantize(total[n, c, h, w], te.const(attrs["bias"], "int32"), mult[place],
                          shift[place], attrs["zp"], attrs["lo"], attrs["hi"]).astype("int8")

    return te.compute(total.shape, average, name)


def _window_sums(attrs: Attrs, x: Tensor, pad_value, dtype: str, name: str) -> Tensor:
    (sh, sw), kernel = attrs["strides"], attrs["kernel"]
    shape, padded = _windowed(attrs, x, kernel, pad_value, name)
    kh, kw = _kernel_axes(kernel, name)
    return te.compute(shape, lambda n, c, h, w: te.sum(
        padded[n, c, h * sh + kh.var, w * sw + kw.var].astype(dtype), (kh, kw)), name)


def globalavgpool(attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    """Mean of each plane of ``x``, summed in float64 and rounded once."""
    x = inputs[0]
    total = _planes(x, "float64", f"{name}_sum")
    area = float(x.shape[2] * x.shape[3])
    return te.compute(total.shape,
                      lambda n, c, h, w: (total[n, c, h, w] / area).astype("float32"), name)


def qglobalavgpool(attrs: Attrs, inputs: Sequence[Tensor], name: str) -> Tensor:
    """Sum of each plane, requantized; the multiplier holds the area."""
    total = _planes(inputs[0], "int32", f"{name}_sum")
    bias, mult, shift = (te.const(attrs["bias"], "int32"), te.const(attrs["mult"], "uint16"),
                         te.const(attrs["shift"], "uint8"))
    return te.compute(total.shape, lambda n, c, h, w: requantize(
        total[n, c, h, w], bias, mult, shift,
        attrs["zp"], attrs["lo"], attrs["hi"]).astype("int8"), name)


def _convolved(attrs: Attrs, x: Tensor, weight: Tensor, pad_value, dtype: str,
               name: str) -> Tensor:
    """Sums of products in `dtype`, [N,Co,Ho,Wo]."""
    reach = _reach(attrs, weight.shape[2:])
    (images, _, rows, columns), padded = _windowed(attrs, x, reach, pad_value, name)
    shape = (images, weight.shape[0], rows, columns)
    return _products(shape, attrs, padded, weight.shape[1:], attrs["strides"], dtype, name,
                     lambda c, i, kh, kw: weight[c, i, kh, kw])


def _products(shape: Sequence[int], attrs: Attrs, padded: Tensor, weights: Sequence[int],
              strides: Sequence[int], dtype: str, name: str,
              weight: Callable[..., Expr]) -> Tensor:
    """Sums over windows; ``weight(c, i, kh, kw)`` is that of output channel c and the i-th input
    channel of its group, `weights` the extents of the last three.
    """
    (sh, sw), (dh, dw) = strides, attrs.get("dilations", (1, 1))
    depth, *kernel = weights
    each = shape[1] // attrs.get("group", 1)
    rc, (kh, kw) = te.reduce_axis(depth, f"{name}_rc"), _kernel_axes(kernel, name)

    def products(n, c, h, w):
        channel = _in_group(c, rc.var, each, depth) if each < shape[1] else rc.var
        pixel = padded[n, channel, h * sh + _times(kh.var, dh), w * sw + _times(kw.var, dw)]
        return te.sum(pixel.astype(dtype) * weight(c, rc.var, kh.var, kw.var).astype(dtype),
                      (rc, kh, kw))

    return te.compute(tuple(shape), products, name)


def _in_group(output: Expr, number: Expr, each: int, depth: int) -> Expr:
    """Input channel `number` of the group of an output channel; `each` and `depth` are the outputs
    and inputs of a group.
    """
    return (output if each == 1 else output // each) * depth + number


def _times(tap: Expr, dilation: int) -> Expr:
    return tap if dilation == 1 else tap * dilation


def _transposed(attrs: Attrs, x: Tensor, weight: Tensor, pad_value, dtype: str,
                name: str) -> Tensor:
    """Sums of products, ``weight`` [Ci,Co/group,kh,kw]."""
    group = attrs.get("group", 1)
    inputs, each, *kernel = weight.shape

    def turned(c, i, kh, kw):
        channels = (_in_group(c, i, each, inputs // group), c % each) if group > 1 else (i, c)
        return weight[*channels, kernel[0] - 1 - kh, kernel[1] - 1 - kw]

    return _spread(attrs, x, (each * group, inputs // group, *kernel), pad_value, dtype, name,
                   turned)


def _turned(attrs: Attrs, x: Tensor, weight: Tensor, pad_value, dtype: str, name: str) -> Tensor:
    """Sums of products, ``weight`` [Co,Ci/group,kh,kw]."""
    height, width = weight.shape[2:]
    return _spread(attrs, x, weight.shape, pad_value, dtype, name,
                   lambda c, i, kh, kw: weight[c, i, height - 1 - kh, width - 1 - kw])


def _spread(attrs: Attrs, x: Tensor, weights: Sequence[int], pad_value, dtype: str, name: str,
            weight: Callable[..., Expr]) -> Tensor:
    """A transposed convolution as one of stride 1 over x with its pixels apart."""
    (sh, sw), (top, left, bottom, right) = attrs["strides"], attrs["pads"]
    below, beside = attrs.get("output_padding", (0, 0))
    reach = _reach(attrs, weights[2:])
    images, channels, rows, columns = x.shape
    height = (rows - 1) * sh + 2 * reach[0] - 1 - top - bottom + below
    width = (columns - 1) * sw + 2 * reach[1] - 1 - left - right + beside
    above, before = reach[0] - 1 - top, reach[1] - 1 - left

    def pixel(n, c, h, w):
        row, column = h - above, w - before
        there = [row >= 0, row < rows * sh, (row % sh).equal(0),
                 column >= 0, column < columns * sw, (column % sw).equal(0)]
        return te.select(te.all_of(*there), x[n, c, row // sh, column // sw], pad_value)

    wide = te.compute((images, channels, height, width), pixel, f"{name}_spread")
    shape = (images, weights[0], height - reach[0] + 1, width - reach[1] + 1)
    return _products(shape, attrs, wide, weights[1:], (1, 1), dtype, name, weight)


def _reach(attrs: Attrs, kernel: Sequence[int]) -> tuple[int, int]:
    """Rows and columns from the first tap of a kernel to the last."""
    height, width = ((size - 1) * step + 1 for size, step
                     in zip(kernel, attrs.get("dilations", (1, 1)), strict=True))
    return height, width


def _kernel_axes(kernel: Sequence[int], name: str) -> tuple[Axis, Axis]:
    return te.reduce_axis(kernel[0], f"{name}_kh"), te.reduce_axis(kernel[1], f"{name}_kw")


def _planes(x: Tensor, dtype: str, name: str) -> Tensor:
    rh, rw = (te.reduce_axis(extent, f"{name}_r{axis}")
              for axis, extent in zip("hw", x.shape[2:], strict=True))
    return te.compute((*x.shape[:2], 1, 1), lambda n, c, h, w: te.sum(
        x[n, c, rh.var, rw.var].astype(dtype), (rh, rw)), name)


def _windowed(attrs: Attrs, x: Tensor, kernel: Sequence[int], value,
              name: str) -> tuple[tuple[int, int, int, int], Tensor]:
    """Shape of a result with x's channels, and x as the windows see it: as it is where they stay
    inside, else padded, as large as they reach.
    """
    images, channels, *size = x.shape
    strides, (top, left, bottom, right) = attrs["strides"], attrs["pads"]
    rows, columns = ((extent + before + after - window) // stride + 1
                     for extent, before, after, window, stride
                     in zip(size, (top, left), (bottom, right), kernel, strides, strict=True))
    shape = (images, channels, rows, columns)
    height, width = (rows - 1) * strides[0] + kernel[0], (columns - 1) * strides[1] + kernel[1]
    if not (top or left) and height <= size[0] and width <= size[1]:
        return shape, x

    def pixel(n, c, h, w):
        inside = _inside(h, top, height, size[0]) + _inside(w, left, width, size[1])
        return te.select(te.all_of(*inside), x[n, c, h - top, w - left], value)

    return shape, te.compute((images, channels, height, width), pixel, f"{name}_padded")


def _inside(index: Expr, before: int, reach: int, size: int) -> list[Expr]:
    """Conditions for ``index - before`` to lie in 0 .. size - 1, where index runs to reach - 1."""
    low: list[Expr] = [index >= before] if before else []
    return [*low, index < before + size] if reach > before + size else low
