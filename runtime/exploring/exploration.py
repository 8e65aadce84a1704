"""The exploration of machines: which points are measured, and what came of them.

The base is always a point, and so are the machines in which one field alone is changed; then a
strategy proposes points of the space. Points are measured in rounds whose results are taken in the
order of the proposals, so what is found does not depend on who measures how fast. Every result is a
record: a point that has one is not measured again, so an exploration that was stopped or killed
goes on where it was. Effort for mappings can be spent on the front alone (`Exploration.refine`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from accel.estimates.technology import Technology, load_technology
from compiler.errors import Error, RequestError
from compiler.native import digest
from compiler.plans import Task
from compiler.tune.explorer import ROUND, Explorer, Strategy, at_random, grid
from compiler.tune.record import Record, versions
from compiler.tune.records import Records
from compiler.tune.space import Candidate, Result
from runtime.exploring.budgets import MachineBudget
from runtime.exploring.cores import BuiltCore
from runtime.exploring.front_search import FrontSearch
from runtime.exploring.fronts import PointIntervals, non_dominated
from runtime.exploring.objectives import MeasuredPoint, Objective
from runtime.exploring.networks import ExploredNetwork
from runtime.exploring.point_trials import PointFigures, PointTrial, is_lasting
from runtime.exploring.points import ExploredPoint, MachineSpace
from runtime.pricing.hosts import TABLE, THIS, host_text
from runtime.whole import division_difference, host_key

STRATEGIES = ("grid", "random", "search")

MANY = 64               # points of a round, where what follows does not depend on them
WHERE = "cycle simulator"
ROOMS = ("accel", "compiler", "runtime")

RunPoints = Callable[[Iterator[PointTrial]], Iterable[tuple[PointTrial, Result]]]
"""Runs trials; gives results as they come."""


class ExplorationError(RequestError):
    """A base that cannot be measured: its network, and why."""


@dataclass
class Exploration:
    """Measures points of a space.

    Parameters
    ----------
    trials : the most points that are measured, the base included; None: all of the grid.
    technology : that all points are in. Where it has no estimate of clocks, all run at the nominal
        clock of the base.
    host : that computes the rest of the networks.
    same_division : whether points fail whose host computes other layers than that of the base.
    watch : called with the number of measured points and of points under way, whenever a result
        has come.
    measured, failed : what came of points, by identity; why they have no figures.
    checked : points whose values were compared with the reference, with the reason against each
        that differs, else "".
    built : what tools made of cores, by the machine's hash.
    done : results that were measured, not known from records.
    """

    space: MachineSpace
    networks: Sequence[ExploredNetwork]
    objectives: Sequence[Objective]
    records: Records
    budgets: Sequence[MachineBudget] = ()
    strategy: str = "grid"
    trials: int | None = None
    seed: int = 0
    technology: Technology = field(default_factory=load_technology)
    host: str = TABLE
    same_division: bool = False
    watch: Callable[["Exploration"], None] = lambda exploration: None
    measured: dict[str, tuple[ExploredPoint, MeasuredPoint]] = field(default_factory=dict)
    failed: dict[str, tuple[ExploredPoint, str]] = field(default_factory=dict)
    checked: dict[str, str] = field(default_factory=dict)
    refused: dict[frozenset[tuple[str, str]], str] = field(default_factory=dict)
    built: dict[str, BuiltCore] = field(default_factory=dict)
    done: int = 0

    def __post_init__(self) -> None:
        self.technology = self.technology.at(self.space.base.machine.config.clock_mhz)
        for one in (*self.objectives, *(budget.objective for budget in self.budgets)):
            one.require(self.technology)
        self._versions, self._host = versions(ROOMS), host_key(self.host)
        self._known: dict[tuple[str, str], Result] = {}
        self._read: set[str] = set()                    # tasks whose records are known
        self._quantized: dict[str, list[ExploredNetwork | Result]] = {}

    def run(self, run: RunPoints) -> None:
        """Measures the base, each field alone, and what the strategy proposes. Raises
        ExplorationError where the base cannot be measured.
        """
        base = self.space.base
        self._measure([base], run)
        if base.identity in self.failed:
            raise ExplorationError(f"The base {base.machine.config.name} must run the networks: "
                                   f"{self.failed[base.identity][1]}")
        self._measure(self._alone(), run)
        self._explore(run)

    def refine(self, effort: int, run: RunPoints) -> None:
        """Measures the machines on the front with this effort for their mappings, too, as points of
        their own, and those that the front has then, until it has no other ones.
        """
        while fresh := [point for point in map(self._refined(effort), self.front())
                        if point.identity not in self.measured | self.failed]:
            self._measure(fresh, run)

    def _refined(self, effort: int) -> Callable[[str], ExploredPoint]:
        def refined(identity: str) -> ExploredPoint:
            point = self.measured[identity][0]
            return self.space.refined(point, max(effort, point.effort))
        return refined

    def check(self, run: RunPoints) -> None:
        """Compares the values of the points on the front with those of the reference."""
        points = [self.measured[identity][0] for identity in self.front()]
        for point, results in self._results(points, run, values=True):
            errors = [f"{name}: {one.error}" for name, one in results.items() if one.error]
            self.checked[point.identity] = "; ".join(errors)

    def front(self) -> list[str]:
        """The identities of the points within all budgets that no other one of them dominates, by
        the first objective.
        """
        within = self._within()
        if not within:
            return []
        values = np.array([self.values(identity) for identity in within])
        mask = non_dominated(values)
        return [within[place] for place in np.lexsort(values.T[::-1]) if mask[place]]

    def values(self, identity: str) -> tuple[float, ...]:
        """The objectives of a measured point, turned so that less is better."""
        figures = self.measured[identity][1]
        return tuple(one.least(one.of(figures).value) for one in self.objectives)

    def rivals(self) -> dict[str, list[str]]:
        """For each point within all budgets those from which it is not distinguishable: by which it
        depends on errors of estimates whether it is on the front (`PointIntervals.rivals`).
        """
        within = self._within()
        rows = [[one.interval(self.measured[identity][1]) for one in self.objectives]
                for identity in within]
        if not rows:
            return {}
        low, values, high = np.moveaxis(np.array(rows), -1, 0)
        cores = [self.measured[identity][0].machine.hash for identity in within]
        found = PointIntervals(values, low, high, cores).rivals()
        return {identity: [within[place] for place in places]
                for identity, places in zip(within, found, strict=True)}

    def _within(self) -> list[str]:
        return [identity for identity, (_, figures) in self.measured.items()
                if not self.over_budget(figures)]

    def over_budget(self, figures: MeasuredPoint) -> str:
        """Why a point is over some budget; "" for one that is not."""
        return next((reason for budget in self.budgets if (reason := budget.refusal(figures))), "")

    def _alone(self) -> list[ExploredPoint]:
        points: dict[str, ExploredPoint] = {}
        for axis, options in self.space.alone.items():
            for option, point in options.items():
                if isinstance(point, str):
                    self.refused[frozenset({(axis, option)})] = point
                else:
                    points.setdefault(point.identity, point)
        room = len(points) if self.trials is None else max(self.trials - self._count, 0)
        return [point for point in points.values() if point.identity not in self.measured][:room]

    @property
    def _count(self) -> int:
        return len(self.measured) + len(self.failed)

    def _explore(self, run: RunPoints) -> None:
        explorer = Explorer(self.space, self._strategy(), seed=self.seed)
        most = ROUND if self.strategy == "search" else MANY
        while self.trials is None or self._count < self.trials:
            candidates = explorer.propose(most)
            if not candidates:
                break
            fresh = [candidate for candidate in candidates if not self._is_known(candidate)]
            room = len(fresh) if self.trials is None else self.trials - self._count
            self._measure([self.space.points[one.plan] for one in fresh[:room]], run)
            for candidate in candidates:
                if self._is_known(candidate):
                    explorer.tell(candidate, self._told(candidate.plan))
        self.refused |= explorer.refused

    def _strategy(self) -> Strategy:
        if self.strategy == "search":
            return FrontSearch(self.space, self.objectives, self.technology, lambda: self.measured)
        return grid if self.strategy == "grid" else at_random

    def _is_known(self, candidate: Candidate) -> bool:
        return candidate.plan in self.measured or candidate.plan in self.failed

    def _told(self, identity: str) -> Result:
        if identity in self.failed:
            return Result(None, "cycles", self.failed[identity][1])
        return Result(self.values(identity)[0], self.objectives[0].unit)

    def _measure(self, points: Sequence[ExploredPoint], run: RunPoints) -> None:
        for point, results in self._results(points, run, values=False):
            errors = [f"{name}: {one.error}" for name, one in results.items() if one.error]
            if errors:
                self.failed[point.identity] = point, "; ".join(errors)
                continue
            figures = MeasuredPoint(
                point.machine, {name: int(one.value or 0) for name, one in results.items()},
                {network.name: replace(PointFigures.of(results[network.name].details),
                                       accuracy=network.accuracy)
                 for network in self._networks(point) if isinstance(network, ExploredNetwork)},
                self.technology)
            if self.same_division and (other := self.other_division(figures)):
                self.failed[point.identity] = point, f"--same-division: {other}"
            else:
                self.measured[point.identity] = point, figures

    def other_division(self, figures: MeasuredPoint) -> str:
        """The layers that the host computes for a point and not for the base, or the other way
        round; "" where both divide the networks alike.
        """
        if self.space.base.identity not in self.measured:
            return ""
        base = self.measured[self.space.base.identity][1]
        return "; ".join(text for name, one in figures.figures.items() if (
            text := division_difference(name, base.figures[name].host_layers, one.host_layers)))

    def _results(self, points: Sequence[ExploredPoint], run: RunPoints, values: bool
                 ) -> Iterator[tuple[ExploredPoint, dict[str, Result]]]:
        """The results of points for each network, in the order of the points."""
        wanted: dict[str, tuple[ExploredNetwork, ExploredPoint]] = {}
        trials: list[PointTrial] = []
        for point in points:
            for network in self._networks(point):
                if not isinstance(network, Result) and not self._has(network, point, values):
                    trial = self.trial(network, point, values)
                    wanted[trial.id] = network, point
                    trials.append(trial)
        # Machines with one array follow each other: they share schedules.
        trials.sort(key=lambda trial: (trial.toml, trial.digest))
        for trial, result in run(iter(trials)) if trials else ():
            network, point = wanted[trial.id]
            self._keep(network, point, values, result)
            self.watch(self)
        for point in points:
            yield point, {given.name: network if isinstance(network, Result)
                          else self._known[self._key(network, point, values)]
                          for given, network in zip(self.networks, self._networks(point))}

    def _networks(self, point: ExploredPoint) -> list[ExploredNetwork | Result]:
        """The networks as the point computes them; a refusal of the quantizer is a result."""
        if point.identity not in self._quantized:
            self._quantized[point.identity] = [_on(one, point) for one in self.networks]
        return self._quantized[point.identity]

    def quantized_of(self, network: ExploredNetwork) -> list[ExploredNetwork]:
        """A network as the measured points compute it."""
        place = list(self.networks).index(network)
        return [found for identity in self.measured if not isinstance(
            found := self._networks(self.measured[identity][0])[place], Result)]

    def _has(self, network: ExploredNetwork, point: ExploredPoint, values: bool) -> bool:
        """True if the result is known, also by a record."""
        task = self._task(network, values)
        if task.digest not in self._read:
            self._read.add(task.digest)
            self._known |= {(task.digest, record.plan): record.result
                            for record in self.records.of(task)
                            if record.versions == self._versions}
        return self._key(network, point, values) in self._known

    def trial(self, network: ExploredNetwork, point: ExploredPoint, values: bool = False
              ) -> PointTrial:
        """The trial of a network on a point, as it computes it."""
        return PointTrial(str(network.path), network.digest, point.toml, point.sources,
                          point.machine.hash, values, self.technology.text, point.effort,
                          host_text(self.host), network.shapes)

    def known(self, network: ExploredNetwork, point: ExploredPoint) -> Result:
        """The result of a network on a point that was measured."""
        return self._known[self._key(network, point, False)]

    def _keep(self, network: ExploredNetwork, point: ExploredPoint, values: bool, result: Result
              ) -> None:
        key = self._key(network, point, values)
        self._known[key] = result
        self.done += 1
        if not is_lasting(result):
            return
        self.records.add(Record(self._task(network, values), key[1], result, WHERE, self.seed,
                                "measured" if self.host == THIS else "exact", self._versions))

    def _key(self, network: ExploredNetwork, point: ExploredPoint, values: bool) -> tuple[str, str]:
        effort = f"# effort {point.effort}\n" if point.effort else ""
        plan = f"# machine {point.machine.hash}\n{effort}{point.toml}"
        return self._task(network, values).digest, plan

    def _task(self, network: ExploredNetwork, values: bool) -> Task:
        title = f"{network.name}: {'values' if values else 'time'} on machines"
        return Task("explore", digest([network.digest, str(network.shapes), self.technology.text,
                                       self._host, str(values)]), title)


def _on(network: ExploredNetwork, point: ExploredPoint) -> ExploredNetwork | Result:
    try:
        return network.on(point.machine)
    except Error as error:
        return Result(None, "cycles", " ".join(str(error).split()))
