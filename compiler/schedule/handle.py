"""The schedule as an object: applies primitives one after the other and keeps every step.

>>> from compiler import te
>>> from compiler.schedule import Schedule
>>> x = te.placeholder((8,), "int8", name="x")
>>> y = te.compute((8,), lambda i: x[i] + 1, name="y")
>>> s = Schedule([y])
>>> s["y"].split("i", 4)
('y_i_o', 'y_i_i')
>>> print(s.text())
split(y_i, 4)
>>> s.program.body.extent
2
"""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.ir import Program, lower, loops
from compiler.te import Axis, Tensor, Var
from compiler.tensorize import Intrinsic

from .compute import compute_at, compute_inline
from .intrinsics import tensorize
from .loops import fuse, split, tile, unroll
from .reorder import reorder
from .storage import cache_read, cache_write, set_scope
from .threads import virtual_thread

__all__ = ["Schedule", "StageSchedule"]

Loop = str | Axis | Var


class Schedule:
    """A program and the steps that made it.

    `s[tensor]` or `s["name"]` addresses a stage; its loops are named as in the program or, for
    short, without the name of the stage in front. Every step replaces `program`; `steps` holds
    pairs (text, program after it).
    """

    def __init__(self, outputs: Sequence[Tensor] | Program, name: str = "main"):
        self.program = outputs if isinstance(outputs, Program) else lower(outputs, name)
        self.steps: list[tuple[str, Program]] = []

    def __getitem__(self, stage: Tensor | str) -> "StageSchedule":
        return StageSchedule(self, stage if isinstance(stage, str) else stage.name)

    def apply(self, primitive, *args, **options) -> Program:
        """Apply any ``primitive(program, *args, **options)``."""
        self.program = primitive(self.program, *args, **options)
        shown = [_text(arg) for arg in args] + [f"{k}={_text(v)}" for k, v in options.items()]
        self.steps.append((f"{primitive.__name__}({', '.join(shown)})", self.program))
        return self.program

    def text(self) -> str:
        """The steps, one a line."""
        return "\n".join(step for step, _ in self.steps)


def _text(value) -> str:
    return value if isinstance(value, str) else getattr(value, "name", None) or repr(value)


@dataclass(frozen=True, slots=True)
class StageSchedule:
    """Primitives on one stage of a schedule."""

    schedule: Schedule
    name: str

    def _loop(self, loop: Loop) -> str:
        name = loop if isinstance(loop, str) else loop.name
        known = {one.var.name for one in loops(self.schedule.program.body)}
        short = f"{self.name}_{name}"
        return short if short in known and name not in known else name

    def split(self, loop: Loop, factor: int, outer: str | None = None,
              inner: str | None = None) -> tuple[str, str]:
        name = self._loop(loop)
        names = outer or f"{name}_o", inner or f"{name}_i"
        given = {k: v for k, v in (("outer", outer), ("inner", inner)) if v}
        self.schedule.apply(split, name, factor, **given)
        return names

    def fuse(self, outer: Loop, inner: Loop, fused: str | None = None) -> str:
        first, second = self._loop(outer), self._loop(inner)
        self.schedule.apply(fuse, first, second, **({"fused": fused} if fused else {}))
        return fused or f"{first}_{second}"

    def tile(self, x: Loop, y: Loop, x_factor: int, y_factor: int) -> tuple[str, str, str, str]:
        first, second = self._loop(x), self._loop(y)
        self.schedule.apply(tile, first, second, x_factor, y_factor)
        return f"{first}_o", f"{second}_o", f"{first}_i", f"{second}_i"

    def reorder(self, *order: Loop, reassociate: bool = False) -> None:
        given = {"reassociate": True} if reassociate else {}
        self.schedule.apply(reorder, *map(self._loop, order), **given)

    def unroll(self, loop: Loop) -> None:
        self.schedule.apply(unroll, self._loop(loop))

    def virtual_thread(self, loop: Loop) -> None:
        self.schedule.apply(virtual_thread, self._loop(loop))

    def compute_at(self, loop: str) -> None:
        """`loop` belongs to another stage: give its full name."""
        self.schedule.apply(compute_at, self.name, loop)

    def compute_inline(self) -> None:
        self.schedule.apply(compute_inline, self.name)

    def set_scope(self, scope: str) -> None:
        self.schedule.apply(set_scope, self.name, scope)

    def cache_read(self, scope: str, readers: Sequence[str] | None = None,
                   name: str | None = None) -> "StageSchedule":
        """Stage of the copy."""
        given = {k: v for k, v in (("readers", readers), ("name", name)) if v}
        self.schedule.apply(cache_read, self.name, scope, **given)
        return self.schedule[name or f"{self.name}_{scope}"]

    def cache_write(self, scope: str, name: str | None = None) -> "StageSchedule":
        """Stage that computes into the copy's source."""
        given = {"name": name} if name else {}
        self.schedule.apply(cache_write, self.name, scope, **given)
        return self.schedule[name or f"{self.name}_{scope}"]

    def tensorize(self, loop: Loop | None, intrinsic: Intrinsic, **immediates) -> None:
        """`loop` is the outermost of the tile; None takes the bare store of the stage."""
        place = self.name if loop is None else self._loop(loop)
        self.schedule.apply(tensorize, place, intrinsic, **immediates)
