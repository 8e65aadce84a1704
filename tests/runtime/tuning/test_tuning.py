"""The search for the plans of a network, with targets whose best plans are known."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from numpy.random import Generator

from compiler.plans import OWN, PlanRefused, Plans, Recorder, Task
from compiler.tune.chooser import PointChooser
from compiler.tune.explorer import Guided, Limits
from compiler.tune.record import Record
from compiler.tune.records import Records
from compiler.tune.space import Candidate, Point, Result
from runtime.tuning import tuning as module
from runtime.tuning.trials import Trial
from runtime.tuning.tuning import Searched, Tuning, _Proposals, _SharedModel, tasks_of

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
           network: Network | None = None, watch: Callable[[Tuning], None] = lambda tuning: None
           ) -> Tuning:
    network, limits = network or Network(), limits or Limits(200, None, 64)
    with Records(path) as records:
        tuning = Tuning(network, {"a processor": Searched("cpu", network)}, records, "here", limits,
                        seed=seed, watch=watch)
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


def test_results_of_earlier_searches_come_in_the_order_of_measurements(tmp_path: Path) -> None:
    """Explorers learn the first one: by the times, then by the numbers of measurements. Keys of
    records are hashes, so they follow neither.
    """
    def measured(plan: str, number: int, value: float, second: int) -> Record:
        return Record(task_of("a"), plan, Result(value, "s"), "here", 0,
                      f"seed 0, measurement {number}", "these", f"2026-03-01T12:00:{second:02}Z")

    first, later, plans = [], [], [f"rows {size}" for size in (1, 2, 4, 5, 6)]
    for number, plan in enumerate(plans):
        first.append(measured(plan, 1, 1 + number, 7))
        later += [measured(plan, 2, 10.0, 7), measured(plan, 0, 20.0, 8)]
    assert any(one.key > two.key for one, two in zip(first, later[::2], strict=True))
    with Records(tmp_path / "r.db") as records:
        records.add_all([*later, *first])
    tuning = search(tmp_path / "r.db", Bench())
    (task,) = (one for one in tuning.tasks.values() if one.task == task_of("a"))
    told = {candidate.plan: result.value for candidate, result in task.explorer.trials}
    assert [told[plan] for plan in plans] == [1, 2, 3, 4, 5]
    assert [one.value for one in task.results["rows 4"][:3]] == [3, 10, 20]


class Rows(Network):
    """Two tasks, the second one there twice."""

    def __call__(self, plans: Plans) -> None:
        for name in ("a", "b", "b"):
            plans.find(task_of(name), lambda: "rows 1")


@contextmanager
def proposals(path: Path, limits: Limits, *names: str) -> Iterator[_Proposals]:
    """The trials of some tasks, to be told by the test."""
    with Records(path) as records:
        tuning = Tuning(Rows(), {"a processor": Searched("cpu", Rows())}, records, "here", limits)
        tuning._add_tasks(False)
        yield _Proposals(tuning, [tuning.tasks[task_of(name)] for name in names])


def test_trials_go_where_most_time_is_expected(tmp_path: Path) -> None:
    """That of a task which is there twice counts twice; trials under way count as fruitless ones.
    Tasks without a trial take turns.
    """
    def shares(first: float | None) -> list[int]:
        def answer(trial: Trial) -> Result:
            value = first if trial.task.body == "a" else 1e-3
            return Result(value, "s", "it crashed" if value is None else "")

        tuning = search(tmp_path / f"{first}.db", Bench(answer=answer), Limits(30), network=Rows())
        return [one.trials for one in tuning.tasks.values()]

    assert [shares(first) for first in (1e-3, 4e-3, None)] == [[10, 20], [20, 10], [1, 29]]
    with proposals(tmp_path / "s.db", Limits(), "a", "b") as trials:
        begun = [next(trials), next(trials)]
        assert [trial.task.digest for trial in begun] == ["a", "b"]
        for trial in begun:
            trials.told(trial, Result(1e-3, "s"))
        assert [next(trials).task.digest for _ in range(9)] == [*"babbabbab"]


def test_a_task_without_proposals_waits_for_trials_that_are_under_way(tmp_path: Path) -> None:
    """One of them may be a gain, and lead on; until then there are trials of other tasks."""
    with proposals(tmp_path / "r.db", Limits(None, None, 2), "a") as trials:
        begun = [next(trials) for _ in range(4)]
        for trial, value in zip(begun[:3], (3.0, 4.0, 5.0)):
            trials.told(trial, Result(value, "s"))
        assert next(trials, None) is None
        trials.told(begun[3], Result(1.0, "s"))
        assert next(trials).plan not in {trial.plan for trial in begun}
    with proposals(tmp_path / "s.db", Limits(None, None, 2), "a", "b") as trials:
        begun = [next(trials) for _ in range(6)]
        ours = [trial for trial in begun if trial.task.digest == "b"]
        for trial in ours:
            trials.told(trial, Result(9.0, "s"))
        assert {next(trials).task.digest for _ in range(4)} == {"a"}


def test_a_task_ends_where_nothing_is_proposed_nor_under_way(tmp_path: Path) -> None:
    with proposals(tmp_path / "r.db", Limits(), "a") as trials:
        begun = list(trials)
        assert len({trial.plan for trial in begun}) == len(begun) == 3 * len(SIZES) - 8
        assert next(trials, None) is None and trials._open
        for trial in begun:
            trials.told(trial, Result(1.0, "s"))
        assert next(trials, None) is None and not trials._open


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
    for name in ("a", "b"):                     # as if they were tasks of another target
        tuning.tasks[task_of(name)].task = replace(task_of(name), fingerprint="a card")
    assert _SharedModel(tuning, task_of("c")).learned(()) is None


def test_a_search_ends_after_so_many_seconds(tmp_path: Path, monkeypatch) -> None:
    bench = Bench()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: len(bench.measured) / 2))
    assert search(tmp_path / "r.db", bench, Limits(None, 6.0, None), network=Rows()).done == 12


def test_a_seed_is_that_of_all_trials_and_choices(tmp_path: Path) -> None:
    seen: list[int] = []
    tuning = search(tmp_path / "r.db", bench := Bench(), Limits(40), 7,
                    watch=lambda tuning: seen.append(tuning.done))
    assert {trial.seed for trial in bench.measured} == {7}
    assert {one.explorer.seed for one in tuning.tasks.values()} == {7}
    assert len(seen) == len(bench.measured) and seen[-1] == 40


def test_the_best_plan_and_the_own_one_are_measured_alike(tmp_path: Path) -> None:
    """Three times each, in turns; the own one is not where it is the best."""
    values = {("a", "rows 1"): 2.0, ("a", "rows 4"): 1.0, ("b", "rows 1"): 1.0}
    bench = Bench(answer=lambda trial: Result(
        values.get((trial.task.body, trial.plan), 3.0), "s"))
    search(tmp_path / "r.db", bench, seed=5, network=Rows())
    again = [(trial.task.body, trial.plan, trial.id.partition(" ")[2])
             for trial in bench.measured if " " in trial.id]
    assert again == [("a", f"rows {size}", str(number)) for number in (2, 3) for size in (4, 1)]
    with Records(tmp_path / "r.db") as records:
        kept = [record.trial for record in records.of(task_of("a")) if record.plan == "rows 4"]
    assert sorted(kept) == [f"seed 5, measurement {number}" for number in (1, 2, 3)]


def test_values_have_the_unit_of_their_measurements(tmp_path: Path) -> None:
    """The unit is that of measurements that gave a value: failures are in seconds."""
    def answer(trial: Trial) -> Result:
        fails = trial.plan.endswith("2") or trial.task.body == "b"
        return Result(None, "s", "it crashed") if fails else Result(7.0, "cycles")

    tuning = search(tmp_path / "r.db", Bench(answer=answer), Limits(20), network=Rows())
    assert [one.unit for one in tuning.tasks.values()] == ["cycles", "s"]


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
