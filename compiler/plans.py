"""The sources of schedules: a target's own choice, a table in a file, or what records them.

For each thing that it schedules a target asks its `Plans` for a plan. A plan is text: on the CPU
the steps of a schedule, as `compiler.schedule.Schedule.text` gives them; on the accelerator the
tiles of a layer (`accel.mapping.plans.text`). It is replayed through the same checks as the
target's own choice, never trusted: one that is not legal is refused.

>>> from compiler.plans import Table, Task
>>> table = Table({"0f": "split(y_i, 4)"})
>>> table.find(Task("a processor", "0f", "relu of float32[16]"), lambda: "")
'split(y_i, 4)'
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from compiler.errors import Error
from compiler.files import write_text
from compiler.native import digest

_log = logging.getLogger(__name__)


class PlanRefused(Error, ValueError):
    """A plan that the program or the machine does not allow, or a text that is no plan."""


@dataclass(frozen=True, slots=True)
class Task:
    """Something that a target schedules.

    Parameters
    ----------
    fingerprint : the target's.
    digest : hash of the operator, or the group of them, and its shapes and types.
    title : for people.
    body : the same as text, from which a target of this kind makes it again, wherever it is; ""
        where no search is possible.
    """

    fingerprint: str
    digest: str
    title: str
    body: str = ""


Choice = Callable[[], str]
"""Gives the text of what the target would choose itself; "" where that is no plan of its own."""


class Plans(Protocol):
    @property
    def fingerprint(self) -> str:
        """A hash of all plans; "" where there are none but the targets' own."""
        ...

    def find(self, task: Task, own: Choice) -> str | None:
        """The plan of the task; None for the target's own."""
        ...

    def binds(self, task: Task) -> bool:
        """True if the plan of the task was asked for. Then no search looks for a better one, and it
        is an error if it is refused.
        """
        ...

    def of_target(self, fingerprint: str) -> "Plans":
        """The plans that tasks of this target can have."""
        ...


Made = TypeVar("Made")


def replayed(plans: Plans, task: Task, own: Choice, make: Callable[[str | None], Made]) -> Made:
    """The result of `make` for the plan of the plan of a task, or of None where the target chooses
    itself. It does so too where a plan is refused that does not bind. Raises PlanRefused for one
    that does.
    """
    plan = plans.find(task, own)
    try:
        return make(plan)
    except PlanRefused as error:
        if plan is None or plans.binds(task):
            raise
        _log.warning("A plan for %s does not hold, and the target chooses itself: %s", task.title,
                     str(error).partition("\n")[0])
        return make(None)


@runtime_checkable
class Learns(Plans, Protocol):
    """Plans that are told what a target finds, where it searches as it compiles."""

    def learned(self, task: Task, plan: str, cycles: int) -> None:
        """Takes a plan that was measured."""
        ...

    def is_over(self) -> bool:
        """True if the search is to end with what it has found."""
        ...


@runtime_checkable
class MeasuresPlans(Learns, Protocol):
    """Plans that measure others, too, where a target searches as it compiles."""

    def measured(self, task: Task, plans: Sequence[str]) -> Sequence[int | None]:
        """The cycles of plans of a task, in their order; None for one that could not be measured.
        There are fewer where the search is to end.
        """
        ...


@dataclass(frozen=True, slots=True)
class Own:
    """Every target chooses itself."""

    fingerprint: str = ""

    def find(self, task: Task, own: Choice) -> str | None:
        return None

    def binds(self, task: Task) -> bool:
        return False

    def of_target(self, fingerprint: str) -> Plans:
        return self


OWN = Own()


@dataclass(frozen=True)
class Table:
    """Plans by the digest of the task; for others the target chooses. They may come from another
    target of the kind: `fingerprint` is not compared.
    """

    plans: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        return digest([json.dumps(dict(self.plans), sort_keys=True)])

    def find(self, task: Task, own: Choice) -> str | None:
        return self.plans.get(task.digest)

    def binds(self, task: Task) -> bool:
        return task.digest in self.plans

    def of_target(self, fingerprint: str) -> Plans:
        return self

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "Table":
        """Reads what `Recorder.write` wrote. Raises PlanRefused for any other file."""
        try:
            entries = json.loads(Path(path).read_text(encoding="utf-8"))
            plans = {digest: entries[digest]["plan"] for digest in entries}
            if not all(isinstance(plan, str) for plan in plans.values()):
                raise TypeError
        except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or "it has another form"
            raise PlanRefused(f"{str(path)!r} must be a file of plans: {reason}") from None
        return cls(plans)


@dataclass
class Recorder:
    """Keeps the plan of every task: those of `plans`, and what targets choose for the others; and
    `counts` how often each was asked for.
    """

    plans: Plans = OWN
    recorded: dict[Task, str] = field(default_factory=dict)
    counts: Counter[Task] = field(default_factory=Counter)

    @property
    def fingerprint(self) -> str:
        return self.plans.fingerprint

    def find(self, task: Task, own: Choice) -> str | None:
        plan = self.plans.find(task, own)
        text = own() if plan is None else plan
        if text or plan is not None:            # a plan of nothing is one, too
            self.recorded[task] = text
            self.counts[task] += 1
        return plan

    def binds(self, task: Task) -> bool:
        return self.plans.binds(task)

    def of_target(self, fingerprint: str) -> Plans:
        return self

    def write(self, path: str | PathLike[str]) -> None:
        """As JSON: for each digest the task's `fingerprint` and `title`, and its `plan`."""
        write_text(Path(path), json.dumps(
            {task.digest: {"title": task.title, "fingerprint": task.fingerprint, "plan": plan}
             for task, plan in self.recorded.items()}, indent=1) + "\n")
