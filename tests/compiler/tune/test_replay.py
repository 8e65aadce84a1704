"""Records of an older compiler, replayed: what holds stays, what is refused is not used."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compiler.plans import PlanRefused, Task
from compiler.tune.record import as_json, from_json
from compiler.tune.records import Records
from compiler.tune.replay import check, replays
from compiler.tune.space import Space, Tunable
from tests.support.records import ELSEWHERE, RELU, TANH, record

LEGAL = {"relu float32 16": ("d1d1", ("split(y_i, 4)", "split(y_i, 8)", "unroll(y_i)")),
         "tanh float32 16": ("d2d2", ("split(y_i, 2)",))}


@dataclass(frozen=True)
class Remade:
    """A space of which a task alone is asked."""

    task: Task

    def candidate(self, point, random=None):
        raise NotImplementedError


class Fake:
    """A target with two tasks, whose bodies are keys of `LEGAL`."""

    fingerprint = "f0f0"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.devices: list[object] = []

    def space(self, task: Task) -> Space:
        if task.body not in LEGAL:
            raise PlanRefused(f"Body of a task must be of this target, not {task.body!r}")
        return Remade(Task(self.fingerprint, LEGAL[task.body][0], task.body, task.body))

    def decides_tasks(self, task: Task) -> bool:
        return False

    def measurable(self, task: Task, plan: str, seed: int, device: object = None
                   ) -> Callable[[], object]:
        self.asked.append(plan)
        self.devices.append(device)
        if plan not in LEGAL[task.body][1]:
            raise PlanRefused(f"Plan must be legal, not {plan!r}")
        return lambda: None


@pytest.fixture
def records(tmp_path: Path):
    with Records(tmp_path / "r") as records:
        yield records


def checked(records: Records, best: bool = False, target: Tunable | None = None) -> list:
    target = target or Fake()
    return [(entry.record.plan, entry.reason) for entry in check(
        records, Fake.fingerprint, replays(target), best, "compiler 2")]


def test_plans_that_hold_are_noted_with_the_new_version(records: Records) -> None:
    records.add_all([record(), record(TANH, "split(y_i, 2)")])
    assert checked(records) == [("split(y_i, 4)", None), ("split(y_i, 2)", None)]
    assert records.noted(RELU, "split(y_i, 4)") == ("compiler 2", "")
    assert records.best(RELU) == record()


def test_a_plan_that_is_refused_is_not_used(records: Records) -> None:
    records.add_all([record(plan="split(y_i, 3)", value=1.0), record(value=2.0)])
    reason = "Plan must be legal, not 'split(y_i, 3)'"
    assert sorted(checked(records)) == [("split(y_i, 3)", reason), ("split(y_i, 4)", None)]
    assert records.noted(RELU, "split(y_i, 3)") == ("compiler 2", reason)
    assert records.best(RELU) == record(value=2.0)
    assert records.plans().find(RELU, str) == "split(y_i, 4)"


def test_what_holds_again_is_used_again(records: Records) -> None:
    records.add(record())
    records.note(RELU, "split(y_i, 4)", "compiler 1.5", "it was not legal then")
    assert records.best(RELU) is None
    assert checked(records) == [("split(y_i, 4)", None)] and records.best(RELU) == record()


def test_a_plan_is_replayed_once_and_failed_trials_are_not(records: Records) -> None:
    records.add_all([record(), record(trial="1"), record(plan="split(y_i, 8)"),
                     record(plan="split(y_i, 3)", value=None)])
    fake = Fake()
    assert len(checked(records, target=fake)) == 2
    assert sorted(fake.asked) == ["split(y_i, 4)", "split(y_i, 8)"]


def test_the_best_are_replayed_until_one_holds(records: Records) -> None:
    records.add_all(record(plan=plan, value=value) for plan, value in (
        ("split(y_i, 3)", 1.0), ("split(y_i, 5)", 2.0), ("unroll(y_i)", 3.0), ("", 4.0)))
    assert [plan for plan, _ in checked(records, best=True)] == [
        "split(y_i, 3)", "split(y_i, 5)", "unroll(y_i)"]
    best = records.best(RELU)
    assert best and best.plan == "unroll(y_i)" and records.noted(RELU, "") is None


def test_records_of_other_targets_are_neither_used_nor_replayed(records: Records) -> None:
    records.add(record(ELSEWHERE))
    assert checked(records) == [] and records.best(RELU) is None
    assert records.plans().find(RELU, str) is None


@pytest.mark.parametrize(("change", "reason"), [
    ({"plan": "split(y_i, 2)"}, "Plan must be legal, not 'split(y_i, 2)'"),     # tanh's
    ({"plan": "rm -r"}, "Plan must be legal, not 'rm -r'"),
    ({"body": "tanh float32 16"}, "its body makes another task"),
    ({"digest": "d2d2"}, "its body makes another task"),
    ({"body": "relu of a GPU"}, "Body of a task must be of this target, not 'relu of a GPU'")])
def test_an_altered_record_is_refused(records: Records, change: dict[str, Any], reason: str
                                      ) -> None:
    records.add(altered := from_json(as_json(record()) | change))
    assert checked(records) == [(altered.plan, reason)]
    assert records.every_best() == []


def test_a_record_of_another_machine_is_refused_where_it_claims_to_be_of_this_one(
        records: Records) -> None:
    records.add(record(plan="of 512 bits"))
    assert checked(records) == [("of 512 bits", "Plan must be legal, not 'of 512 bits'")]


def test_a_task_of_another_target_is_refused() -> None:
    """Though its digest is the same; its plan is not asked for."""
    fake = Fake()
    fake.fingerprint = ELSEWHERE.fingerprint
    assert replays(fake)(RELU, "split(y_i, 4)") == "its body makes another task"
    assert fake.asked == [] and replays(fake)(ELSEWHERE, "split(y_i, 4)") is None


def test_plans_are_replayed_on_the_device() -> None:
    fake = Fake()
    assert replays(fake, "a card")(RELU, "split(y_i, 4)") is None
    assert fake.devices == ["a card"]


def test_a_refusal_without_words_is_one(records: Records) -> None:
    records.add(record())
    assert [entry.reason for entry in check(records, "f0f0", lambda task, plan: "")] == [""]
    assert records.best(RELU) is None


def test_what_is_noted_before_an_end_stays(records: Records) -> None:
    records.add_all([record(plan="split(y_i, 3)"), record(TANH, "split(y_i, 2)")])
    next(check(records, "f0f0", replays(Fake())))
    assert records.best(RELU) is None
