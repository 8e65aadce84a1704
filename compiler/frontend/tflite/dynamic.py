"""Activations that LiteRT quantizes at run time: products of float tensors and quantized weights.

Each row has a scale of its own: each vector that a matrix is multiplied by, each image of a
convolution, each step of a sequence. The product of integers is exact, and scales follow it in
float32. There are three ways to quantize, which differ in range and in the rounding of ties:

    delegate      from the least to the greatest, 0 included; ties to even. XNNPACK's, by default.
    asymmetric    the same range in float64; ties away from zero. LiteRT's own kernels.
    symmetric     the largest magnitude is 127; ties away from zero. LiteRT's own kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from compiler.frontend.tflite.converter import Converter

LOW, HIGH = -128, 127


@dataclass(frozen=True, slots=True)
class Rows:
    """Names of tensors: int8 integers, and for each row the float scale of a step and the int32
    integer that stands for 0; no name where that is 0.
    """

    steps: str
    scale: str
    zero: str = ""


def quantized(c: Converter, x: str, axes: Sequence[int], way: str) -> Rows:
    """The rows of a float tensor: all that differ in other axes than these."""
    return _WAYS[way](Arithmetic(c), x, c.write.integers(*axes))


def restored(c: Converter, rows: Rows) -> str:
    """The float numbers that the rows stand for."""
    do = Arithmetic(c)
    steps = do.cast(rows.steps, np.float32)
    if rows.zero:
        steps = do("Sub", steps, do.cast(rows.zero, np.float32))
    return do("Mul", steps, rows.scale)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Writes operators whose operands may be numbers."""

    c: Converter

    def __call__(self, op: str, *operands: str | float, dtype: type = np.float32) -> str:
        return self.c.write.node(op, [part if isinstance(part, str) else self.c.write.constant(
            np.array(part, dtype)) for part in operands])

    def cast(self, x: str, dtype: type) -> str:
        return self.c.write.node("Cast", [x], to=onnx.helper.np_dtype_to_tensor_dtype(
            np.dtype(dtype)))

    def ends(self, x: str, axes: str) -> tuple[str, str]:
        """The least and the greatest of each row and 0."""
        low, high = (self.c.write.node(op, [x, axes], keepdims=1)
                     for op in ("ReduceMin", "ReduceMax"))
        return self("Min", low, 0), self("Max", high, 0)

    def away(self, x: str, dtype: type = np.float32) -> str:
        """The nearest integers, ties away from zero."""
        half = self("Add", self("Abs", x), 0.5, dtype=dtype)
        return self("Mul", self("Sign", x), self("Floor", half))

    def stored(self, steps: str, low: float) -> str:
        return self.cast(self("Clip", steps, low, HIGH), np.int8)


def _by_delegate(do: Arithmetic, x: str, axes: str) -> Rows:
    low, high = do.ends(x, axes)
    span = do("Sub", high, low)
    share = do("Div", HIGH - LOW, do("Where", do("Equal", span, 0), HIGH - LOW, span))
    below, above = do("Mul", low, share), do("Mul", high, share)
    is_low = do("Greater", do("Add", do("Add", below, LOW), do("Add", above, HIGH)), 0)
    zero = do("Round", do("Clip", do("Where", is_low, do("Sub", LOW, below),
                                     do("Sub", HIGH, above)), LOW, HIGH))
    steps = do("Add", do("Round", do("Mul", x, share)), zero)
    return Rows(do.stored(steps, LOW), do("Reciprocal", share), do.cast(zero, np.int32))


def _asymmetrically(do: Arithmetic, x: str, axes: str) -> Rows:
    def wide(op: str, *operands: str | float) -> str:
        return do(op, *operands, dtype=np.float64)

    low, high = (do.cast(end, np.float64) for end in do.ends(x, axes))
    span = wide("Sub", high, low)
    is_nothing = wide("Equal", span, 0)
    scale = wide("Div", wide("Where", is_nothing, HIGH - LOW, span), HIGH - LOW)
    below, above = wide("Div", low, scale), wide("Div", high, scale)
    is_low = wide("Less", wide("Sub", -LOW, below), wide("Add", above, HIGH))
    zero = wide("Clip", wide("Where", is_low, wide("Sub", LOW, below), wide("Sub", HIGH, above)),
                LOW, HIGH)
    nearest = do.cast(do.away(wide("Where", is_nothing, 0, zero), np.float64), np.float32)
    single = do.cast(scale, np.float32)
    steps = do("Add", do.away(do("Mul", x, do("Reciprocal", single))), nearest)
    return Rows(do.stored(steps, LOW), single, do.cast(nearest, np.int32))


def _symmetrically(do: Arithmetic, x: str, axes: str) -> Rows:
    largest = do.c.write.node("ReduceMax", [do("Abs", x), axes], keepdims=1)
    largest = do("Where", do("Equal", largest, 0), HIGH, largest)
    steps = do.away(do("Mul", x, do("Div", HIGH, largest)))
    return Rows(do.stored(steps, -HIGH), do("Div", largest, HIGH))


_WAYS: dict[str, Callable[[Arithmetic, str, str], Rows]] = {
    "delegate": _by_delegate, "asymmetric": _asymmetrically, "symmetric": _symmetrically}
