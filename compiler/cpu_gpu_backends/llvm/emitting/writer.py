"""Text of LLVM instructions: types, constants, and a writer that hands out names.

A value is the text of an operand (``%v7``, ``-3``, ``true``) with its kind: an element type, and
how many lanes of it. `bool` is ``i1`` as a value and a byte in memory; a record is one integer of
its size and has no lanes; bfloat16 is an integer of its bits, since LLVM cannot calculate with
vectors of it everywhere.
"""

import re
import struct
from dataclasses import dataclass, field, replace

from compiler.te import HELD, bits, is_integer, is_record, numpy_dtype

from compiler.cpu_gpu_backends.llvm.machine import ROUNDED

_FLOATS = {"float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double"}


def type_name(dtype: str) -> str:
    """LLVM type of one element."""
    if dtype in _FLOATS:
        return _FLOATS[dtype]
    if dtype in HELD:
        raise TypeError(f"Type of an element must be one that processors have, not {dtype}")
    return f"i{8 * numpy_dtype(dtype).itemsize if is_record(dtype) else bits(dtype)}"


def memory_type(dtype: str) -> str:
    """LLVM type of an element of a buffer."""
    return "i8" if dtype == "bool" else type_name(dtype)


def constant(value, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    if is_integer(dtype):
        return str(int(value))
    if dtype == "bfloat16":
        return str(int(numpy_dtype(dtype).type(value).view("uint16")))
    double = float(numpy_dtype(dtype).type(value))      # LLVM spells a float as a double
    return f"0x{struct.pack('>d', double).hex().upper()}"


@dataclass(frozen=True, slots=True)
class LlvmType:
    """Type of a value: `lanes` elements of `dtype` side by side, or one if `lanes` is 0.

    Its text is LLVM's name of it.
    """

    dtype: str
    lanes: int = 0

    def __str__(self) -> str:
        name = type_name(self.dtype)
        return f"<{self.lanes} x {name}>" if self.lanes else name

    def of(self, dtype: str) -> "LlvmType":
        """The type with as many lanes of another element type."""
        return replace(self, dtype=dtype)

    def const(self, value) -> str:
        """A constant, the same in all lanes."""
        text = constant(value, self.dtype)
        return f"splat ({type_name(self.dtype)} {text})" if self.lanes else text

    @property
    def suffix(self) -> str:
        """The suffix that LLVM appends to the names of its intrinsics: ``f32``, ``v8i16``."""
        letter = "i" if type_name(self.dtype).startswith("i") else "f"
        vector = f"v{self.lanes}" if self.lanes else ""
        return f"{vector}{letter}{bits(self.dtype)}"


@dataclass(frozen=True, slots=True)
class LlvmValue:
    text: str
    kind: LlvmType


def literal(text: str) -> int | None:
    """The number of a constant integer operand, the same in all lanes; None for any other."""
    match = re.fullmatch(r"(?:splat \(i\d+ )?(-?\d+)\)?", text)
    return int(match[1]) if match else None


@dataclass(slots=True)
class LlvmModule:
    """A module: complete functions by name, declarations of external functions, metadata; and what
    its processor has.
    """

    features: frozenset[str] = frozenset()
    rounds: tuple[str, ...] = ROUNDED   # the floats that instructions round to integers
    floats: tuple[str, ...] = ROUNDED   # those that have instructions at all
    fuses: bool = False                 # fused multiply-adds requantize
    functions: dict[str, str] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    metadata: list[str] = field(default_factory=list)

    def unrolled_loop(self) -> str:
        """Metadata that tells LLVM to unroll one loop."""
        number = len(self.metadata)
        self.metadata += [f"!{number} = distinct !{{!{number}, !{number + 1}}}",
                          f'!{number + 1} = !{{!"llvm.loop.unroll.enable"}}']
        return f"!{number}"

    def text(self) -> str:
        return "\n".join([*self.functions.values(), *sorted(self.declared), *self.metadata, ""])


class Writer:
    """Instructions of one function, in order, and the names that they need."""

    def __init__(self, module: LlvmModule | None = None):
        self.module = LlvmModule() if module is None else module
        self.entry: list[str] = []      # goes before `lines`: memory of local buffers
        self.lines: list[str] = []
        self.block = "start"
        self._count = 0

    def name(self, hint: str = "v") -> str:
        self._count += 1
        return f"{re.sub('^[0-9]|[^A-Za-z0-9_.]', '_', hint)}.{self._count}"

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def op(self, instruction: str, hint: str = "v") -> str:
        """Writes an instruction with a result, and returns the result."""
        name = f"%{self.name(hint)}"
        self.do(f"{name} = {instruction}")
        return name

    def call(self, function: str, returns: object, *args: tuple[object, str]) -> str:
        """Writes a call of a function of LLVM or of the C library; `args` are pairs (type, value).
        """
        self.declare(function, returns, *(kind for kind, _ in args))
        return self.op(f"call {returns} @{function}({_listed(args)})")

    def call_void(self, function: str, *args: tuple[object, str]) -> None:
        self.declare(function, "void", *(kind for kind, _ in args))
        self.do(f"call void @{function}({_listed(args)})")

    def declare(self, function: str, returns: object, *types: object) -> None:
        if function not in self.module.functions:
            self.module.declared.add(
                f"declare {returns} @{function}({', '.join(map(str, types))})")

    def label(self, name: str) -> None:
        """Begins a block; the previous block must have ended with a branch."""
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, name: str) -> None:
        self.do(f"br label %{name}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")


def _listed(args: tuple[tuple[object, str], ...]) -> str:
    return ", ".join(f"{kind} {value}" for kind, value in args)
