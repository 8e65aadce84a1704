"""Scalar expressions: immutable trees that every part of the compiler shares.

The kinds are few on purpose::

    Const  Var  Read  Field  Binary  Call  Select  Cast  Reduce  Extern

`Read` names a `Buffer`, so one tree serves tensor expressions, loop programs and the bodies of
declared intrinsics. Operands of an operator must agree in type; a Python number adopts the type
of the other side. Nothing is converted silently: write `cast`.

Integer operations wrap. `floordiv` and `mod` round towards minus infinity, `shr` shifts
arithmetically for signed types, `rshift_rne(x, s)` is ``x / 2**s`` rounded half to even, once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from operator import is_
from typing import Any, TypeVar

import numpy as np

from .dtypes import (INDEX, bits, is_float, is_integer, is_record, is_signed, numpy_dtype,
                     record_fields)

Extent = Any
"""A positive integer, or an index expression over symbols (see `Symbol`)."""

ARITHMETIC = frozenset("add sub mul div floordiv mod min max".split())
BITWISE = frozenset("and or xor shl shr rshift_rne".split())
COMPARISONS = frozenset("lt le gt ge eq ne".split())
_BINARY = ARITHMETIC | BITWISE | COMPARISONS
FUNCTIONS = frozenset("abs exp log sqrt tanh erf floor ceil rint tf32 pow sin cos tan asin acos "
                      "atan sinh cosh asinh acosh atanh".split())
REDUCERS = frozenset("sum max min".split())


Node = TypeVar("Node", bound=type)


def hashed_once(kind: Node) -> Node:
    """A frozen class whose instances have a slot `_hash`, and are hashed once: trees are long."""
    compute: Any = kind.__hash__

    def known(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = compute(self)
            object.__setattr__(self, "_hash", found)
            return found

    kind.__hash__ = known               # type: ignore[method-assign]
    return kind


class Hashed:
    """Base of what is hashed once and no expression."""

    __slots__ = ("_hash",)


@hashed_once
@dataclass(frozen=True, slots=True)
class Buffer(Hashed):
    """Storage of a fixed shape: the thing that reads and stores name.

    `scope` says where it lives: ``global`` (DRAM or host memory) or an on-chip buffer of a target.
    `definition` is what `compute` or `scan` gave it (see `compiler.te.definition`), so that a
    reader leads back to what it reads; it takes no part in equality. `strides`, in elements, leave
    gaps between rows; without them the elements lie densely in row-major order. Where the buffer is
    `swizzled`, chunks of rows change places (see `compiler.schedule.swizzle`), for back ends whose
    memory has banks.
    """

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    scope: str = "global"
    definition: Any = field(default=None, compare=False, repr=False)
    strides: tuple[int, ...] | None = None
    swizzled: bool = False

    def __post_init__(self):
        if not all(map(is_extent, self.shape)):
            raise ValueError(f"Shape of {self.name} must hold positive integers, "
                             f"not {self.shape!r}")
        numpy_dtype(self.dtype)
        if self.strides is not None and not _apart(self.shape, self.strides):
            raise ValueError(f"Strides of {self.name} must keep rows of {list(self.shape)} apart, "
                             f"not {self.strides!r}")

    def __getitem__(self, indices) -> "Read":
        indices = indices if isinstance(indices, tuple) else (indices,)
        return Read(self, tuple(as_expr(index, INDEX) for index in indices))

    @property
    def pitches(self) -> tuple[Extent, ...]:
        """Distance of neighbours in each dimension, in elements."""
        if self.strides is not None:
            return self.strides
        return tuple(prod(self.shape[d + 1:]) for d in range(len(self.shape)))

    @property
    def size(self) -> Extent:
        """Elements that it takes room for, gaps between rows included."""
        return self.shape[0] * self.pitches[0] if self.shape else 1

    @property
    def size_bytes(self) -> Extent:
        return self.size * numpy_dtype(self.dtype).itemsize

    @property
    def swizzle(self) -> tuple[int, int, int]:
        """Elements of a chunk of 16 bytes; rows that lie in different banks, 32 of 4 bytes, as they
        are; chunks of a row that change places with each other, 8 at most.
        """
        width = numpy_dtype(self.dtype).itemsize
        chunks = min(self.shape[-1] * width // 16, 8)
        return 16 // width, 8 // chunks, chunks


def _apart(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    return len(strides) == len(shape) > 0 and strides[-1] >= 1 and all(
        strides[d] >= shape[d + 1] * strides[d + 1] for d in range(len(shape) - 1))


class Expr:
    """Base of all expressions. `dtype` is the type of the value. What `__slots__` names is known of
    a node once somebody has asked, and no part of its value.
    """

    __slots__ = ("_buffers", "_folded", "_hash", "_linear", "_normal", "_variables")
    dtype: Any

    def __add__(self, other): return _binary("add", self, other)
    def __radd__(self, other): return _binary("add", other, self)
    def __sub__(self, other): return _binary("sub", self, other)
    def __rsub__(self, other): return _binary("sub", other, self)
    def __mul__(self, other): return _binary("mul", self, other)
    def __rmul__(self, other): return _binary("mul", other, self)
    def __truediv__(self, other): return _binary("div", self, other)
    def __rtruediv__(self, other): return _binary("div", other, self)
    def __floordiv__(self, other): return _binary("floordiv", self, other)
    def __rfloordiv__(self, other): return _binary("floordiv", other, self)
    def __mod__(self, other): return _binary("mod", self, other)
    def __rmod__(self, other): return _binary("mod", other, self)
    def __and__(self, other): return _binary("and", self, other)
    def __or__(self, other): return _binary("or", self, other)
    def __xor__(self, other): return _binary("xor", self, other)
    def __lshift__(self, other): return _binary("shl", self, other)
    def __rshift__(self, other): return _binary("shr", self, other)
    def __lt__(self, other): return _binary("lt", self, other)
    def __le__(self, other): return _binary("le", self, other)
    def __gt__(self, other): return _binary("gt", self, other)
    def __ge__(self, other): return _binary("ge", self, other)
    def __neg__(self): return _binary("sub", 0, self)

    def equal(self, other): return _binary("eq", self, other)
    def not_equal(self, other): return _binary("ne", self, other)
    def astype(self, dtype: str): return Cast(self, dtype) if self.dtype != dtype else self

    def __bool__(self):
        raise TypeError("An expression has no truth value; write te.select or .equal(...)")


@dataclass(frozen=True, slots=True)
class Const(Expr):
    value: int | float | bool
    dtype: str

    def __post_init__(self):
        known = _integers(self.dtype)
        if known is not None and not (isinstance(self.value, int)
                                      and not isinstance(self.value, bool) and self.value in known):
            raise ValueError(f"Constant must fit {self.dtype}, not {self.value!r}")


@cache
def _integers(dtype: str) -> range | None:
    """The numbers of an integer type; None for other types."""
    if not is_integer(dtype):
        return None
    low = -(1 << (bits(dtype) - 1)) if is_signed(dtype) else 0
    return range(low, low + (1 << bits(dtype)))


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A loop index, a reduction index or a scalar parameter; equal when name and type are."""

    name: str
    dtype: str = INDEX


@dataclass(frozen=True, slots=True)
class Symbol(Var):
    """An extent that is known when the program runs: a parameter of it, at least 1."""


@hashed_once
@dataclass(frozen=True, slots=True)
class Read(Expr):
    buffer: Buffer
    indices: tuple[Expr, ...]

    def __post_init__(self):
        if len(self.indices) != len(self.buffer.shape):
            raise ValueError(f"{self.buffer.name} has {len(self.buffer.shape)} dimensions, "
                             f"not {len(self.indices)}")

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    def __getattr__(self, name: str) -> "Field":
        if not name.startswith("_") and is_record(self.buffer.dtype):
            return Field(self, name)
        raise AttributeError(name)


@hashed_once
@dataclass(frozen=True, slots=True)
class Field(Expr):
    """One member of a record that was read: ``params[c].bias``."""

    base: Read
    name: str

    def __post_init__(self):
        known = record_fields(self.base.dtype)
        if self.name not in known:
            raise ValueError(f"Field of {self.base.dtype} must be one of {', '.join(known)}, "
                             f"not {self.name!r}")

    @property
    def dtype(self) -> str:
        return record_fields(self.base.dtype)[self.name]


@hashed_once
@dataclass(frozen=True, slots=True)
class Binary(Expr):
    op: str
    a: Expr
    b: Expr

    def __post_init__(self):
        if self.op not in _BINARY:
            raise ValueError(f"Operator must be a known one, not {self.op!r}")
        if self.a.dtype != self.b.dtype:
            raise TypeError(f"Operands of {self.op} must have one type, "
                            f"not {self.a.dtype} and {self.b.dtype}")

    @property
    def dtype(self) -> str:
        return "bool" if self.op in COMPARISONS else self.a.dtype


@hashed_once
@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A function of the math library (`FUNCTIONS`), of the type of its argument; ``pow`` has
    two."""

    function: str
    args: tuple[Expr, ...]

    def __post_init__(self):
        if self.function not in FUNCTIONS:
            raise ValueError(f"Function must be one of {', '.join(sorted(FUNCTIONS))}, "
                             f"not {self.function!r}")
        if self.function != "abs" and not is_float(self.args[0].dtype):
            raise TypeError(f"Argument of {self.function} must be a float, "
                            f"not {self.args[0].dtype}")
        if len(self.args) != (2 if self.function == "pow" else 1):
            raise TypeError(f"{self.function} must have {2 if self.function == 'pow' else 1} "
                            f"arguments, not {len(self.args)}")
        if self.args[-1].dtype != self.args[0].dtype:
            raise TypeError(f"Arguments of {self.function} must have one type, "
                            f"not {self.args[0].dtype} and {self.args[-1].dtype}")
        if self.function == "tf32" and self.args[0].dtype != "float32":
            raise TypeError(f"Argument of tf32 must be float32, not {self.args[0].dtype}")

    @property
    def dtype(self) -> str:
        return self.args[0].dtype


@hashed_once
@dataclass(frozen=True, slots=True)
class Select(Expr):
    """`a` where `condition` holds, else `b`; only the chosen side is evaluated."""

    condition: Expr
    a: Expr
    b: Expr

    def __post_init__(self):
        if self.condition.dtype != "bool":
            raise TypeError(f"Condition must be bool, not {self.condition.dtype}")
        if self.a.dtype != self.b.dtype:
            raise TypeError(f"Sides of select must have one type, "
                            f"not {self.a.dtype} and {self.b.dtype}")

    @property
    def dtype(self) -> str:
        return self.a.dtype


@hashed_once
@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """Conversion as NumPy's ``astype`` does it: integers wrap, floats truncate towards zero. What
    is too large for a float of few bits becomes its greatest number."""

    value: Expr
    dtype: str

    def __post_init__(self):
        numpy_dtype(self.dtype)


@hashed_once
@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """`op` over every value of the reduction indices `axes` (name and extent of each)."""

    op: str
    value: Expr
    axes: tuple[tuple[Var, int], ...]

    def __post_init__(self):
        if self.op not in REDUCERS:
            raise ValueError(f"Reduction must be one of {', '.join(sorted(REDUCERS))}, "
                             f"not {self.op!r}")

    @property
    def dtype(self) -> str:
        return self.value.dtype


@hashed_once
@dataclass(frozen=True, slots=True)
class Extern(Expr):
    """An element of what a function outside of the language makes of whole tensors: `args` are the
    elements that it reads at this place, of which it may use all others as well. Programs have it
    only where an instruction performs it; nothing else computes it.
    """

    function: str
    args: tuple[Expr, ...]
    dtype: str

    def __post_init__(self):
        numpy_dtype(self.dtype)


def is_extent(value) -> bool:
    """True if it may be an extent."""
    if isinstance(value, Expr):
        return value.dtype == INDEX and all(
            isinstance(node, Symbol | Const | Binary) for node in walk(value))
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def as_expr(value, dtype: str) -> Expr:
    """`value` itself when it is an expression, else a constant of `dtype`. An integer type takes
    whole numbers only: nothing is rounded.
    """
    if isinstance(value, Expr):
        return value
    if hasattr(value, "var"):               # an axis stands for its index
        return value.var
    if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        raise TypeError(f"Operand must be an expression or a number, not {value!r}")
    if is_float(dtype):
        return Const(float(value), dtype)
    if dtype == "bool":
        return Const(bool(value), dtype)
    if isinstance(value, float | np.floating) and not float(value).is_integer():
        return Const(float(value), dtype)           # which refuses it
    return Const(int(value), dtype)


def _binary(op: str, a, b) -> Binary:
    if not isinstance(a, Expr):
        a = as_expr(a, b.dtype)
    return Binary(op, a, as_expr(b, a.dtype))


def children(node: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions, in order."""
    part = _CHILDREN.get(type(node))
    return part(node) if part else ()


_CHILDREN: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Read: lambda node: node.indices,
    Field: lambda node: (node.base,),
    Binary: lambda node: (node.a, node.b),
    Call: lambda node: node.args,
    Select: lambda node: (node.condition, node.a, node.b),
    Cast: lambda node: (node.value,),
    Reduce: lambda node: (node.value,),
    Extern: lambda node: node.args,
}


def is_number(expr: Expr) -> bool:
    """True if it is a constant, or one of several by conditions."""
    match expr:
        case Const(): return True
        case Select(_, a, b): return is_number(a) and is_number(b)
        case _: return False


def walk(node: Expr) -> Iterator[Expr]:
    """Every sub-expression, parents first."""
    left = [node]
    while left:
        node = left.pop()
        yield node
        left.extend(reversed(children(node)))


def free_variables(node: Expr) -> frozenset[Var]:
    """The variables that an expression names."""
    found = getattr(node, "_variables", None)
    return _note_names(node)[0] if found is None else found


def buffers_read(node: Expr) -> frozenset[Buffer]:
    """The buffers that an expression reads."""
    found = getattr(node, "_buffers", None)
    return _note_names(node)[1] if found is None else found


def _note_names(node: Expr) -> tuple[frozenset[Var], frozenset[Buffer]]:
    parts = children(node)
    variables, buffers = _joined(map(free_variables, parts)), _joined(map(buffers_read, parts))
    if isinstance(node, Var):
        variables = frozenset((node,))
    elif isinstance(node, Read):
        buffers |= {node.buffer}
    object.__setattr__(node, "_variables", variables)
    object.__setattr__(node, "_buffers", buffers)
    return variables, buffers


def _joined(sets: Iterable[frozenset]) -> frozenset:
    """The union of sets; one of them where it holds all."""
    whole: frozenset = frozenset()
    for one in sets:
        if not one <= whole:
            whole = whole | one if whole else one
    return whole


def rewrite(node: Expr, rule: Callable[[Expr], Expr | None],
            reading: frozenset[Buffer] | None = None) -> Expr:
    """Apply `rule` bottom-up; where it returns None the node stays. What nothing changes is the
    same object. Where nothing but elements of some buffers changes, `reading` tells which.
    """
    if reading is not None and reading.isdisjoint(buffers_read(node)):
        return node
    new, parts = node, _CHILDREN.get(type(node))
    if parts is not None:
        before = parts(node)
        after = tuple([rewrite(child, rule, reading) for child in before])
        if not all(map(is_, before, after)):
            new = with_children(node, after)
    result = rule(new)
    return new if result is None else result


def with_children(node: Expr, new: tuple[Expr, ...]) -> Expr:
    """The node with other direct sub-expressions, in the order of `children`."""
    match node:
        case Read(buffer): return Read(buffer, new)
        case Field(_, name): return Field(new[0], name) if isinstance(new[0], Read) else node
        case Binary(op): return Binary(op, *new)
        case Call(function): return Call(function, new)
        case Select(): return Select(*new)
        case Cast(_, dtype): return Cast(new[0], dtype)
        case Reduce(op, _, axes): return Reduce(op, new[0], axes)
        case Extern(function, _, dtype): return Extern(function, new, dtype)
        case _: raise AssertionError(node)


def substitute(node: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Replace variables."""
    return _substituted(node, values, frozenset(values)) if values else node


def _substituted(node: Expr, values: Mapping[Var, Expr], known: frozenset[Var]) -> Expr:
    if known.isdisjoint(free_variables(node)):
        return node
    if isinstance(node, Var):
        return values[node]
    before = children(node)
    after = tuple([_substituted(child, values, known) for child in before])
    return node if all(map(is_, before, after)) else with_children(node, after)
