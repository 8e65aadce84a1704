"""Expressions: values and the addresses of elements."""

from collections.abc import Mapping
from typing import Any

from compiler.ir import is_index
from compiler.te import (COMPARISONS, Binary, Buffer, Call, Cast, Const, Expr, Field, Read, Select,
                         Var, is_float, is_record, numpy_dtype, walk)

from .floats import cast, float_binary, float_call, float_compare
from .integers import integer_abs, integer_binary, integer_compare
from .writer import Kind, Writer, constant, memory_type, type_name

__all__ = ["Expressions"]

_NO_WRAP = {"add": "add nsw", "sub": "sub nsw", "mul": "mul nsw"}


class Expressions:
    """Writes expressions.

    Parameters
    ----------
    buffers : name of a buffer to the pointer to its first element.
    variables : loop variables in scope, to their values.
    contract : whether products may be fused with sums.
    """

    def __init__(self, w: Writer, buffers: Mapping[str, str], variables: Mapping[Var, str],
                 contract: bool = False):
        self.w, self.buffers, self.variables, self.contract = w, buffers, variables, contract

    def value(self, expr: Expr) -> str:
        match expr:
            case Const(value, dtype):
                return constant(value, dtype)
            case Var(name):
                if expr not in self.variables:
                    raise ValueError(f"Variable {name} must be the index of a loop around its use")
                return self.variables[expr]
            case Read(buffer, indices):
                return self.load(buffer.dtype, self.address(buffer, indices))
            case Field(base, name):
                return self._field(base, name)
            case Binary(op, a, b):
                return self._binary(op, a.dtype, self.value(a), self.value(b))
            case Call(function, args):
                return self._call(function, expr.dtype, self.value(args[0]))
            case Cast(value, dtype):
                return cast(self.w, Kind(value.dtype), dtype, self.value(value))
            case Select():
                return self._select(expr)
            case _:
                raise TypeError(f"Expression must be of a known kind, not {expr!r}")

    def _binary(self, op: str, dtype: str, a: str, b: str) -> str:
        kind = Kind(dtype)
        if op in COMPARISONS:
            compare = float_compare if is_float(dtype) else integer_compare
            return compare(self.w, op, kind, a, b)
        if is_float(dtype):
            return float_binary(self.w, op, kind, a, b, self.contract)
        return integer_binary(self.w, op, kind, a, b)

    def fold(self, op: str, dtype: str, a: str, b: str) -> str:
        """One step of a reduction by ``sum``, ``max`` or ``min``."""
        return self._binary("add" if op == "sum" else op, dtype, a, b)

    def _call(self, function: str, dtype: str, a: str) -> str:
        if is_float(dtype):
            return float_call(self.w, function, Kind(dtype), a)
        return integer_abs(self.w, Kind(dtype), a)      # the one function of integers

    def _select(self, expr: Select) -> str:
        """Branches where a side reads memory: only the chosen one may."""
        w, kind = self.w, type_name(expr.dtype)
        condition = self.value(expr.condition)
        if not any(isinstance(n, Read) for side in (expr.a, expr.b) for n in walk(side)):
            a, b = self.value(expr.a), self.value(expr.b)
            return w.op(f"select i1 {condition}, {kind} {a}, {kind} {b}")
        yes, no, done = w.name("yes"), w.name("no"), w.name("chosen")
        w.branch(condition, yes, no)
        arms = []
        for label, side in ((yes, expr.a), (no, expr.b)):
            w.label(label)
            value = self.value(side)
            arms.append(f"[ {value}, %{w.block} ]")
            w.jump(done)
        w.label(done)
        return w.op(f"phi {kind} {', '.join(arms)}")

    def address(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        if buffer.name not in self.buffers:
            raise ValueError(f"Buffer {buffer.name} must be an input, an output or allocated "
                             f"around its use")
        if buffer.strides is not None:
            raise ValueError(f"Buffer {buffer.name} must be dense for LLVM, "
                             f"not of strides {list(buffer.strides)}")
        w, place = self.w, "0"
        for position, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
            value = self._index(index)
            if position:
                value = w.op(f"add nsw i64 {w.op(f'mul nsw i64 {place}, {extent}')}, {value}")
            place = value
        return w.op(f"getelementptr inbounds {memory_type(buffer.dtype)}, "
                    f"ptr {self.buffers[buffer.name]}, i64 {place}")

    def _index(self, expr: Expr) -> str:
        """A subscript: it stays within its buffer, so no part of its arithmetic wraps."""
        if is_index(expr) and isinstance(expr, Binary) and expr.op in _NO_WRAP:
            return self.w.op(f"{_NO_WRAP[expr.op]} i64 {self._index(expr.a)}, "
                             f"{self._index(expr.b)}")
        return self.value(expr)

    def load(self, dtype: str, pointer: str) -> str:
        value = self.w.op(f"load {memory_type(dtype)}, ptr {pointer}, align {_align(dtype)}")
        return self.w.op(f"trunc i8 {value} to i1") if dtype == "bool" else value

    def store(self, dtype: str, pointer: str, value: str) -> None:
        if dtype == "bool":
            value = self.w.op(f"zext i1 {value} to i8")
        self.w.do(f"store {memory_type(dtype)} {value}, ptr {pointer}, align {_align(dtype)}")

    def _field(self, base: Read, name: str) -> str:
        members: Any = numpy_dtype(base.dtype).fields
        member, offset = members[name][:2]
        pointer = self.address(base.buffer, base.indices)
        pointer = self.w.op(f"getelementptr inbounds i8, ptr {pointer}, i64 {offset}")
        value = self.w.op(f"load {memory_type(member.name)}, ptr {pointer}, align 1")
        return self.w.op(f"trunc i8 {value} to i1") if member.name == "bool" else value


def _align(dtype: str) -> int:
    """NumPy aligns numbers naturally, and records not at all."""
    return 1 if is_record(dtype) else numpy_dtype(dtype).itemsize
