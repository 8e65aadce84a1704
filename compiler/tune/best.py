"""The best plans that are known, as targets ask for them.

`PACKAGED` are plans that come with Lockstep, in ``plans.jsonl`` beside this file. It is made from a
database by ``lockstep records export --best -o FILE``. They are streams of accelerators, whose
cycles are the same on every computer; what takes least time on a processor depends on which it is.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from compiler.native import digest
from compiler.plans import OWN, Choice, Plans, Task
from compiler.tune.record import Record, read_lines

PACKAGED = Path(__file__).with_name("plans.jsonl")


@dataclass(frozen=True)
class BestPlans:
    """Plans by the target's fingerprint and the task's digest. Other targets have no part in them.
    """

    plans: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Self:
        """The plans of these records, one for each task."""
        return cls({(record.task.fingerprint, record.task.digest): record.plan
                    for record in records})

    @property
    def fingerprint(self) -> str:
        if not self.plans:
            return ""
        return digest([json.dumps(sorted([*task, plan] for task, plan in self.plans.items()))])

    def find(self, task: Task, own: Choice) -> str | None:
        return self.plans.get((task.fingerprint, task.digest))

    def binds(self, task: Task) -> bool:
        return (task.fingerprint, task.digest) in self.plans

    def of_target(self, fingerprint: str) -> Plans:
        some = {key: plan for key, plan in self.plans.items() if key[0] == fingerprint}
        return type(self)(some) if some else OWN


class PackagedPlans(BestPlans):
    """Plans that nobody asked for: a target does without one that it refuses, and a search that is
    asked for begins with them.
    """

    def binds(self, task: Task) -> bool:
        return False


@dataclass(frozen=True)
class PlansInTurn:
    """The first that has a plan of the task gives it: see `in_turn`."""

    parts: tuple[Plans, ...]

    @property
    def fingerprint(self) -> str:
        return digest([part.fingerprint for part in self.parts])

    def find(self, task: Task, own: Choice) -> str | None:
        found = (part.find(task, own) for part in self.parts)
        return next((plan for plan in found if plan is not None), None)

    def binds(self, task: Task) -> bool:
        having = (part for part in self.parts if part.find(task, lambda: "") is not None)
        return next((part.binds(task) for part in having), False)

    def of_target(self, fingerprint: str) -> Plans:
        return in_turn(*(part.of_target(fingerprint) for part in self.parts))


def in_turn(*parts: Plans) -> Plans:
    """The first that has a plan of the task gives it; where none has, the target chooses.

    A user's table first, then a database, then what is packaged:
    ``in_turn(Table.read(FILE), records.plans(), packaged())``. Parts without plans are left out, so
    that where there are no plans at all the targets know it: then these are `OWN`.
    """
    some = tuple(part for part in parts if part.fingerprint)
    if len(some) > 1:
        return PlansInTurn(some)
    return some[0] if some else OWN


@cache
def packaged() -> PackagedPlans:
    """The plans that come with Lockstep."""
    return PackagedPlans.of(read_lines(PACKAGED))
