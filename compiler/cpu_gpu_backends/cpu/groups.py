"""Programs of groups for this processor: scheduled, and where what they need meanwhile lies."""

from dataclasses import replace

from compiler.cpu_gpu_backends.cpu.schedules.roundings import in_floats, in_words
from compiler.cpu_gpu_backends.cpu.schedules.schedule import own_schedule, schedule
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.groups import Recipe, unscheduled
from compiler.ir import Alloc, For, Program, Seq, Stmt, rewrite_stmts, walk_stmts
from compiler.plans import PlanRefused


def group_program(recipe: Recipe, vectors: Vectors, plan: str | None = None) -> Program:
    """The program, scheduled by the plan or by our own choice. Its arrays may be those of the group
    in other shapes, as in `unscheduled`; its outputs are the result and then what it needs memory
    for meanwhile. Raises PlanRefused for a plan that the program does not allow.
    """
    try:
        return with_workspaces(schedule(to_schedule(recipe, vectors), vectors, plan),
                               vectors.stacked)
    except ValueError as error:
        if plan is None:
            raise
        raise PlanRefused(f"Plan of {recipe.name}: {error}") from None


def own_plan(recipe: Recipe, vectors: Vectors) -> str:
    """The plan that says our own choice."""
    return own_schedule(to_schedule(recipe, vectors), vectors).text()


def to_schedule(recipe: Recipe, vectors: Vectors) -> Program:
    """The program that plans schedule, for a processor."""
    floats = ("float32",) * vectors.singles + ("float64",) * vectors.doubles
    program = in_floats(unscheduled(recipe), floats)
    return program if vectors.doubles else in_words(program)


def with_workspaces(program: Program, small: int) -> Program:
    """Makes local buffers of more bytes than are `small` outputs, so that the caller says where
    they are and may use one place for many; not those that every thread has for itself.
    """
    own = {one.buffer for loop in walk_stmts(program.body) if isinstance(loop, For)
           and loop.kind == "parallel" for one in walk_stmts(loop) if isinstance(one, Alloc)}
    large = [s.buffer for s in walk_stmts(program.body)
             if isinstance(s, Alloc) and s.buffer.size_bytes > small
             and s.buffer not in own]

    def without(stmt: Stmt) -> Stmt | None:
        match stmt:
            case Alloc(buffer, body) if buffer in large:
                return body
            case Seq(parts) if any(isinstance(part, Seq) for part in parts):
                return Seq(tuple(one for part in parts
                                 for one in (part.stmts if isinstance(part, Seq) else (part,))))
        return None

    return replace(program, outputs=(*program.outputs, *large),
                   body=rewrite_stmts(program.body, without))
