"""An instruction of a stream unit: the component that computes it, and its meaning."""

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import FunctionType

import numpy as np
from amaranth.back import rtlil
from amaranth.lib.wiring import Component, Signature

from accel.machine.streams.shape import Entry, StreamShape
from compiler.errors import Error
from compiler.te import is_integer, numpy_dtype
from compiler.tensorize import Immediate, Operand

LONGEST = 1 << 16
"""Entries that the innermost loop of a word can have, at most."""

ROWS, TABLE = "rows", "table"
"""The names of a meaning's parameters beside those of immediates."""

_PLAIN = (int, float, str, bytes, bool, type(None))


class MeaningError(Error, ValueError):
    """A meaning that gives no results of its rows: says what it gave."""


@dataclass(frozen=True)
class StreamForm:
    """An instruction of a stream unit on one machine: what an `Intrinsic` is for other units.

    Parameters
    ----------
    dst : operand of one entry that is written.
    operands : ``a``, an entry that is read, and ``table`` where the unit has one.
    shape : what the component sees.
    component : makes it: ``component(shape)``.
    meaning : see `results`.
    longest : the most entries of a row.
    """

    name: str
    dst: Operand
    operands: tuple[Operand, ...]
    shape: StreamShape
    component: Callable[[StreamShape], Component] = field(repr=False)
    meaning: Callable[..., np.ndarray] = field(repr=False)
    immediates: tuple[Immediate, ...] = ()
    longest: int = LONGEST
    unit: str = "stream"
    update: str = "assign"
    loops: int = 5
    needs: tuple[str, ...] = ()

    reads_destination = False

    def __repr__(self) -> str:
        return (f"StreamForm({self.name!r}, {self.dst!r}, {self.operands!r}, {self.shape!r}, "
                f"{self.immediates!r}, {self.longest}, component {netlist_hash(self)}, meaning "
                f"{_hash(source(self))})")

    def operand(self, name: str) -> Operand:
        """The operand of a name; KeyError where there is none."""
        return {one.name: one for one in (self.dst, *self.operands)}[name]

    def results(self, rows: np.ndarray, table: np.ndarray | None,
                fields: Mapping[str, int]) -> np.ndarray:
        """The rows that are written for `rows`, as the meaning has them.

        `rows` has the shape (rows, entries of a row, *entry of a), `table` (entries, *entry of the
        table), the result (rows, entries of a row, *entry of dst). All are integers as they are
        stored; of floats and records, their bits; of the result the low bits count. Raises
        MeaningError where the meaning gives something else.
        """
        known = {} if table is None else {TABLE: table}
        result = self.meaning(rows, **known, **fields)
        wanted = (*rows.shape[:2], *self.shape.dst[0])
        if not isinstance(result, np.ndarray) or result.dtype.kind not in "iu":
            raise MeaningError(f"Meaning of {self.name} must give an array of integers, not "
                               f"{getattr(result, 'dtype', type(result).__name__)}")
        if result.shape != wanted:
            raise MeaningError(f"Meaning of {self.name} must give the shape {wanted} for rows of "
                               f"{rows.shape}, not {result.shape}")
        return result.astype(integers_of(self.shape.dst))


def integers_of(entry: Entry) -> np.dtype:
    """The type of integers as which the elements of an entry are stored."""
    kept = numpy_dtype(entry[1])
    return kept if is_integer(entry[1]) else np.dtype(f"u{kept.itemsize}")


def netlist_hash(form: StreamForm) -> str:
    """The hash of the component's netlist: an edit of the hardware makes another machine."""
    return _made(form.component, _Shape(form.shape))[1]


@dataclass(frozen=True)
class _Shape:
    """A shape as a key."""

    shape: StreamShape

    def __hash__(self) -> int:
        return hash(repr(self.shape))


@lru_cache(64)
def _made(component: Callable[[StreamShape], object], key: _Shape) -> tuple[Component | None, str]:
    """The component, or None where it is none, and the hash of its netlist."""
    made = component(key.shape)
    if not isinstance(made, Component):
        return None, ""
    return made, _hash(rtlil.convert(made, name="component", emit_src=False))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def source(form: StreamForm) -> str:
    """The text that decides the meaning: that of its module, and values from around the function.
    """
    cells = dict(zip(form.meaning.__code__.co_freevars, form.meaning.__closure__ or ()))
    values = {name: cell.cell_contents for name, cell in cells.items()}
    return f"{inspect.getsource(sys.modules[form.meaning.__module__])}\n{sorted(values.items())}"


# ---- what a declaration must be ----------------------------------------------------------------

def misfits(form: StreamForm) -> Iterator[str]:
    """The reasons why a declaration is no instruction, in sentences."""
    if not isinstance(form.longest, int) or not 1 <= form.longest <= LONGEST:
        yield (f"Longest row of {form.name} must have 1 to {LONGEST} entries, as its loop has, "
               f"not {form.longest!r}")
    elif not isinstance(form.meaning, FunctionType):
        yield (f"Meaning of {form.name} must be a function, not a "
               f"{type(form.meaning).__name__}: its source is part of the machine")
    elif not callable(form.component):
        yield (f"Component of {form.name} must be a class or a function of the shape, not "
               f"{form.component!r}")
    else:
        yield from _of_component(form)
        yield from _of_meaning(form)


def _of_component(form: StreamForm) -> Iterator[str]:
    made, _ = _made(form.component, _Shape(form.shape))
    if made is None:
        yield f"Component of {form.name} must be an Amaranth Component"
        return
    here, there = (dict(one.members.items()) for one in (
        made.signature, Signature(form.shape.members)))
    for member in dict.fromkeys((*there, *here)):
        if here.get(member) != there.get(member):
            yield (f"Component of {form.name} must have the member {member} as {there[member]}, "
                   f"not as {here.get(member, 'none')}" if member in there else
                   f"Component of {form.name} must have the members {', '.join(there)}, as the "
                   f"unit has, not {member}")


def _of_meaning(form: StreamForm) -> Iterator[str]:
    shape, parameters = form.shape, [*inspect.signature(form.meaning).parameters]
    wanted = [ROWS, *([TABLE] if shape.table else []), *shape.fields]
    if parameters[:1] != wanted[:1] or sorted(parameters) != sorted(wanted):
        yield (f"Meaning of {form.name} must have the parameters {', '.join(wanted)}, not "
               f"{', '.join(parameters) or 'none'}")
        return
    code, cells = form.meaning.__code__, form.meaning.__closure__ or ()
    for name, cell in zip(code.co_freevars, cells):
        if not isinstance(cell.cell_contents, _PLAIN):
            yield (f"Meaning of {form.name} must have numbers and texts alone from around it, not "
                   f"{name}: its source is part of the machine")
            return
    try:
        source(form)
    except (OSError, TypeError, KeyError):
        yield (f"Meaning of {form.name} must be in a file: its source is part of the machine")
        return
    table = None if shape.table is None else np.zeros(
        (1, *shape.table[1]), integers_of(shape.table[1:]))
    try:
        form.results(np.zeros((2, min(3, form.longest), *shape.a[0]), integers_of(shape.a)),
                     table, dict.fromkeys(shape.fields, 0))
    except MeaningError as error:
        yield str(error)
