"""Gradients of convolutions: that of the image is a transposed convolution, that of the weight a
convolution whose windows are the gradient of the result.
"""

from collections.abc import Sequence

from compiler.frontend.building.values import Value
from compiler.gradients.rules.adjoint import Adjoint, Gradient, Rule, apply, padded


def _conv2d(at: Adjoint) -> list[Gradient]:
    x, w, *bias = at.factors()
    return [lambda: _image(at, w), lambda: _weight(at, x, at.gradient, w.shape),
            *(_bias(at) for _ in bias)]


def _bias(at: Adjoint) -> Gradient:
    return lambda: at.gradient.sum(0, 2, 3)


def _window(at: Adjoint) -> dict:
    """Strides, pads, dilations and groups; pads are those before each axis, then those after."""
    rank = at.x.rank - 2
    return {"strides": at.attrs["strides"], "pads": at.attrs["pads"],
            "dilations": at.attrs.get("dilations", (1,) * rank),
            "group": at.attrs.get("group", 1)}


def _image(at: Adjoint, w: Value) -> Value:
    """The gradient of a convolution's image, which has rows and columns that no window sees."""
    more = unseen(at.x.shape[2:], at.gradient.shape[2:], w.shape[2:], _window(at))
    return apply("convtranspose2d", at.gradient, w, **_window(at), output_padding=more)


def unseen(size: Sequence[int], windows: Sequence[int], kernel: Sequence[int],
           attrs: dict) -> tuple[int, ...]:
    """Elements along each axis, pads among them, behind the last window."""
    low, high = (attrs["pads"][:len(size)], attrs["pads"][len(size):])
    return tuple(n + before + after - (count - 1) * stride - (taps - 1) * step - 1
                 for n, before, after, count, stride, taps, step
                 in zip(size, low, high, windows, attrs["strides"], kernel, attrs["dilations"],
                        strict=True))


def _weight(at: Adjoint, image: Value, windows: Value, shape: tuple[int, ...]) -> Value:
    """The gradient of a weight [Co,Ci/group,...]: `image` is what it slid over, and `windows` is
    what its windows gave. Images of a batch take the place of channels, so that they are summed;
    strides and dilations change places.
    """
    window = _window(at)
    group, images, rest = window["group"], image.shape[0], image.shape[2:]
    parts = image.reshape(images, group, shape[1], *rest)
    axes = range(3, parts.rank)
    data = parts.transpose(2, 1, 0, *axes).reshape(shape[1], group * images, *rest)
    kernel = windows.transpose(1, 0, *range(2, windows.rank))
    turned = {"strides": window["dilations"], "dilations": window["strides"]}
    op = "conv2d" if at.x.rank == 4 and at.result.dtype == "float32" else "conv"
    made = apply(op, data, kernel, **{**window, **turned})
    for axis in range(2, made.rank):
        made = made.cut(axis, 0, shape[axis])
    return made.transpose(1, 0, *range(2, made.rank))


def _convtranspose2d(at: Adjoint) -> list[Gradient]:
    x, w, *bias = at.inputs

    def of_image() -> Value:
        made = apply("conv2d", at.gradient, w, **_window(at))
        return made.cut(2, 0, x.shape[2]).cut(3, 0, x.shape[3])

    return [of_image, lambda: _weight(at, at.gradient, x, w.shape), *(_bias(at) for _ in bias)]


def _conv(at: Adjoint) -> list[Gradient]:
    x, w = at.inputs
    return [lambda: spread(at.gradient, _swapped(w, at.attrs["group"]), x.shape[2:], _window(at)),
            lambda: _weight(at, x, at.gradient, w.shape)]


def _swapped(w: Value, group: int) -> Value:
    """A weight [Co,Ci/group,...] as [Ci,Co/group,...], turned around: for the way back."""
    outputs, inputs, *kernel = w.shape
    axes = range(3, 3 + len(kernel))
    parts = w.reshape(group, outputs // group, inputs, *kernel).transpose(0, 2, 1, *axes)
    turned = parts.reshape(group * inputs, outputs // group, *kernel)
    return apply("reverse", turned, axes=tuple(range(2, turned.rank)))


def spread(windows: Value, w: Value, size: Sequence[int], attrs: dict) -> Value:
    """Adds what windows give to the elements of a tensor of this size that they saw, by a weight
    [Ci,Co/group,...] that is turned around: a convolution over the windows, put apart.
    """
    kernel, rank = w.shape[2:], len(size)
    reach = [(taps - 1) * step for taps, step in zip(kernel, attrs["dilations"], strict=True)]
    left = unseen(size, windows.shape[2:], kernel, attrs)
    before = [far - low for far, low in zip(reach, attrs["pads"][:rank], strict=True)]
    after = [far + more - high for far, more, high
             in zip(reach, left, attrs["pads"][rank:], strict=True)]
    apart = padded(windows, (0, 0, *before), (0, 0, *after),
                   (0, 0, *(stride - 1 for stride in attrs["strides"])))
    return apply("conv", apart, w, strides=(1,) * rank, pads=(0,) * 2 * rank,
                 dilations=attrs["dilations"], group=attrs.get("group", 1))


GRADIENTS: dict[str, Rule] = {"conv2d": _conv2d, "convtranspose2d": _convtranspose2d,
                              "conv": _conv}
