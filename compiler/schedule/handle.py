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
>>> Schedule.replay([y], s.text()).program == s.program
True
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.ir import Program, buffers_of, lower, loops
from compiler.te import Axis, Tensor, Var
from compiler.tensorize import Intrinsic

from .primitives.compute import compute_at, compute_inline
from .primitives.intrinsics import tensorize, tensorize_first
from .primitives.layout import Layout, layout_text, storage_align, swizzle, transform_layout
from .primitives.loops import fuse, split, tile, unroll
from .primitives.padding import pad
from .primitives.parallel import annotate, parallel, vectorize
from .primitives.peeling import peel
from .analysis.place import refuse
from .primitives.pipelining import double_buffer, pipeline
from .record import read_step, step_text
from .primitives.reduction import decompose_reduction, rfactor
from .primitives.reorder import reorder
from .primitives.reverse import reverse_compute_at, reverse_inline
from .primitives.warp_specialization import warp_specialize
from .primitives.storage import cache_read, cache_write, set_scope
from .primitives.threads import bind, virtual_thread

__all__ = ["PRIMITIVES", "Schedule", "StageSchedule"]

Loop = str | Axis | Var

PRIMITIVES = {primitive.__name__: primitive for primitive in (
    annotate, bind, cache_read, cache_write, compute_at, compute_inline, decompose_reduction,
    double_buffer, fuse, pad, parallel, peel, pipeline, reorder, reverse_compute_at, reverse_inline,
    rfactor, set_scope, split, storage_align, swizzle, tensorize, tile, transform_layout, unroll,
    vectorize, virtual_thread, warp_specialize)}
"""The whole schedule language: each entry is ``primitive(program, ...) -> program``."""


class Schedule:
    """A program and the steps that made it.

    `s[tensor]` or `s["name"]` addresses a stage; its loops are named as in the program or, for
    short, without the stage's prefix. Every step replaces `program`; `steps` holds pairs (text,
    program after it).
    """

    def __init__(self, outputs: Sequence[Tensor] | Program, name: str = "main"):
        self.program = outputs if isinstance(outputs, Program) else lower(outputs, name)
        self.steps: list[tuple[str, Program]] = []

    @classmethod
    def replay(cls, outputs: Sequence[Tensor] | Program, text: str,
               intrinsics: Iterable[Intrinsic] = ()) -> "Schedule":
        """The schedule with the steps that `text` records, one a line, as `text()` gives them.

        `intrinsics` are the ones that steps name. Raises ValueError for a line that is not a step,
        ScheduleError for a step that the program does not allow.
        """
        schedule = cls(outputs)
        for line in filter(str.strip, text.splitlines()):
            primitive, args, options = read_step(line, PRIMITIVES, intrinsics)
            schedule.apply(primitive, *args, **options)
        return schedule

    def __getitem__(self, stage: Tensor | str) -> "StageSchedule":
        return StageSchedule(self, stage if isinstance(stage, str) else stage.name)

    def apply(self, primitive, *args, **options) -> Program:
        """Apply any ``primitive(program, *args, **options)``."""
        return self._stepped(primitive(self.program, *args, **options), primitive, args, options)

    def tensorize_first(self, place: str, intrinsics: Iterable[Intrinsic]) -> Intrinsic | None:
        """`tensorize` with the first of several intrinsics that it would take at a place, if any.
        """
        made = tensorize_first(self.program, place, intrinsics)
        if made is None:
            return None
        program, intrinsic = made
        self._stepped(program, tensorize, (place, intrinsic), {})
        return intrinsic

    def _stepped(self, program: Program, primitive, args: tuple, options: dict) -> Program:
        """Keeps a step that has made the program."""
        self.program = program
        self.steps.append((step_text(primitive, args, options), program))
        return program

    def text(self) -> str:
        """The steps, one a line."""
        return "\n".join(step for step, _ in self.steps)


@dataclass(frozen=True, slots=True)
class StageSchedule:
    """Primitives on one stage of a schedule. Methods return names for further steps."""

    schedule: Schedule
    name: str

    def _loop(self, loop: Loop) -> str:
        name = loop if isinstance(loop, str) else loop.name
        known = {loop.var.name for loop in loops(self.schedule.program.body)}
        short = f"{self.name}_{name}"
        if name in known or short in known:
            return name if name in known else short
        program = self.schedule.program
        if self.name not in (stages := buffers_of(program)):
            refuse("schedule", f"stage must be one of {', '.join(stages)}, not {self.name!r}",
                   program)
        return name

    # Loops

    def split(self, loop: Loop, factor: int | None = None, outer: str | None = None,
              inner: str | None = None, nparts: int | None = None) -> tuple[str, str]:
        name = self._loop(loop)
        names = outer or f"{name}_o", inner or f"{name}_i"
        given: dict[str, str | int] = {k: v for k, v in (("outer", outer), ("inner", inner)) if v}
        given |= {} if nparts is None else {"nparts": nparts}
        self.schedule.apply(split, name, *([] if factor is None else [factor]), **given)
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
        self.schedule.apply(reorder, *map(self._loop, order), **_if_set(reassociate=reassociate))

    def unroll(self, loop: Loop) -> None:
        self.schedule.apply(unroll, self._loop(loop))

    def vectorize(self, loop: Loop) -> None:
        self.schedule.apply(vectorize, self._loop(loop))

    def parallel(self, loop: Loop) -> None:
        self.schedule.apply(parallel, self._loop(loop))

    def bind(self, loop: Loop, axis: str, reassociate: bool = False) -> None:
        self.schedule.apply(bind, self._loop(loop), axis, **_if_set(reassociate=reassociate))

    def virtual_thread(self, loop: Loop) -> None:
        self.schedule.apply(virtual_thread, self._loop(loop))

    def annotate(self, loop: Loop, key: str, value: int | str | bool) -> None:
        self.schedule.apply(annotate, self._loop(loop), key, value)

    def pad(self, loop: Loop, extent: int) -> None:
        self.schedule.apply(pad, self._loop(loop), extent)

    def peel(self, loop: Loop, suffix: str = "last") -> None:
        self.schedule.apply(peel, self._loop(loop), suffix)

    def pipeline(self, loop: Loop, *stages: int, asynchronous: bool = False) -> None:
        self.schedule.apply(pipeline, self._loop(loop), *stages,
                            **_if_set(asynchronous=asynchronous))

    def warp_specialize(self, loop: Loop, *units: int, copies: int) -> None:
        self.schedule.apply(warp_specialize, self._loop(loop), *units, copies=copies)

    # Where and how the stage is computed

    def compute_at(self, loop: str) -> None:
        """`loop` belongs to another stage: give its full name."""
        self.schedule.apply(compute_at, self.name, loop)

    def reverse_compute_at(self, loop: str) -> None:
        """`loop` belongs to another stage: give its full name."""
        self.schedule.apply(reverse_compute_at, self.name, loop)

    def compute_inline(self) -> None:
        self.schedule.apply(compute_inline, self.name)

    def reverse_inline(self) -> None:
        self.schedule.apply(reverse_inline, self.name)

    def decompose_reduction(self, loop: Loop) -> None:
        self.schedule.apply(decompose_reduction, self.name, self._loop(loop))

    def rfactor(self, loop: Loop, reassociate: bool = False,
                scope: str | None = None) -> "StageSchedule":
        """Returns the name of the stage of partial results."""
        self.schedule.apply(rfactor, self.name, self._loop(loop),
                            **_if_set(reassociate=reassociate, scope=scope))
        return self.schedule[f"{self.name}_rf"]

    def tensorize(self, loop: Loop | None, intrinsic: Intrinsic, **immediates) -> None:
        """`loop` is the tile's outermost loop; None takes the bare store of the stage."""
        place = self.name if loop is None else self._loop(loop)
        self.schedule.apply(tensorize, place, intrinsic, **immediates)

    # Layout of its elements

    def set_scope(self, scope: str) -> None:
        self.schedule.apply(set_scope, self.name, scope)

    def storage_align(self, dimension: int, factor: int, offset: int = 0) -> None:
        self.schedule.apply(storage_align, self.name, dimension, factor, offset)

    def swizzle(self) -> None:
        self.schedule.apply(swizzle, self.name)

    def transform_layout(self, layout: Layout) -> None:
        self.schedule.apply(transform_layout, self.name, layout_text(layout))

    def double_buffer(self) -> None:
        self.schedule.apply(double_buffer, self.name)

    def cache_read(self, scope: str, readers: Sequence[str] | None = None,
                   name: str | None = None) -> "StageSchedule":
        """Returns the name of the copy's stage."""
        self.schedule.apply(cache_read, self.name, scope, **_if_set(readers=readers, name=name))
        return self.schedule[name or f"{self.name}_{scope}"]

    def cache_write(self, scope: str, name: str | None = None) -> "StageSchedule":
        """Returns the name of the stage that computes into the copy's source."""
        self.schedule.apply(cache_write, self.name, scope, **_if_set(name=name))
        return self.schedule[name or f"{self.name}_{scope}"]


def _if_set(**options) -> dict:
    """The options that differ from their defaults."""
    return {name: value for name, value in options.items() if value}
