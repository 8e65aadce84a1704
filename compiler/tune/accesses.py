"""The way of loops through memory: strides and footprints of subscripts, by their linear forms.

What is not linear is estimated, since features and estimates may err; legality is decided by
`compiler.schedule`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from compiler.ir import Linear, free_variables, linear
from compiler.te import Binary, Buffer, Const, Expr, Read, Var, bits, is_record

LINE = 64               # bytes of a line of a cache


@dataclass(frozen=True, slots=True)
class VectorCore:
    """Float32 lanes of a vector register, how many registers there are, the bytes of the caches
    from the nearest one outwards, and the threads that share a program.
    """

    lanes: int = 16
    registers: int = 32
    caches: tuple[int, ...] = (32 << 10, 1 << 20)
    threads: int = 1


class MemoryAccess:
    """One access of a statement to elements of a buffer."""

    __slots__ = ("_forms", "_strides", "buffer")

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...]):
        self.buffer = buffer
        self._forms = tuple(map(linear, indices))
        self._strides: dict[Var, int | None] = {}
        for form, pitch in zip(self._forms, buffer.pitches, strict=True):
            for atom, factor in form.terms:
                for var in free_variables(atom):
                    before = self._strides.get(var, 0)
                    self._strides[var] = (
                        before + factor * pitch if isinstance(atom, Var)
                        and isinstance(pitch, int) and before is not None else None)

    @property
    def element_bytes(self) -> int:
        dtype = self.buffer.dtype
        return 16 if is_record(dtype) else max(1, bits(dtype) // 8)

    def stride(self, var: Var) -> int | None:
        """By how many elements a step of the variable moves; None where that is not fixed."""
        return self._strides.get(var, 0)

    def box(self, extents: Mapping[Var, int]) -> tuple[int, ...]:
        """The extents of the elements that are touched while these variables run and all others
        stay, at most.
        """
        return tuple(min(size, length) if isinstance(size, int) else length
                     for size, length in zip(self.buffer.shape, (
                         _span(form, extents) for form in self._forms), strict=True))

    def elements(self, extents: Mapping[Var, int]) -> int:
        """The most elements that these are."""
        runs = prod(extents[var] for var in self._strides if var in extents)
        return min(prod(self.box(extents)), runs)

    def bytes(self, extents: Mapping[Var, int]) -> int:
        """The bytes of the lines that these elements lie in, about."""
        *outer, last = self.box(extents) or (1,)
        row = last * self.element_bytes
        lines = -(-row // LINE) if row > LINE // 2 or prod(outer) > 1 else row / LINE
        return int(min(prod(outer) * lines, self.elements(extents)) * LINE)


@lru_cache(4096)
def access_of(read: Read) -> MemoryAccess:
    return MemoryAccess(read.buffer, read.indices)


def _span(form: Linear, extents: Mapping[Var, int]) -> int:
    """The most values that an index takes."""
    return 1 + sum(abs(factor) * (_atom_span(atom, extents) - 1) for atom, factor in form.terms)


def _atom_span(atom: Expr, extents: Mapping[Var, int]) -> int:
    match atom:
        case Var():
            return extents.get(atom, 1)
        case Binary("floordiv", index, Const(divisor)) if divisor > 0:
            return -(-_span(linear(index), extents) // int(divisor))
        case Binary("mod", index, Const(divisor)) if divisor > 0:
            return min(_span(linear(index), extents), int(divisor))
        case Binary("min" | "max", a, b):
            return max(_span(linear(a), extents), _span(linear(b), extents))
        case _:                         # data: any value, as often as the variables in it run
            return prod(extents.get(var, 1) for var in free_variables(atom))
