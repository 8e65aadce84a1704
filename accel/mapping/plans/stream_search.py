"""The search for the plans of a stream, and streams that a process which measures reads from text.

The search keeps what it finds. Its candidates may be measured by other processes: each reads the
stream from the body of its task, and compiles it as the target does.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.mapping.lowering import LoweringError
from accel.mapping.plans.choices import Choices, Group, groups_text
from accel.mapping.plans.search import Search
from accel.mapping.plans.streams import PartPlan, part_of, stream_body, stream_graph
from accel.mapping.plans.text import stream_task
from accel.proof.legal import prove
from compiler.graph.graph import Graph
from compiler.plans import Learns, MeasuresPlans, PlanRefused, Task


class CompilesStreams(Protocol):
    """The target, as far as streams need it."""

    @property
    def machine(self) -> Machine: ...

    @property
    def threads(self) -> int: ...

    def parts(self, graph: Graph, plan: str | None = None
              ) -> tuple[list[Group], Callable[[Sequence[Group]], AccelProgram]]: ...


class ReadStream:
    """A stream from the body of its task. Raises PlanRefused for a body that makes another task."""

    def __init__(self, target: CompilesStreams, body: str, digest: str):
        self.target, self.graph = target, stream_graph(body)
        self._choices = Choices(target.machine, target.threads)
        try:
            groups, _ = target.parts(self.graph)
        except LoweringError as error:
            raise PlanRefused(f"Task must be a stream that the machine can have: {error}") from None
        self._layers = [part.layer for group in groups for part in group]
        self.task = replace(stream_task(target.machine, self._layers, target.threads), body=body)
        if self.task.digest != digest:
            raise PlanRefused("Task must be that of its body, by this machine with this memory")
        self._last: tuple[str, tuple[list[Group], Callable[[Sequence[Group]], AccelProgram]]] | None
        self._last = None

    def program(self, plan: str) -> AccelProgram:
        """The program of a plan; that of all layers is proved. Raises PlanRefused."""
        part = part_of(plan)
        try:
            groups, assembled = self._parts(part.whole if part else plan)
            program = assembled(groups if part is None else self._choices.groups_of(
                part.tiles, self._layers[part.first:part.first + part.length]))
        except LoweringError as error:
            raise PlanRefused(f"Plan of a stream: {error}") from None
        if part is None:
            prove(self.target.machine, program)
        return program

    def _parts(self, plan: str) -> tuple[list[Group], Callable[[Sequence[Group]], AccelProgram]]:
        """The groups of a plan, and the function that assembles them.

        Those of the last plan are kept: ways of many layers come with one plan of the whole.
        """
        if self._last is None or self._last[0] != plan:
            self._last = plan, self.target.parts(self.graph, plan)
        return self._last[1]


@lru_cache(2)
def read_stream(target: CompilesStreams, body: str, digest: str) -> ReadStream:
    return ReadStream(target, body, digest)


def improved(search: Search, groups: Sequence[Group], task: Task, graph: Graph,
             target: CompilesStreams, plans: Learns) -> list[Group]:
    """The groups after a search.

    Plans record what it finds, and measure ways if they can: ways and result are the same then.
    """
    names = [part.layer.name for group in groups for part in group]
    whole, task = groups_text(groups), _with_body(task, graph, target)

    def measured(ways: Sequence[Sequence[Group]]) -> Iterable[int | None]:
        assert isinstance(plans, MeasuresPlans)
        return plans.measured(task, [PartPlan(names.index(way[0][0].layer.name), groups_text(way),
                                              whole).text for way in ways])

    if isinstance(plans, MeasuresPlans) and task.body:
        search.measure = measured
    search.over = plans.is_over
    return search.improved(groups, lambda some, cycles: plans.learned(task, groups_text(some),
                                                                      cycles))


def _with_body(task: Task, graph: Graph, target: CompilesStreams) -> Task:
    """The task with its body; with none where another task would follow from it."""
    try:
        return read_stream(target, stream_body(graph), task.digest).task
    except PlanRefused:
        return task
