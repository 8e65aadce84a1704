"""The pattern of an instruction in float networks: a real expression, and a meaning in integers.

A pattern says where the quantizer may put the instruction: where operators compute its real
expression of quantized values. What is computed there is the instruction's body, with immediates
that follow from the scales. The body may approximate the expression, or round in a way of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler import te
from compiler.ir.arithmetic import apply_expr
from compiler.ops.integers.fixed_point import limits_of
from compiler.ops.integers.integer_text import computed, operands, range_of, text_of
from compiler.ops.records.integer_forms import StaysFloat, Stored
from compiler.te import Expr, Var
from compiler.tensorize import Immediate
from compiler.tensorize.normal import normal

__all__ = ["Immediates", "Pattern"]

Array = np.ndarray
Immediates = Callable[..., Mapping[str, int]]
"""The numbers by the names of immediates, from `Stored` inputs and the `Stored` result; ValueError
says why there are none for these scales."""

COARSE = 257            # every so many of 65536 numbers, where a pattern has two inputs


@dataclass(frozen=True, slots=True)
class Pattern:
    """
    Parameters
    ----------
    name : the instruction's.
    inputs, real : a float32 expression of these variables.
    body : an int32 expression of ``x0`` and ``x1``, the inputs in stored form, and of immediates,
        whose low bits are the result in stored form.
    fields : the immediates of `body`.
    immediates : what they are.
    tolerance : how far operators may be from `real` that are taken for the same function.
    """

    name: str
    inputs: tuple[Var, ...]
    real: Expr
    body: Expr
    fields: tuple[Immediate, ...]
    immediates: Immediates
    tolerance: float = 0.0

    def function(self, inputs: Sequence[Stored], out: Stored) -> str:
        """The meaning in integers, as `qmap` has it. Raises StaysFloat with the reason where there
        is none for these scales.
        """
        numbers = self._numbers(inputs, out)
        body = te.substitute(self.body, {field.var: te.const(numbers[field.name], field.dtype)
                                         for field in self.fields})
        try:
            text = text_of(normal(body))
            made = range_of(text, [limits_of(x.dtype) for x in inputs])
        except ValueError as reason:
            raise StaysFloat(str(reason)) from None
        if not made.within(limits_of(out.dtype)):
            raise StaysFloat(f"its result must be {out.dtype}, not {made.low} to {made.high}")
        if len(operands(text)) != len(inputs):
            raise StaysFloat("its result does not depend on all inputs")
        return text

    def _numbers(self, inputs: Sequence[Stored], out: Stored) -> Mapping[str, int]:
        try:
            numbers = self.immediates(*inputs, out)
        except (ValueError, ArithmeticError) as reason:
            raise StaysFloat(str(reason)) from None
        for field in self.fields:
            number = numbers[field.name]
            if isinstance(number, bool) or number != int(number) or not (
                    field.low <= number <= field.high):
                raise StaysFloat(f"immediate {field.name} must be an integer from {field.low} to "
                                 f"{field.high}, not {number}")
        return {name: int(number) for name, number in numbers.items()}

    def value(self, *arrays: Array) -> Array:
        """The real expression of arrays of float64, which broadcast."""
        with np.errstate(all="ignore"):
            return apply_expr(self.real, dict(zip(self.inputs, arrays, strict=True)))

    def steps_off(self, text: str, inputs: Sequence[Stored], out: Stored) -> int:
        """The most steps that the meaning is off from the real expression's nearest step, over all
        values of its inputs; over some of pairs of 16 bits.
        """
        stored = [*self._all(inputs)]
        real = self.value(*((array - x.zp) * x.scale
                            for array, x in zip(stored, inputs, strict=True)))
        low, high = limits_of(out.dtype)
        nearest = np.clip(np.rint(np.nan_to_num(real / out.scale)) + out.zp, low, high)
        return int(np.abs(computed(text, [array.astype(np.int64) for array in stored])
                          - nearest).max())

    def _all(self, inputs: Sequence[Stored]) -> Iterator[Array]:
        """All numbers of each input, along an axis of its own."""
        for axis, x in enumerate(inputs):
            low, high = limits_of(x.dtype)
            step = COARSE if high > 127 and len(inputs) > 1 else 1
            numbers = np.arange(low, high + 1, step, dtype=np.float64)
            yield numbers.reshape((-1,) + (1,) * (len(inputs) - 1 - axis))
