"""The search for the plans of a network: its tasks, and how trials are divided among them.

Tasks are what targets ask plans for when they compile the network. Those whose plans decide which
other tasks there are (the algorithm of a convolution) come first, then the network is compiled
again. Each task has an explorer; the next trial goes to the task from which most time is expected:
its share of the network, the less the longer nothing better was found. In the end the best plans
are measured again beside what the target would choose, so that no plan wins by noise.

Every result is a record. A plan that has one is not measured again, so a search that was stopped or
killed goes on where it was.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from statistics import median_low

from compiler.plans import OWN, Plans, Recorder, Task
from compiler.tune.explorer import STRATEGIES, Explorer, Guided, Limits, cost_model
from compiler.tune.model import Scores, lessons
from compiler.tune.record import Record
from compiler.tune.records import Records
from compiler.tune.space import Candidate, Result, Tunable
from runtime.tuning.trials import Trial

CONFIRMED = 3           # measurements of a plan that may be chosen, and of the target's own

MOST_LESSONS = 1024     # of other tasks

DEFAULT = Limits(512, None, 64)

Compile = Callable[[Plans], object]
"""Compiles the network, its plans from these."""

Run = Callable[[Iterator[Trial]], Iterable[tuple[Trial, Result]]]
"""Runs trials and gives results as they come. It takes a trial when it can begin one, since results
decide what comes next: an iterator that had no trial may have one later."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A target of which plans are searched, and the text that names it."""

    text: str
    target: Tunable


def tasks_of(compile: Compile, plans: Plans = OWN) -> Counter[Task]:
    """The tasks of a network where these plans are used, with the number of times that each is
    there.
    """
    recorder = Recorder(plans)
    compile(recorder)
    return Counter({task: recorder.counts[task] for task in recorder.recorded if task.body})


@dataclass
class TaskSearch:
    """The search for the plan of one task.

    Parameters
    ----------
    count : how often the task is there in the network.
    results : of each plan, as measured so far, here or in other searches.
    errors : trials without a value.
    least : the least value of a trial.
    fruitless : trials since that one.
    """

    task: Task
    count: int
    searched: Searched
    explorer: Explorer
    own: str
    results: dict[str, list[Result]]
    trials: int = 0
    errors: int = 0
    least: float = inf
    fruitless: int = 0
    under_way: dict[str, Candidate] = field(default_factory=dict)

    def value(self, plan: str) -> float | None:
        """The time of a plan: the median of its measurements."""
        values = [one.value for one in self.results.get(plan, ()) if one.value is not None]
        return median_low(values) if values else None

    @property
    def best(self) -> str:
        """The best plan so far; the target's own where there is none."""
        values = {plan: value for plan in self.results if (value := self.value(plan)) is not None}
        return min(values, key=values.__getitem__, default=self.own)

    @property
    def unit(self) -> str:
        """The unit of values: "s" or "cycles"."""
        units = {one.unit for some in self.results.values() for one in some
                 if one.value is not None}
        return units.pop() if units else "s"

    @property
    def expected(self) -> float:
        """The gain that the next trial may bring: a share of time, less the longer none was found.

        A task without a trial comes first; one of which all failed, last.
        """
        if self.least == inf:
            return 0.0 if self.trials else inf
        return self.count * self.least / (1 + self.fruitless)

    def told(self, candidate: Candidate, result: Result) -> None:
        """Takes the result of a trial."""
        self.explorer.tell(candidate, result)
        self.trials += 1
        self.errors += result.value is None
        better = result.value is not None and result.value < self.least
        self.least = min(self.least, inf if result.value is None else result.value)
        self.fruitless = 0 if better else self.fruitless + 1

    def unconfirmed(self) -> list[str]:
        """Plans that are to be measured again: the best one and the target's own, as long as they
        have few measurements.
        """
        if self.best == self.own:
            return []
        return [plan for plan in (self.best, self.own) if self.number(plan) < CONFIRMED]

    def number(self, plan: str) -> int:
        """The number of times that a plan was measured."""
        return len(self.results.get(plan, ()))


class Tuning:
    """Searches plans for a network.

    Parameters
    ----------
    compile : compiles it.
    targets : the searched targets by their fingerprints.
    limits : trials and seconds of all tasks together; a task ends after `patience` trials without
        gain.
    records : where results are kept, and known ones found.
    where : what measures, as in `Record`.
    strategy : one of `compiler.tune.explorer.STRATEGIES`.
    watch : called after every result.
    """

    def __init__(self, compile: Compile, targets: Mapping[str, Searched],
                 records: Records, where: str, limits: Limits = DEFAULT,
                 strategy: str = "guided", seed: int = 0,
                 watch: Callable[["Tuning"], None] = lambda tuning: None):
        self.records, self.where, self.limits, self.seed = records, where, limits, seed
        self.tasks: dict[Task, TaskSearch] = {}
        self.done = 0
        self._compile, self._targets, self._strategy = compile, targets, strategy
        self._watch, self._begin = watch, time.monotonic()

    def run(self, run: Run) -> None:
        """Searches until a limit is reached or all tasks have ended."""
        for deciding in (True, False):
            self._add_tasks(deciding)
            self._searched(run, [search for search in self.tasks.values()
                                 if self._decides(search.task) == deciding])

    @property
    def is_over(self) -> bool:
        limits = self.limits
        return (limits.trials is not None and self.done >= limits.trials
                or limits.seconds is not None
                and time.monotonic() - self._begin >= limits.seconds)

    def plans(self) -> Plans:
        """The best plans of the tasks so far, and the target's own for others."""
        return self.records.plans()

    def _decides(self, task: Task) -> bool:
        return self._targets[task.fingerprint].target.decides_tasks(task)

    def _add_tasks(self, deciding: bool) -> None:
        for task, count in tasks_of(self._compile, self.plans()).items():
            if task.fingerprint not in self._targets or self._decides(task) != deciding:
                continue
            searched = self._targets[task.fingerprint]
            space = searched.target.space(task)
            strategy = STRATEGIES[self._strategy]()
            if isinstance(strategy, Guided) and strategy.model:
                strategy = replace(strategy, model=_SharedModel(self, task))
            explorer = Explorer(space, strategy, Limits(seconds=self.limits.seconds), self.seed)
            self.tasks[task] = TaskSearch(task, count, searched, explorer,
                                          space.candidate({}).plan, _known(self.records, task))

    def _searched(self, run: Run, searches: list[TaskSearch]) -> None:
        """Explores, then measures the best again."""
        for kind in (_Proposals, _Confirmations):
            trials = kind(self, searches)
            for trial, result in run(trials):
                trials.told(trial, result)
                self._watch(self)

    def measured(self, search: TaskSearch, plan: str, result: Result) -> None:
        """Keeps a result, as a record too."""
        results = search.results.setdefault(plan, [])
        results.append(result)
        number = len(results)
        self.records.add(Record(search.task, plan, result, self.where, self.seed,
                                f"seed {self.seed}, measurement {number}"))


@dataclass(frozen=True)
class _SharedModel:
    """Learns from the trials of a task, and from those of the others of its target so far."""

    tuning: Tuning
    task: Task

    def learned(self, trials: Iterable[tuple[Candidate, Result]]) -> Scores | None:
        others = [lesson for other in self.tuning.tasks.values()
                  if other.task != self.task and other.task.fingerprint == self.task.fingerprint
                  for lesson in lessons(other.explorer.trials)]
        model = cost_model(others[-MOST_LESSONS:])
        return model and model.learned(trials)


class _Proposals:
    """The trials that explorers propose, the most promising task first; of equal ones, that with
    the fewest trials under way. Plans with records are not measured: explorers are told what is
    known.
    """

    def __init__(self, tuning: Tuning, searches: list[TaskSearch]):
        self._tuning = tuning
        self._open = list(searches)
        self._patience = tuning.limits.patience or inf
        self._of: dict[str, tuple[TaskSearch, Candidate]] = {}

    def __iter__(self) -> "_Proposals":
        return self

    def __next__(self) -> Trial:
        waiting: set[int] = set()
        while not self._tuning.is_over and (search := max(
                (one for one in self._open if id(one) not in waiting),
                key=lambda one: (one.expected / (1 + len(one.under_way)), -len(one.under_way)),
                default=None)):
            candidates = (search.explorer.propose(1)
                          if search.fruitless < self._patience else [])
            if not candidates:
                if search.under_way:
                    waiting.add(id(search))     # what comes back may lead on
                else:
                    self._open.remove(search)
                continue
            candidate, = candidates
            self._tuning.done += 1
            if known := search.results.get(candidate.plan):
                search.told(candidate, known[0])
                continue
            trial = Trial(search.searched.text, search.task, candidate.plan, self._tuning.seed)
            search.under_way[trial.id] = candidate
            self._of[trial.id] = search, candidate
            return trial
        raise StopIteration

    def told(self, trial: Trial, result: Result) -> None:
        search, candidate = self._of.pop(trial.id)
        del search.under_way[trial.id]
        self._tuning.measured(search, candidate.plan, result)
        search.told(candidate, result)


class _Confirmations:
    """Further measurements of the plan that is the best so far, and of the target's own, until the
    best one has enough. One of each task is under way, tasks take turns.
    """

    def __init__(self, tuning: Tuning, searches: list[TaskSearch]):
        self._tuning = tuning
        self._ready = deque(searches)
        self._of: dict[str, TaskSearch] = {}

    def __iter__(self) -> "_Confirmations":
        return self

    def __next__(self) -> Trial:
        while self._ready:
            search = self._ready.popleft()
            plans = search.unconfirmed()
            if plans:
                plan = min(plans, key=search.number)
                first = Trial(search.searched.text, search.task, plan, self._tuning.seed)
                number = search.number(plan) + 1
                trial = Trial(first.target, first.task, plan, first.seed, f"{first.id} {number}")
                self._of[trial.id] = search
                return trial
        raise StopIteration

    def told(self, trial: Trial, result: Result) -> None:
        search = self._of.pop(trial.id)
        self._tuning.measured(search, trial.plan, result)
        self._ready.append(search)


def _known(records: Records, task: Task) -> dict[str, list[Result]]:
    """The results of each plan that has records, in the order of the measurements."""
    known: dict[str, list[Result]] = {}
    for record in sorted(records.of(task), key=lambda record: (record.when, record.trial)):
        known.setdefault(record.plan, []).append(record.result)
    return known
