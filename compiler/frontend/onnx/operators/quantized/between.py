"""Float operators between quantizations, as the operators of quantized tensors are documented."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.operators.quantized.linear import (dequantize_linear, is_plain,
                                                               positive, quantize_linear)


class Codes(NamedTuple):
    """A tensor with its scale and, unless it is 0, its zero point; one for all, or for each slice
    along an axis.
    """

    steps: Value
    scale: Value
    zero: Value | None = None
    axis: int = 0

    @property
    def plain(self) -> bool:
        """True if the graph has such a tensor: its scales and zero points are constants."""
        return is_plain(*self[:3]) and positive(self.scale)

    def numbers(self, t) -> Value:
        """The tensor in float."""
        if self.steps is None or self.scale is None:
            raise NodeRefused("each of its quantized inputs must be given, with a scale")
        scale, zero = self.scale, self.zero
        if zero is not None and scale.size != zero.size:
            scale, zero = (each.reshape().expand(max(scale.size, zero.size)) if each.size == 1
                           else each for each in (scale, zero))
        return dequantize_linear(t, self.steps, scale, zero, axis=self.axis)


def between(t, rule: Callable[..., Value], inputs: list[Codes], scale: Value,
            zero: Value | None) -> Value:
    """The result of a rule for floats, quantized to the type of the first input."""
    result = rule(*(each.numbers(t) for each in inputs))
    return quantized(t, result, scale, zero, inputs[0].steps.dtype)


def quantized(t, result: Value, scale: Value, zero: Value | None, dtype: str) -> Value:
    """Quantized to the type of its zero point, to `dtype` without one."""
    if scale is None:
        raise NodeRefused("the scale of its result must be given")
    zero = t.constant(np.zeros(scale.shape, dtype)) if zero is None else zero
    return quantize_linear(t, result, scale, zero)
