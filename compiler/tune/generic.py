"""A template for every expression: how it may be computed, as decisions.

What no other template knows is scheduled here. Stages are taken from the last to the first, so that
consumers come before producers:

    apart     a reduction that is an output is computed into a buffer of its own first
    at        a stage is inlined, computed in a loop of its consumer, or alone
    vector, tile, block, order, reduce, cut, begins, unrolled, peel
              its loops: `compiler.tune.stage_nest`
    copy      what a reduction reads is copied or not: `compiler.tune.operand_copies`
    shared    so many of the outermost loops are shared by threads

Every point leads to a schedule as text. The primitives refuse what is not legal, and none of them
is asked to change the order in which the terms of a sum are added.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from numpy.random import Generator

from compiler.ir import (Alloc, For, If, Program, Seq, Stmt, Store, Update, Write, reads,
                         stmt_children, writes)
from compiler.plans import Task
from compiler.schedule import Schedule, ScheduleError, annotate, fuse, parallel, peel
from compiler.te import INDEX, Binary, Buffer, Call, Expr, Read, Select, walk
from compiler.tune.accesses import VectorCore, access_of
from compiler.tune.chooser import Chooser, PointChooser
from compiler.tune.features import features
from compiler.tune.operand_copies import copy_operands
from compiler.tune.space import Candidate, Point, PointRefused
from compiler.tune.stage_nest import ALONE, StageNest, is_naive, loops_around, write_of

MOST_STATEMENTS = 512       # of a program, written out
INLINE = "inline"
CALL = 20                   # additions that a call of a function takes as long as


@dataclass(frozen=True)
class GenericSpace:
    """All schedules of a loop program that the template makes for a core."""

    task: Task
    program: Program
    core: VectorCore = VectorCore()

    def candidate(self, point: Point, random: Generator | None = None) -> Candidate:
        """Raises PointRefused for a point that is not legal."""
        chooser = PointChooser(point, random)
        try:
            schedule = generic_schedule(self.program, self.core, chooser)
        except ScheduleError as error:
            reason = str(error).splitlines()[0]
            raise PointRefused(f"{self.task.title}: {reason}", tuple(chooser.decisions)) from None
        return Candidate(tuple(chooser.decisions), schedule.text(),
                         features(schedule.program, self.core))


def generic_schedule(program: Program, core: VectorCore, chooser: Chooser) -> Schedule:
    """The schedule that the chooser decides on; the program as it is where extents are symbols.
    Raises ScheduleError for one that is not legal.
    """
    s = Schedule(program)
    if program.parameters:
        return s
    for out in program.outputs:
        write = write_of(s.program, out.name)
        if isinstance(write, Update) and is_naive(s.program, write) and chooser.one_of(
                f"{out.name} apart", (True, False), lambda apart: 1.0 if apart else 1.3):
            s[out.name].cache_write("global", f"{out.name}_sum")
    behind: list[str] = []
    for stage in reversed(_stages(s.program)):
        if _placed(s, stage, chooser, core):
            behind += StageNest(s, stage, chooser, core).schedule()
            copy_operands(s, stage, chooser, core)
    for place, loop in enumerate(behind):
        s.apply(peel, loop, f"behind{place}" if place else "behind")
    if core.threads > 1:
        _share_out(s, chooser, core.threads)
    if (count := _written_out(s.program.body, core.lanes)) > MOST_STATEMENTS:
        raise ScheduleError(f"unroll: at most {MOST_STATEMENTS} statements may be written out, "
                            f"not {count}")
    return s


def _stages(program: Program) -> list[str]:
    """Buffers that are computed by nests that the template knows, in the order of the program."""
    names = dict.fromkeys(write.buffers[0].name for write in writes(program.body))
    return [name for name in names if is_naive(program, write_of(program, name))]


# Where a stage is computed

def _placed(s: Schedule, stage: str, chooser: Chooser, core: VectorCore) -> bool:
    """Decides where the stage is computed; whether it still is a stage after that."""
    write = write_of(s.program, stage)
    assert isinstance(write, Store | Update)
    if write.buffer in s.program.outputs:
        return True
    around = _loops_around_readers(s.program, write.buffer)
    places = [*(loop.var.name for loop in reversed(around)), ALONE]
    if isinstance(write, Store):
        places.append(INLINE)
    runs, total = _runs(loops_around(s.program, write)), _work(s.program)

    def cost(place: str) -> float:
        return total + _cost_at(s.program, write, place, around, runs, core)

    place = chooser.one_of(f"{stage} at", places, cost)
    if place == INLINE:
        s[stage].compute_inline()
    elif place != ALONE:
        s[stage].compute_at(place)
    return place != INLINE


def _loops_around_readers(program: Program, buffer: Buffer) -> list[For]:
    """The loops around all that reads the buffer, from outside; none that are marked."""
    paths = [loops_around(program, write) for write in _readers(program, buffer)]
    common: list[For] = []
    for level in zip(*paths):
        if any(loop is not level[0] for loop in level) or level[0].kind != "serial":
            break
        common.append(level[0])
    return common


def _readers(program: Program, buffer: Buffer) -> list[Write]:
    return [write for write in writes(program.body)
            if any(read.buffer == buffer for read in reads(write))]


def _cost_at(program: Program, write: Store | Update, place: str, around: Sequence[For],
             runs: int, core: VectorCore) -> float:
    """Work of a stage in additions of vectors or so: how much is computed, and how far away it
    lies.
    """
    lanes, each = core.lanes, _weight(write.value) + isinstance(write, Update)
    readers = _readers(program, write.buffer)
    if place == INLINE:
        times = sum(_runs(loops_around(program, reader)) * sum(
            isinstance(node, Read) and node.buffer == write.buffer
            for value in reader.values for node in walk(value)) for reader in readers)
        return times * each / lanes
    at = next((number for number, loop in enumerate(around, 1) if loop.var.name == place), 0)
    boxes = []
    for reader in readers:
        inside = {loop.var: int(loop.extent) for loop in loops_around(program, reader)[at:]}
        boxes += [access_of(read).elements(inside) for read in reads(reader)
                  if read.buffer == write.buffer]
    elements = max(boxes)
    often = _runs(around[:at]) * elements / prod(write.buffer.shape)
    size = elements * 4
    memory = next((2.0 ** level for level, room in enumerate((core.registers * lanes * 4,
                   *core.caches)) if size <= room), 8.0)
    if isinstance(write, Update):       # each term is added to what lies there
        return often * runs * (each + (0 if memory == 1 else memory)) / lanes
    return often * runs * (each + memory) / lanes


def _weight(value: Expr) -> float:
    """The additions that take as long as the expression."""
    return sum(CALL if isinstance(node, Call) else 1 for node in walk(value)
               if isinstance(node, Call | Binary | Select) and node.dtype != INDEX)


def _work(program: Program) -> float:
    """Additions of vectors that the program takes as long as, one lane of 16 at a time."""
    return sum(_runs(loops_around(program, write)) * sum(
        1 + _weight(value) for value in write.values) for write in writes(program.body)) / 16


def _runs(loops: Sequence[For]) -> int:
    return prod(int(loop.extent) for loop in loops)


# Threads, and what is too much

def _share_out(s: Schedule, chooser: Chooser, threads: int) -> None:
    for loop in [loop for loop in _outermost(s.program.body) if loop.kind == "serial"]:
        nest, name = [loop], loop.var.name
        while isinstance(nest[-1].body, For) and nest[-1].body.kind == "serial" and len(nest) < 3:
            nest.append(nest[-1].body)

        def cost(count: int, nest: Sequence[For] = nest) -> float:
            shares = _runs(nest[:count])
            return -(-shares // threads) / shares + (0.01 * threads if count else 0)

        count = chooser.one_of(f"{name} shared", range(len(nest) + 1), cost)
        for inner in nest[1:count]:
            s.apply(fuse, name, inner.var.name)
            name = f"{name}_{inner.var.name}"
        if count:
            s.apply(parallel, name)
            s.apply(annotate, name, "num_threads", threads)


def _outermost(stmt: Stmt) -> Iterator[For]:
    if isinstance(stmt, For):
        yield stmt
    elif isinstance(stmt, Seq | Alloc | If):
        for child in stmt_children(stmt):
            yield from _outermost(child)


def _written_out(stmt: Stmt, lanes: int) -> int:
    """The number of statements after loops are unrolled."""
    match stmt:
        case For(_, int(extent)) if stmt.kind in ("unroll", "vectorize"):
            times = extent if stmt.kind == "unroll" else -(-extent // lanes)
            return times * _written_out(stmt.body, lanes)
        case Store() | Update():
            return 1
        case _:
            return sum(_written_out(child, lanes) for child in stmt_children(stmt))
