"""The stages of programs of groups, and steps that several schedules share."""

from collections.abc import Sequence

from compiler.ir import Alloc, For, Program, Store, Write, loops, path_to, reads, walk_stmts
from compiler.schedule import Schedule, pad
from compiler.te import Read


def writes_in(program: Program) -> list[Write]:
    return [s for s in walk_stmts(program.body) if isinstance(s, Write)]


def stages(program: Program) -> list[Alloc]:
    return [s for s in walk_stmts(program.body) if isinstance(s, Alloc)]


def write_of(program: Program, stage: str) -> Write:
    return next(write for write in writes_in(program)
                if stage in (buffer.name for buffer in write.buffers))


def loops_around(program: Program, write: Write) -> list[For]:
    """Outermost first."""
    return [s for s in path_to(program.body, lambda one: one is write) if isinstance(s, For)]


def maps(program: Program, write: Write) -> list[str]:
    """The loops that do not reduce."""
    axes = () if isinstance(write, Store) else write.axes
    return [loop.var.name for loop in loops_around(program, write) if loop.var not in axes]


def readers(program: Program, stage: Alloc) -> list[Write]:
    return [write for write in writes_in(program)
            if any(read.buffer == stage.buffer for read in reads(write))]


def extent_of(s: Schedule, loop: str) -> int:
    return next(one.extent for one in loops(s.program.body) if one.var.name == loop)


def padded(s: Schedule, loop: str, multiple: int) -> None:
    """Lets a loop run to a multiple, as `pad` does."""
    extent = extent_of(s, loop)
    if extent % multiple:
        s.apply(pad, loop, extent + -extent % multiple)


def inline_copies(s: Schedule) -> None:
    """Inlines the stages that only choose elements of inputs."""
    for stage in stages(s.program):
        write = write_of(s.program, stage.buffer.name)
        if isinstance(write, Store) and isinstance(write.value, Read) and (
                write.value.buffer in s.program.inputs):
            s[stage.buffer.name].compute_inline()


def sums_in(s: Schedule, out: str, total: str, scope: str) -> str:
    """Lets sums lie in a scope; returns their stage, a new one where they are the result."""
    if total == out:
        return s[out].cache_write(scope, name="acc").name
    s[total].set_scope(scope)
    return total


def fused(s: Schedule, stage: str, names: Sequence[str], name: str = "") -> str:
    """The loops as one, which is called `name` where it is new and there is one."""
    loop, *rest = names
    for place, other in enumerate(rest, start=2):
        loop = s[stage].fuse(loop, other, name if place == len(names) and name else None)
    return loop
