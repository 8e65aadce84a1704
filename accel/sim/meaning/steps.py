"""Bodies of intrinsics as straight-line code, for native simulators.

A body becomes a list of steps over the lanes of a tile. Every step makes one value of the type
that its expression has, as an int64; where an operation could leave its type, the step cuts the
result off. So types of up to 32 bits, int64 and bool are known here, floats are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel.machine.intrinsics import TABLE
from compiler.te import (Axis, Binary, Call, Cast, Const, Expr, Read, Reduce, Select, Var, bits,
                         is_integer, is_signed)
from compiler.tensorize import Intrinsic

from .evaluate import evaluate

_BINARY = {"add": "ADD", "sub": "SUB", "mul": "MUL", "min": "LOW", "max": "HIGH", "and": "AND",
           "or": "OR", "xor": "XOR", "shl": "SHL", "shr": "SHR", "rshift_rne": "ROUND",
           "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "eq": "EQ", "ne": "NE"}
_OF_BOOL = ("AND", "OR", "XOR", "EQ", "NE")

_LANES = {"sum": "SUM_LANES", "max": "MAX_LANES", "min": "MIN_LANES"}

CODES = ("CONST", "SCALAR", "READ", "LOOKUP", "CAST", "BOOL", *_BINARY.values(), "SELECT", "ABS",
         *_LANES.values())
"""The operations of a step, in the order of their codes."""


class Foreign(Exception):
    """A body that has an operation that no step performs; names it."""


@dataclass(frozen=True, slots=True)
class BodyStep:
    """One operation on all lanes: `code` of `CODES`, the type of its result, the numbers of the
    steps that it takes, and `value`: of CONST the number, of READ and LOOKUP which source, of
    SCALAR which immediate. `uniform` results are the same in all lanes and iterations."""

    code: str
    dtype: str
    args: tuple[int, ...] = ()
    value: int = 0
    uniform: bool = False


@dataclass(frozen=True, slots=True)
class BodySource:
    """The source of an operand's lanes.

    `lanes` has, for each lane of the destination, the position of its element in the tile of the
    operand (a tuple of arrays, one a dimension); of a table, which LOOKUP reads at a computed
    place, nothing."""

    operand: str
    lanes: tuple[tuple[int, ...], ...]


def straighten(intrinsic: Intrinsic, stored: Mapping[str, str], immediates: Sequence[str],
               ) -> tuple[list[BodyStep], list[BodySource]]:
    """The steps of a body, uniform ones first, and what they read. The last makes the value.

    Parameters
    ----------
    stored : type as stored of each operand; an operand that is none of these is the immediate
        ``imm``.
    immediates : names in the order in which SCALAR counts them.

    Raises `Foreign` for reductions but those over the lanes of a row, floats, uint64, divisions and
    lanes that are not known before.
    """
    builder = _Builder(intrinsic, stored, list(immediates))
    builder.of(intrinsic.value)
    return builder.sorted(), builder.sources


class _Builder:
    def __init__(self, intrinsic: Intrinsic, stored: Mapping[str, str], immediates: list[str]):
        self.intrinsic, self.stored, self.immediates = intrinsic, stored, immediates
        rows, lanes = intrinsic.axes[:-1], intrinsic.axes[-1:]
        over = tuple(Axis(var, extent) for var, extent in intrinsic.reduce_axes)
        if over and [axis.extent for axis in over] != [axis.extent for axis in lanes]:
            raise Foreign("reduce")
        self.axes = (*rows, *(over or lanes))       # where lanes stand that compute a term
        self.steps: list[BodyStep] = []
        self.sources: list[BodySource] = []
        self._numbers: dict[BodyStep, int] = {}

    def sorted(self) -> list[BodyStep]:
        order = sorted(range(len(self.steps)), key=lambda n: (not self.steps[n].uniform, n))
        place = {old: new for new, old in enumerate(order)}
        return [BodyStep(s.code, s.dtype, tuple(place[a] for a in s.args), s.value, s.uniform)
                for s in (self.steps[n] for n in order)]

    def step(self, code: str, dtype: str, *args: int, value: int = 0) -> int:
        varies = code in ("READ", "LOOKUP", *_LANES.values())
        uniform = not varies and all(self.steps[a].uniform for a in args)
        step = BodyStep(code, dtype, args, value, uniform)
        if step not in self._numbers:
            self._numbers[step] = len(self.steps)
            self.steps.append(step)
        return self._numbers[step]

    def of(self, node: Expr) -> int:
        dtype = _known(node.dtype)
        match node:
            case Const(value):
                return self.step("CONST", dtype, value=int(value))
            case Var(name) if node in [one.var for one in self.intrinsic.immediates]:
                return self.step("SCALAR", dtype, value=self.immediates.index(name))
            case Read(buffer, indices):
                return self._read(buffer.name, indices, dtype)
            case Binary(op, a, b) if op in _BINARY:
                code = _BINARY[op]
                if a.dtype == "bool" and code not in _OF_BOOL:
                    raise Foreign(f"{op} of bool")
                return self.step(code, dtype, self.of(a), self.of(b))
            case Select(condition, a, b):
                return self.step("SELECT", dtype, self.of(condition), self.of(a), self.of(b))
            case Cast(value):
                return self.step("BOOL" if dtype == "bool" else "CAST", dtype, self.of(value))
            case Call("abs", (value,)):
                return self.step("ABS", dtype, self.of(value))
            case Reduce(op, value):
                return self.step(_LANES[op], dtype, self.of(value))
        raise Foreign(type(node).__name__)

    def _read(self, operand: str, indices: Sequence[Expr], dtype: str) -> int:
        if operand not in self.stored:
            scalar = self.step("SCALAR", "int32", value=self.immediates.index("imm"))
            return self.step("CAST", dtype, scalar)
        table = operand == TABLE.name
        source = BodySource(operand, () if table else tuple(map(self._lanes, indices)))
        if source not in self.sources:
            self.sources.append(source)
        places = [self.of(index) for index in indices] if table else []
        read = self.step("LOOKUP" if table else "READ", _known(self.stored[operand]), *places,
                         value=self.sources.index(source))
        return self.step("CAST", dtype, read) if dtype != self.stored[operand] else read

    def _lanes(self, index: Expr) -> tuple[int, ...]:
        try:
            values = evaluate(index, self.axes, {}, {}, 1)
        except KeyError as error:
            raise Foreign(f"index by {error}") from None
        return tuple(np.ravel(values).tolist())


def _known(dtype: str) -> str:
    if dtype == "bool" or is_integer(dtype) and bits(dtype) <= 32 + 32 * is_signed(dtype):
        return dtype
    raise Foreign(dtype)
