"""Maps between quantizations as functions of ONNX models, of its integer operators alone.

A map is a node of the domain `lockstep`, whose attribute `function` is its text; that is what the
importer reads. Its body, in int64, is for everything else that runs the model: ONNX rounds no
shifts and wraps no integers, so both are quotients and rests here.
"""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from compiler.ops.families.integer_maps import HALVES
from compiler.ops.integers.integer_text import OPERANDS, read

OWN = "lockstep"
"""The domain of operators that ONNX lacks."""
QUANTIZED_MAP, QUANTIZED_TERMS = "QuantizedMap", "QuantizedTerms"
"""How the names of such functions begin; what follows is a number."""

_PLAIN = {"add": "Add", "sub": "Sub", "mul": "Mul", "min": "Min", "max": "Max", "abs": "Abs",
          "neg": "Neg", "and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor",
          "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
          "eq": "Equal", "select": "Where"}
_CONDITIONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Not")


def function_of(name: str, text: str, dtypes: Sequence[str], opset: int) -> onnx.FunctionProto:
    """The function that computes the text of tensors of these types, in that of the first."""
    body, inputs, dtype = _Body(), OPERANDS[:len(dtypes)], dtypes[0]
    stored = {each: body.shifted(body.cast(each, TensorProto.INT64), -HALVES[own])
              for each, own in zip(inputs, dtypes, strict=True)}
    made = body.shifted(read(text, stored, body.meaning), HALVES[dtype])
    body.cast(made, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), "y")
    return helper.make_function(OWN, name, list(inputs), ["y"], body.nodes,
                                [helper.make_opsetid("", opset)], ["function"])


def summing_function(name: str, text: str, numbers: Sequence[int], dtype: str, opset: int
                     ) -> onnx.FunctionProto:
    """The function that sums the text of x [...,1,K] and w [N,K] along the last axis, and
    requantizes with these numbers."""
    body, half = _Body(), HALVES[dtype]
    apart = body.add("Unsqueeze", "x0", body.numbers([-2]))
    stored = {each: body.shifted(body.cast(value, TensorProto.INT64), -half)
              for each, value in (("x0", apart), ("x1", "x1"))}
    sums = body.add("ReduceSum", read(text, stored, body.meaning), body.numbers([-1]), keepdims=0)
    made = body.shifted(body.requantized(sums, *numbers), half)
    body.cast(made, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), "y")
    return helper.make_function(OWN, name, ["x0", "x1"], ["y"], body.nodes,
                                [helper.make_opsetid("", opset)], [*TERM_ATTRIBUTES])


TERM_ATTRIBUTES = ("term", "mult", "shift", "zp", "lo", "hi")
"""Attributes of sums of terms, a text and numbers."""


class _Body:
    """Nodes in order; methods give the name of what they compute."""

    def __init__(self):
        self.nodes: list[onnx.NodeProto] = []
        self.conditions: set[str] = set()
        self.meaning: dict[str, Callable] = {
            "number": self.number, "ne": lambda a, b: self.add("Not", self.add("Equal", a, b)),
            "shl": lambda x, n: self.add("Mul", x, self.power(n)), "shr": self.quotient,
            "clamp": self.clamp, "rshift_rne": self.rounded, "requantize": self.requantized,
            **{name: self._plain(op) for name, op in _PLAIN.items()},
            **{dtype: self._conversion(dtype) for dtype in (*HALVES, "int32", "int64")}}

    def add(self, op: str, *inputs: str, output: str = "", **attributes) -> str:
        output = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        if op in _CONDITIONS:
            self.conditions.add(output)
        return output

    def _plain(self, op: str) -> Callable[..., str]:
        return lambda *inputs: self.add(op, *inputs)

    def cast(self, x: str, to: int, output: str = "") -> str:
        return self.add("Cast", x, output=output, to=to)

    def number(self, value: int) -> str:
        return self.add("Constant", value=helper.make_tensor("value", TensorProto.INT64, [],
                                                             [value]))

    def numbers(self, values: Sequence[int]) -> str:
        return self.add("Constant", value=helper.make_tensor("value", TensorProto.INT64,
                                                             [len(values)], values))

    def shifted(self, x: str, number: int) -> str:
        return self.add("Add", x, self.number(number)) if number else x

    def power(self, n: int | str) -> str:
        return self.number(1 << n) if isinstance(n, int) else self.add("Pow", self.number(2), n)

    def rest(self, x: str, n: int | str) -> str:
        """The remainder of a division by 2**n, never below 0."""
        return self.add("Mod", x, self.power(n), fmod=0)

    def quotient(self, x: str, n: int | str) -> str:
        """The quotient, rounded down."""
        return self.add("Div", self.add("Sub", x, self.rest(x, n)), self.power(n))

    def rounded(self, x: str, n: int | str) -> str:
        """The quotient, ties to even."""
        if n == 0:
            return x
        half = (self.number(1 << n - 1) if isinstance(n, int)
                else self.add("Div", self.power(n), self.number(2)))
        up = self.quotient(self.add("Add", x, half), n)
        even = self.add("Sub", up, self.rest(up, 1))
        halfway = self.add("Equal", self.rest(x, n), half)
        if isinstance(n, str):              # of a quotient by 1 nothing is halfway
            halfway = self.add("And", halfway, self.add("Greater", n, self.number(0)))
        return self.add("Where", halfway, even, up)

    def clamp(self, x: str, low: str, high: str) -> str:
        return self.add("Min", self.add("Max", x, low), high)

    def requantized(self, acc: str, *numbers: int) -> str:
        mult, shift, zp, low, high = numbers
        scaled = self.rounded(self.add("Mul", acc, self.number(mult)), shift)
        return self.clamp(self.shifted(scaled, zp), self.number(low), self.number(high))

    def _conversion(self, dtype: str) -> Callable[[str], str]:
        bits, signed = 8 * np.dtype(dtype).itemsize, not dtype.startswith("u")

        def convert(x: str) -> str:
            if x in self.conditions:
                return self.cast(x, TensorProto.INT64)
            if bits == 64:
                return x
            half = 1 << bits - 1 if signed else 0
            return self.shifted(self.rest(self.shifted(x, half), bits), -half)
        return convert
