"""The pattern of an instruction in float networks: a real expression, and a meaning in integers.

A pattern says where the quantizer may put the instruction: where operators compute its real
expression of quantized values, and of constants of channels. What is computed there is the
instruction's body, with immediates, and fields of its record, that follow from the scales and the
constants. The body may approximate the expression, or round in a way of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler import te
from compiler.ir.arithmetic import apply_expr
from compiler.ops.integers.fixed_point import limits_of
from compiler.ops.integers.integer_text import OPERANDS, computed, operands, range_of, text_of
from compiler.ops.records.integer_forms import StaysFloat, Stored
from compiler.te import Expr, Var
from compiler.tensorize import Immediate
from compiler.tensorize.normal import normal

Array = np.ndarray
Immediates = Callable[..., Mapping[str, Any]]
"""The numbers by the names of immediates and of fields of a record, from `Stored` inputs, an array
of each constant of channels, and the `Stored` result. Of a field it is one number, or one for each
channel. ValueError says why there are none for these scales."""

COARSE = 257            # every so many of 65536 numbers, where a pattern has two inputs
CHANNELS = 64           # of which steps are counted
NARROW = ("int8", "uint8", "int16", "uint16")


@dataclass(frozen=True, slots=True)
class Meaning:
    """A function of integers, as `qmap` has it: its text, and the constants, one number a channel,
    that it reads behind the inputs."""

    text: str
    constants: tuple[Array, ...] = ()


@dataclass(frozen=True, slots=True)
class Pattern:
    """
    Parameters
    ----------
    name : the instruction's.
    inputs, constants, real : a float32 expression of these variables, of which constants are
        numbers of channels.
    body : an int32 expression of ``x0`` and ``x1``, the inputs in stored form, of immediates and of
        fields of a record, whose low bits are the result in stored form.
    fields : the immediates of `body`.
    record : the fields of a record that `body` reads.
    immediates : what they are.
    tolerance : how far operators may be from `real` that are taken for the same function.
    """

    name: str
    inputs: tuple[Var, ...]
    real: Expr
    body: Expr
    fields: tuple[Immediate, ...]
    immediates: Immediates
    constants: tuple[Var, ...] = ()
    record: tuple[Var, ...] = ()
    tolerance: float = 0.0

    def function(self, inputs: Sequence[Stored], out: Stored, constants: Sequence[Array] = ()
                 ) -> Meaning:
        """The meaning in integers for these constants of channels. Raises StaysFloat with the
        reason where there is none for these scales.
        """
        numbers = self._told(inputs, out, constants)
        arrays: list[Array] = []
        known: dict[Var, Expr] = {field.var: te.const(_number(field, numbers[field.name]),
                                                      field.dtype) for field in self.fields}
        for field in self.record:
            array = _of_channels(field, numbers[field.name], constants)
            if array.ndim:
                name = OPERANDS[len(inputs) + len(arrays)]
                known[field] = _as_read(te.Var(name, "int32"), array, field.dtype)
                arrays.append(array.astype(np.int64).astype(np.int32))
            else:
                known[field] = te.const(int(array), field.dtype)
        text = self._text(te.substitute(self.body, known), inputs, out, len(arrays))
        return Meaning(text, tuple(arrays))

    def _text(self, body: Expr, inputs: Sequence[Stored], out: Stored, more: int) -> str:
        """The text of a body that reads inputs and so many constants."""
        try:
            text = text_of(normal(body))
            made = range_of(text, [limits_of(dtype) for dtype in (
                *(x.dtype for x in inputs), *more * ["int32"])])
        except ValueError as reason:
            raise StaysFloat(str(reason)) from None
        if not made.within(limits_of(out.dtype)):
            raise StaysFloat(f"its result must be {out.dtype}, not {made.low} to {made.high}")
        if len(operands(text)) != len(inputs) + more:
            raise StaysFloat("its result does not depend on all inputs")
        return text

    def _told(self, inputs: Sequence[Stored], out: Stored, constants: Sequence[Array]
              ) -> Mapping[str, Any]:
        try:
            return self.immediates(*inputs, *constants, out)
        except (ValueError, ArithmeticError) as reason:
            raise StaysFloat(str(reason)) from None

    def value(self, *arrays: Array) -> Array:
        """The real expression of arrays of float64, which broadcast: inputs, then constants."""
        with np.errstate(all="ignore"):
            return apply_expr(self.real, dict(zip((*self.inputs, *self.constants), arrays,
                                                  strict=True)))

    def steps_off(self, inputs: Sequence[Stored], out: Stored, constants: Sequence[Array] = ()
                  ) -> int:
        """The most steps that the meaning is off from the real expression's nearest step, over all
        values of its inputs; over some of pairs of 16 bits, and some of many channels.
        """
        meaning = self.function(inputs, out, constants)
        real_ones, integers = ([array[::max(1, len(array) // CHANNELS)] for array in arrays]
                               for arrays in (constants, meaning.constants))
        stored = [array[..., None] for array in self._all(inputs)]
        real = self.value(*((array - x.zp) * x.scale
                            for array, x in zip(stored, inputs, strict=True)), *real_ones)
        low, high = limits_of(out.dtype)
        nearest = np.clip(np.rint(np.nan_to_num(real / out.scale)) + out.zp, low, high)
        made = computed(meaning.text, [array.astype(np.int64)
                                       for array in (*stored, *integers)])
        return int(np.abs(made - nearest).max())

    def _all(self, inputs: Sequence[Stored]) -> Iterator[Array]:
        """All numbers of each input, along an axis of its own."""
        for axis, x in enumerate(inputs):
            low, high = limits_of(x.dtype)
            step = COARSE if high > 127 and len(inputs) > 1 else 1
            numbers = np.arange(low, high + 1, step, dtype=np.float64)
            yield numbers.reshape((-1,) + (1,) * (len(inputs) - 1 - axis))


def _number(field: Immediate, number: Any) -> int:
    """The number of an immediate, which it must hold."""
    if isinstance(number, bool) or np.ndim(number) or number != int(number) or not (
            field.low <= number <= field.high):
        raise StaysFloat(f"immediate {field.name} must be an integer from {field.low} to "
                         f"{field.high}, not {number}")
    return int(number)


def _of_channels(field: Var, numbers: Any, constants: Sequence[Array]) -> Array:
    """The numbers of a field of a record, which it must hold: one, or one for each channel."""
    array, (low, high) = np.asarray(numbers), limits_of(field.dtype)
    if array.ndim and array.shape not in {known.shape for known in constants}:
        several = f", or one for each of {len(constants[0])} channels" if constants else ""
        raise StaysFloat(f"field {field.name} must be a number{several}, not of shape "
                         f"{array.shape}")
    if array.dtype.kind not in "iuf":
        raise StaysFloat(f"field {field.name} must be integers, not {array.dtype}")
    wrong = array[(array != np.rint(array)) | (array < low) | (array > high)]
    if wrong.size:
        raise StaysFloat(f"field {field.name} must be integers from {low} to {high}, not "
                         f"{wrong[0]}")
    return array


def _as_read(variable: Var, array: Array, dtype: str) -> Expr:
    """A constant as its field has it, through the narrowest type, which bounds what follows."""
    low, high = array.min(), array.max()
    narrow = next((known for known in NARROW if limits_of(known)[0] <= low
                   and high <= limits_of(known)[1]), dtype)
    return te.cast(te.cast(variable, narrow), dtype)
