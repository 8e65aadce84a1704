"""The search for the plans of a network, with targets whose best plans are known."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from numpy.random import Generator

from compiler.plans import OWN, PlanRefused, Plans, Recorder, Task
from compiler.tune.chooser import PointChooser
from compiler.tune.explorer import Guided, Limits
from compiler.tune.records import Records
from compiler.tune.space import Candidate, Point, Result
from runtime.tuning.trials import Trial
from runtime.tuning.tuning import Searched, Tuning, _SharedModel, tasks_of

SIZES, ORDERS = tuple(range(1, 17)), ("rows", "columns", "blocks")


def task_of(name: str) -> Task:
    return Task("a processor", name, f"task {name}", name)


@dataclass(frozen=True)
class SizedSpace:
    """Sizes and orders; the target would take size 1, in rows."""

    task: Task

    def candidate(self, point: Point, random: Generator | None = None) -> Candidate:
        chooser = PointChooser(point, random)
        if self.task.body == "way":
            way = chooser.one_of("way", ("plain", "clever"))
            return Candidate(tuple(chooser.decisions), way)
        size = chooser.one_of("size", SIZES)
        order = chooser.one_of("order", ORDERS)
        if order == "blocks" and size % 2:
            raise PlanRefused("blocks must have even sizes")
        best_order, best = BEST[self.task.body]
        return Candidate(tuple(chooser.decisions), f"{order} {size}",
                         (float(abs(size - best)), float(order != best_order)))


@dataclass
class Network:
    """Two tasks where products are plain, a third one where they are clever."""

    decided: list[str] = field(default_factory=list)

    def __call__(self, plans: Plans) -> None:
        way = plans.find(task_of("way"), lambda: "plain") or "plain"
        self.decided.append(way)
        for name in ("a", "b", "b", *(["c"] if way == "clever" else [])):
            plans.find(task_of(name), lambda: "rows 1")

    def space(self, task: Task) -> SizedSpace:
        return SizedSpace(task)

    def decides_tasks(self, task: Task) -> bool:
        return task.body == "way"

    def measurable(self, task: Task, plan: str, seed: int, device: object = None
                   ) -> Callable[[], object]:
        raise AssertionError("trials are run by the test")


BEST = {"a": ("rows", 11), "b": ("columns", 4), "c": ("blocks", 16)}


def result(trial: Trial) -> Result:
    """Seconds: the nearer to the best one, the less; a size of 3 fails."""
    if trial.task.body == "way":
        return Result({"plain": 5e-3, "clever": 3e-3}[trial.plan], "s")
    order, size = trial.plan.split()
    if size == "3":
        return Result(None, "s", "it crashed")
    best_order, best = BEST[trial.task.body]
    return Result(1e-3 * (1 + abs(int(size) - best) + 4 * (order != best_order)), "s")


@dataclass
class Bench:
    """Runs trials, some at a time; is interrupted after so many."""

    at_once: int = 1
    most: int | None = None
    measured: list[Trial] = field(default_factory=list)
    answer: Callable[[Trial], Result] = result

    def __call__(self, trials: Iterator[Trial]) -> Iterable[tuple[Trial, Result]]:
        under_way: list[Trial] = []
        while True:
            while len(under_way) < self.at_once and (trial := next(trials, None)):
                under_way.append(trial)
            if not under_way:
                return
            if self.most is not None and len(self.measured) >= self.most:
                raise KeyboardInterrupt
            trial = under_way.pop(0)
            self.measured.append(trial)
            yield trial, self.answer(trial)


def search(path: Path, bench: Bench, limits: Limits | None = None, seed: int = 0,
           network: Network | None = None) -> Tuning:
    network, limits = network or Network(), limits or Limits(200, None, 64)
    with Records(path) as records:
        tuning = Tuning(network, {"a processor": Searched("cpu", network)}, records, "here", limits,
                        seed=seed)
        tuning.run(bench)
        return tuning


def plans(tuning: Tuning) -> dict[str, str]:
    return {one.task.digest: one.best for one in tuning.tasks.values()}


def test_tasks_are_counted() -> None:
    assert {one.digest: count for one, count in tasks_of(Network(), OWN).items()} == {
        "way": 1, "a": 1, "b": 2}
    recorder = Recorder()
    recorder.find(Task("f", "d", "no body"), lambda: "x")
    assert tasks_of(lambda plans: plans.find(Task("f", "d", "no body"), lambda: "x")) == {}


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_best_plans_are_found_and_kept(tmp_path: Path, at_once: int) -> None:
    network = Network()
    tuning = search(tmp_path / "r.db", bench := Bench(at_once), network=network)
    assert plans(tuning) == {"way": "clever", **{
        name: f"{order} {size}" for name, (order, size) in BEST.items()}}
    assert network.decided[-1] == "clever"              # and so there was a task c
    with Records(tmp_path / "r.db") as records:
        found = records.plans()
        assert {name: found.find(task_of(name), lambda: "")
                for name in plans(tuning)} == plans(tuning)
        assert len([*records]) == len(bench.measured)
    assert sum(one.errors for one in tuning.tasks.values()) == sum(
        trial.plan.endswith(" 3") for trial in bench.measured)


def test_a_search_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    whole = Bench()
    undisturbed = search(tmp_path / "whole.db", whole)
    benches = [Bench(most=count) for count in (1, 9, 25, 40)]
    for bench in benches:
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path / "r.db", bench)
    rest = Bench()
    assert plans(search(tmp_path / "r.db", rest)) == plans(undisturbed)
    ids = [trial.id for bench in (*benches, rest) for trial in bench.measured]
    assert len(ids) == len(set(ids))
    assert sorted(ids) == sorted(trial.id for trial in whole.measured)


def test_nothing_is_measured_again(tmp_path: Path) -> None:
    first = plans(search(tmp_path / "r.db", Bench()))
    again = Bench()
    assert plans(search(tmp_path / "r.db", again)) == first
    assert again.measured == []


def test_the_limits_is_kept_and_shared(tmp_path: Path) -> None:
    tuning = search(tmp_path / "r.db", bench := Bench(), Limits(trials=40))
    assert tuning.done == 40
    explored = [trial for trial in bench.measured if " " not in trial.id]
    assert len(explored) == 40
    trials = {one.task.digest: one.trials for one in tuning.tasks.values()}
    assert min(trials["a"], trials["b"], trials["c"]) >= 8


def test_tasks_learn_from_each_other(tmp_path: Path) -> None:
    """Before a task's own trials, by those of the others: what is near the best is promising."""
    tuning = search(tmp_path / "r.db", Bench())
    space = SizedSpace(task_of("c"))
    near, far = (space.candidate({"order": "blocks", "size": size}) for size in ("16", "2"))
    scores = _SharedModel(tuning, task_of("c")).learned(())
    assert scores is not None
    better, worse = scores([near, far])
    assert better > worse
    for one in tuning.tasks.values():
        strategy = one.explorer._strategy
        assert isinstance(strategy, Guided) and isinstance(strategy.model, _SharedModel)
    del tuning.tasks[task_of("a")], tuning.tasks[task_of("b")]
    assert _SharedModel(tuning, task_of("c")).learned(()) is None


def test_a_task_without_gain_ends(tmp_path: Path) -> None:
    tuning = search(tmp_path / "r.db", Bench(), Limits(None, None, patience=5))
    assert all(one.fruitless <= 5 for one in tuning.tasks.values())
    assert sum(one.trials for one in tuning.tasks.values()) < 60


def test_no_plan_wins_by_noise(tmp_path: Path) -> None:
    """One measurement of each plan is a lucky one: its first, but not that of the target's own."""
    seen: set[tuple[str, str]] = set()

    def noisy(trial: Trial) -> Result:
        if trial.task.body == "way":
            return Result({"plain": 1.0, "clever": 2.0}[trial.plan], "s")
        key = trial.task.body, trial.plan
        lucky = key not in seen and trial.plan != "rows 1"
        seen.add(key)
        return Result(0.5 if lucky else 1.0 if trial.plan == "rows 1" else 1.1, "s")

    tuning = search(tmp_path / "r.db", bench := Bench(answer=noisy), Limits(60, None, 8))
    assert plans(tuning) == {"way": "plain", "a": "rows 1", "b": "rows 1"}
    assert any(trial.id.endswith(" 3") for trial in bench.measured)
