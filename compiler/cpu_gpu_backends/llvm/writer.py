"""Text of LLVM instructions: types, constants, and a writer that hands out names.

A value is the text of an operand (``%v7``, ``-3``, ``true``); its type follows from the element
type of the expression that it stands for. `bool` is ``i1`` as a value and a byte in memory; a
record is one integer of its size.
"""

import re
import struct

from compiler.te import bits, is_float, is_integer, is_record, numpy_dtype

__all__ = ["Writer", "constant", "memory_type", "type_name"]


def type_name(dtype: str) -> str:
    """LLVM type of a value."""
    if is_float(dtype):
        return {"float32": "float", "float64": "double"}[dtype]
    return f"i{8 * numpy_dtype(dtype).itemsize if is_record(dtype) else bits(dtype)}"


def memory_type(dtype: str) -> str:
    """LLVM type of an element of a buffer."""
    return "i8" if dtype == "bool" else type_name(dtype)


def constant(value, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    if is_integer(dtype):
        return str(int(value))
    double = float(numpy_dtype(dtype).type(value))      # LLVM spells a float as a double
    return f"0x{struct.pack('>d', double).hex().upper()}"


class Writer:
    """Instructions of one function, in order, and the names that they need."""

    def __init__(self):
        self.entry: list[str] = []      # goes before `lines`: memory of local buffers
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.block = "start"
        self._count = 0

    def name(self, hint: str = "v") -> str:
        self._count += 1
        return f"{re.sub('^[0-9]|[^A-Za-z0-9_.]', '_', hint)}.{self._count}"

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def op(self, instruction: str, hint: str = "v") -> str:
        """Write an instruction that has a result; the result."""
        name = f"%{self.name(hint)}"
        self.do(f"{name} = {instruction}")
        return name

    def call(self, function: str, returns: str, *args: tuple[str, str]) -> str:
        """Call a function of LLVM or of the C library; `args` are pairs (type, value)."""
        types = ", ".join(dtype for dtype, _ in args)
        self.declared.add(f"declare {returns} @{function}({types})")
        return self.op(f"call {returns} @{function}({', '.join(map(' '.join, args))})")

    def label(self, name: str) -> None:
        """Begin a block; the block before it must have ended with a branch."""
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, name: str) -> None:
        self.do(f"br label %{name}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")
