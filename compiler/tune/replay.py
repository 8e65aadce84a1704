"""Do plans still hold? Records that an older compiler made, replayed by the one that is here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from compiler.plans import PlanRefused, Task
from compiler.tune.record import Record, versions
from compiler.tune.records import Records
from compiler.tune.space import CountsCycles, Tunable

SEED = 0

Replays = Callable[[Task, str], str | None]
"""Gives the reason why a plan of the task is refused, or None."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A plan that was replayed, with its best record, and the reason against it, if any."""

    record: Record
    reason: str | None


def replays(target: Tunable | CountsCycles, device: object = None) -> Replays:
    """Replays plans by the checks of a target: it makes the task from its body, which must give the
    same task, and the code of the plan, on a device if the target needs one.
    """
    def reason(task: Task, plan: str) -> str | None:
        try:
            if isinstance(target, CountsCycles):
                target.cycles(task, plan, SEED)
                return None
            again = target.space(task).task
            if (again.fingerprint, again.digest) != (task.fingerprint, task.digest):
                return "its body makes another task"
            target.measurable(task, plan, SEED, device)
        except PlanRefused as error:
            return str(error)
        return None
    return reason


def check(records: Records, fingerprint: str, replays: Replays, best: bool = False,
          ours: str | None = None) -> Iterator[Replayed]:
    """Replays the plans that were measured on the target with this fingerprint, and notes by which
    versions of ours, `ours`, they hold or are refused. Refused ones are no longer used. Tasks
    without a body are left out: nothing makes them again.

    With `best` the plans of a task are replayed only until one holds: it is the best then.
    """
    ours = versions() if ours is None else ours
    for task in {(task.fingerprint, task.digest): task for task in records.tasks()
                 if task.fingerprint == fingerprint and task.body}.values():
        for record in _ranked(records, task) if best else _each_plan(records.of(task)):
            reason = replays(task, record.plan)
            records.note(task, record.plan, ours, "" if reason is None else reason or "refused")
            yield Replayed(record, reason)
            if best and reason is None:
                break


def _ranked(records: Records, task: Task) -> Iterator[Record]:
    """The best plan, and the best of the others once it is refused."""
    while (record := records.best(task)) is not None:
        yield record


def _each_plan(records: list[Record]) -> Iterator[Record]:
    """A record for each plan with a value."""
    yield from {record.plan: record for record in records if not record.result.error}.values()
