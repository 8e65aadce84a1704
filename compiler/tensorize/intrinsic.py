"""Declared tensor intrinsics: the one definition of what an instruction of a target means.

An intrinsic computes one **tile**. Its meaning is split in two::

    dst[axes] = update(dst[axes], value[axes])

`value` is feed-forward: any expression over the operands, with a lane reduction on the outside if
it needs one. `update` folds the value into the destination: ``assign`` overwrites, ``sum``, ``max``
and ``min`` accumulate. In the iterations that begin a reduction the update is an assignment.

Everything else is derived from this record: the pattern that a loop nest must unify with, the
datapath, the simulator's arithmetic, the timing and the documentation.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compiler.te import Axis, Expr, Hashed, Read, Reduce, Var, hashed_once, walk

ANY = "*"           # element type of an operand that takes every type (copies)
UPDATES = ("assign", "sum", "max", "min")


@dataclass(frozen=True, slots=True)
class Operand:
    """A tile that the intrinsic reads or writes.

    Parameters
    ----------
    name : as it appears in `value` (the name of a placeholder of `shape` and `dtype`).
    shape : extents of the tile; ``()`` for one element.
    dtype : type in which `value` reads it, or `ANY`.
    storage : where it may live: pairs (scope, type as stored). A stored type differs from `dtype`
        where the hardware converts on access: ``int8`` is sign-extended when it is read and wraps
        when it is written; ``param.bias`` is the field `bias` of the record `param`;
        scope ``imm`` means a constant in the instruction.
    window : whether the tile may be a window of a larger buffer, its rows apart; else the last
        dimensions of the buffer must be exactly `shape`, so that a tile is one entry of it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    storage: tuple[tuple[str, str], ...]
    window: bool = False

    def __post_init__(self):
        if not self.storage:
            raise ValueError(f"Operand {self.name} must have a scope to live in")
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in self.storage):
            raise ValueError(f"Storage of operand {self.name} must be pairs of scope and type, "
                             f"not {self.storage!r}")

    @property
    def scopes(self) -> tuple[str, ...]:
        return tuple(scope for scope, _ in self.storage)

    def stored_as(self, scope: str) -> str:
        return dict(self.storage)[scope]


@dataclass(frozen=True, slots=True)
class Immediate:
    """A scalar that the instruction carries: a `Var` of `value`, bound to a constant in range.

    An immediate of type ``bool`` is a predicate: it binds any condition over the loop indices,
    and the lowering rule of the target turns that into fields (the padding of a copy).
    """

    name: str
    dtype: str
    low: int = 0
    high: int = 0

    @property
    def var(self) -> Var:
        return Var(self.name, self.dtype)


@hashed_once
@dataclass(frozen=True, slots=True)
class Intrinsic(Hashed):
    """See the module's text.

    Parameters
    ----------
    name : unique within a target.
    unit : the execution unit that runs it.
    dst, operands, immediates : what it touches.
    axes : the indices of the tile of `dst`, in order, with extents equal to ``dst.shape``.
    value : expression over ``Read(<operand>, <axes>)`` and the immediates.
    update : one of `UPDATES`.
    loops : how many affine loops the instruction runs by itself around the tile.
    needs : features that a machine must have for it; on others the loop nest itself is run.
    lower : the rule by which a back end writes it down, for back ends that generate text; what the
        rule is called with is theirs to say. It takes no part in equality.
    """

    name: str
    unit: str
    dst: Operand
    operands: tuple[Operand, ...]
    axes: tuple[Axis, ...]
    value: Expr
    update: str = "assign"
    immediates: tuple[Immediate, ...] = ()
    loops: int = 0
    needs: tuple[str, ...] = ()
    lower: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self):
        if self.update not in UPDATES:
            raise ValueError(f"Update of {self.name} must be one of {', '.join(UPDATES)}, "
                             f"not {self.update!r}")
        if tuple(axis.extent for axis in self.axes) != self.dst.shape:
            raise ValueError(f"Axes of {self.name} must have the extents of its destination "
                             f"{self.dst.shape}, not {tuple(a.extent for a in self.axes)}")
        if not isinstance(self.value, Expr):
            raise TypeError(f"Value of {self.name} must be one expression, not a "
                            f"{type(self.value).__name__.lower()}")
        inner = self.value.value if isinstance(self.value, Reduce) else self.value
        known = {o.name: o for o in self.operands}
        variables = {a.var for a in self.axes} | {i.var for i in self.immediates}
        variables |= {var for var, _ in self.reduce_axes}
        for node in walk(inner):
            match node:
                case Reduce():
                    raise ValueError(f"Reduction in {self.name} must be outermost in its value")
                case Read(buffer, _) if buffer.name not in known:
                    raise ValueError(f"Value of {self.name} reads {buffer.name!r}, "
                                     f"which is not an operand")
                case Read(buffer, _) if buffer.shape != known[buffer.name].shape:
                    raise ValueError(f"Value of {self.name} reads {buffer.name!r} with shape "
                                     f"{buffer.shape}, not {known[buffer.name].shape}")
                case Var() if node not in variables:
                    raise ValueError(f"Value of {self.name} uses {node.name!r}, which is neither "
                                     f"an axis nor an immediate")

    @property
    def reduce_axes(self) -> tuple[tuple[Var, int], ...]:
        """Lane reduction: index and extent of each axis."""
        return self.value.axes if isinstance(self.value, Reduce) else ()

    @property
    def reads_destination(self) -> bool:
        return self.update != "assign"

    def operand(self, name: str) -> Operand:
        for candidate in (self.dst, *self.operands):
            if candidate.name == name:
                return candidate
        raise KeyError(name)
