"""The choices for a task, as points, and the plans that these lead to.

A point is a mapping from names of decisions to options, as texts. Whatever it does not name is the
best by estimate, so the empty point is what the target chooses itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol, runtime_checkable

from numpy.random import Generator

from compiler.plans import PlanRefused, Task
from compiler.tune.chooser import Decision

Point = Mapping[str, str]


class PointRefused(PlanRefused):
    """A point that is not legal, with the `decisions` that were asked until that was seen."""

    def __init__(self, reason: str, decisions: "tuple[Decision, ...]" = ()):
        super().__init__(reason)
        self.decisions = decisions


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point, and the plan that it leads to.

    Parameters
    ----------
    decisions : all that was asked on the way, with the answers.
    plan : as text.
    features : numbers that say what the plan does, for a model; the same ones for each plan of a
        kind of target.
    """

    decisions: tuple[Decision, ...]
    plan: str
    features: tuple[float, ...] = ()

    @property
    def point(self) -> dict[str, str]:
        return {decision.name: decision.answer for decision in self.decisions}

    @property
    def estimate(self) -> float:
        """Its estimated time over the least estimate: from 1 up."""
        return prod(decision.excess for decision in self.decisions)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a plan's measurement: a `value` in a `unit`, "s" or "cycles", or an error.

    Parameters
    ----------
    value : None where there is an error.
    error : why there is no value, in a sentence.
    details : whatever else was measured, as text (JSON); plans of tasks have none.
    """

    value: float | None
    unit: str
    error: str = ""
    details: str = ""


class Space(Protocol):
    """All plans of one task that a template can make."""

    @property
    def task(self) -> Task: ...

    def candidate(self, point: Point, random: Generator | None = None) -> Candidate:
        """The plan of a point; with `random` what it does not name is decided at random.
        Raises `compiler.plans.PlanRefused` for a point that is not legal, `PointRefused` where it
        can say what was asked.
        """
        ...


@runtime_checkable
class Tunable(Protocol):
    """A target of which plans are searched."""

    def space(self, task: Task) -> Space:
        """The space of a task that this target, or one like it elsewhere, has named. Raises
        PlanRefused for a task whose body is none of this target.
        """
        ...

    def decides_tasks(self, task: Task) -> bool:
        """True if the plan of this task decides which other tasks there are."""
        ...

    def measurable(self, task: Task, plan: str, seed: int, device: object = None
                   ) -> Callable[[], object]:
        """The thing to be timed: the plan as code, with seeded random data at hand, on a device if
        the target needs one. Raises PlanRefused for a plan that is not legal.
        """
        ...


@runtime_checkable
class CountsCycles(Protocol):
    """A target of which plans are searched, and which counts exact cycles instead of time."""

    def cycles(self, task: Task, plan: str, seed: int) -> int:
        """The cycles of the plan on seeded random data. Raises PlanRefused for one that is not
        legal, and for a body that makes another task.
        """
        ...


def neighbours(candidate: Candidate) -> list[dict[str, str]]:
    """All points that differ from the candidate's in one decision. Decisions before it stay; those
    after it stay where they still can.
    """
    own = candidate.point
    return [own | {decision.name: option} for decision in candidate.decisions
            for place, option in enumerate(decision.options) if place != decision.taken]


def every_point(asked: Callable[[Point], Sequence[Decision]]) -> Iterator[dict[str, str]]:
    """All points, each once, in the order of the options. `asked` gives the decisions that follow
    from a point.

    >>> from compiler.tune.chooser import PointChooser
    >>> def asked(point):
    ...     chooser = PointChooser(point)
    ...     if chooser.one_of("a", (1, 2)) == 2:
    ...         chooser.one_of("b", (3, 4))
    ...     return chooser.decisions
    >>> [*every_point(asked)]
    [{'a': '1'}, {'a': '2', 'b': '3'}, {'a': '2', 'b': '4'}]
    """
    fixed: list[tuple[Decision, int]] = []      # the decisions so far, with the place of the option

    def point() -> dict[str, str]:
        return {decision.name: decision.options[place] for decision, place in fixed}

    while True:
        while len(fixed) < len(decisions := asked(point())):
            fixed.append((decisions[len(fixed)], 0))
        yield point()
        while fixed and fixed[-1][1] + 1 == len(fixed[-1][0].options):
            fixed.pop()
        if not fixed:
            return
        last, place = fixed.pop()
        fixed.append((last, place + 1))
