"""Which points of a space to try next: proposes candidates, is told results.

>>> from compiler.plans import Task
>>> from compiler.tune.chooser import PointChooser
>>> from compiler.tune.space import Candidate, Result
>>> class Squares:
...     task = Task("", "", "squares")
...     def candidate(self, point, random=None):
...         chooser = PointChooser(point, random)
...         size = chooser.one_of("size", range(10))
...         return Candidate(tuple(chooser.decisions), f"size={size}")
>>> explorer = Explorer(Squares(), descent, Limits(trials=8))
>>> while candidates := explorer.propose(4):
...     for candidate in candidates:
...         size = int(candidate.point["size"])
...         explorer.tell(candidate, Result((size - 7) ** 2, "cycles"))
>>> explorer.best.plan, explorer.stopped
('size=7', '8 trials')

A strategy is a generator of candidates, the most promising first. It starts anew in each round of
eight trials, from the trials of the rounds before, with random numbers that follow from the seed
and the number of the round. So an explorer that is made from earlier trials, in their order, goes
on as the one that made them would have.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain, count, islice
from math import inf

import numpy as np
from numpy.random import Generator

from compiler.errors import RequestError
from compiler.plans import PlanRefused
from compiler.tune.chooser import Decision
from compiler.tune.model import CostModel, Lesson, Scores, Teachable
from compiler.tune.space import (Candidate, Point, PointRefused, Result, Space, every_point,
                                 neighbours)

ROUND = 8               # trials for which a strategy, once started, goes on
FRUITLESS = 200         # points at random that lead to known plans before the rest is listed
MOST_POINTS = 1 << 14   # of a grid: that of a product has more points than can ever be listed

Trial = tuple[Candidate, Result]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a search: after so many trials, after so many seconds, or where so many trials
    after the best one were no better. None is no limit.
    """

    trials: int | None = None
    seconds: float | None = None
    patience: int | None = None


class Explorer:
    """Explores a space by a strategy.

    Never proposes a plan twice, nor one of the `earlier` trials. What the space refuses is no
    trial. `refused` has those points and the reasons. `stopped` says why nothing is proposed any
    more; "" before that. `is_larger` says whether the space has more points than a grid lists.

    Parameters
    ----------
    earlier : points and what they came to. A point that is refused now is forgotten.
    clock : seconds since any moment.
    """

    def __init__(self, space: Space, strategy: "Strategy", limits: Limits = Limits(),
                 seed: int = 0, earlier: Iterable[tuple[Point, Result]] = (),
                 clock: Callable[[], float] = time.monotonic):
        self.space, self.seed, self.limits = space, seed, limits
        self.trials: list[Trial] = []
        self.refused: dict[frozenset[tuple[str, str]], str] = {}
        self.stopped, self.is_larger = "", False
        self._strategy, self._clock, self._begin = strategy, clock, clock()
        self._known: dict[frozenset[tuple[str, str]], Candidate | tuple[Decision, ...]] = {}
        self._proposed: dict[str, Candidate] = {}       # by plan; told ones too
        self._told: set[str] = set()
        self._round = -1
        self._stream: Iterator[Candidate] = iter(())
        for point, result in earlier:
            if (candidate := self.look(point)) is not None and candidate.plan not in self._told:
                self._proposed.setdefault(candidate.plan, candidate)
                self.tell(candidate, result)

    def propose(self, most: int) -> list[Candidate]:
        """So many new candidates, or as many as limits and space leave."""
        self.stopped = self._over()
        if self.stopped:
            return []
        if self.limits.trials is not None:
            most = min(most, self.limits.trials - len(self._proposed))
        if self._round != (now := len(self.trials) // ROUND):
            self._round = now
            random = np.random.default_rng([self.seed, now])
            self._stream = chain(self._strategy(self, random), grid(self, random))
        fresh: list[Candidate] = []
        while len(fresh) < most and not self._late() and (
                candidate := next(self._stream, None)) is not None:
            if candidate.plan not in self._proposed:
                self._proposed[candidate.plan] = candidate
                fresh.append(candidate)
        if not fresh and most > 0 and len(self._told) == len(self._proposed):
            self.stopped = self._late() or (f"first {MOST_POINTS:,} points of a larger space"
                                            if self.is_larger else "space exhausted")
        return fresh

    def tell(self, candidate: Candidate, result: Result) -> None:
        """Takes what a proposed candidate came to. Raises ValueError for any other, and for one of
        which that was told before.
        """
        if candidate.plan not in self._proposed or candidate.plan in self._told:
            raise ValueError(f"Candidate must be one that was proposed and not told yet, "
                             f"not {candidate.plan!r}")
        self._told.add(candidate.plan)
        self.trials.append((candidate, result))

    @property
    def settled(self) -> list[Trial]:
        """The trials of whole rounds: what a strategy may know."""
        return self.trials[:len(self.trials) // ROUND * ROUND]

    @property
    def best(self) -> Candidate | None:
        return next((candidate for candidate, _ in ranked(self.trials)), None)

    def look(self, point: Point, random: Generator | None = None) -> Candidate | None:
        """The candidate of a point; None where it is refused."""
        key = frozenset(point.items())
        if random is not None or key not in self._known:
            try:
                candidate = self.space.candidate(point, random)
                self._known[frozenset(candidate.point.items())] = candidate
                if random is not None:
                    return candidate
                self._known[key] = candidate
            except PlanRefused as error:
                asked = error.decisions if isinstance(error, PointRefused) else ()
                point = {decision.name: decision.answer for decision in asked} or point
                self.refused[frozenset(point.items())] = str(error)
                if random is not None:
                    return None
                self._known[key] = asked
        found = self._known[key]
        return found if isinstance(found, Candidate) else None

    def asked(self, point: Point) -> Sequence[Decision]:
        """The questions of a space at a point, as far as it says that of one that it refuses."""
        if (candidate := self.look(point)) is not None:
            return candidate.decisions
        found = self._known[frozenset(point.items())]
        return found if isinstance(found, tuple) else ()

    def _over(self) -> str:
        limits = self.limits
        if limits.trials is not None and len(self.trials) >= limits.trials:
            return f"{limits.trials} trials"
        if late := self._late():
            return late
        if limits.patience is not None and self._since_best() >= limits.patience:
            return f"no gain in {limits.patience} trials"
        return ""

    def _late(self) -> str:
        seconds = self.limits.seconds
        over = seconds is not None and self._clock() - self._begin >= seconds
        return f"{seconds:g} seconds" if over else ""

    def _since_best(self) -> int:
        values = [inf if result.value is None else result.value for _, result in self.trials]
        return len(values) - 1 - values.index(min(values)) if values else 0


Strategy = Callable[[Explorer, Generator], Iterator[Candidate]]
"""Candidates may come that are known: an explorer leaves them out."""


def ranked(trials: Iterable[Trial]) -> list[Trial]:
    """The trials with a value, the best first."""
    return sorted((trial for trial in trials if trial[1].value is not None),
                  key=lambda trial: trial[1].value)     # type: ignore[arg-type, return-value]


def grid(explorer: Explorer, random: Generator) -> Iterator[Candidate]:
    """All points, in the order of the options; `MOST_POINTS` of them where there are more."""
    points = every_point(explorer.asked)
    for point in islice(points, MOST_POINTS):
        if (candidate := explorer.look(point)) is not None:
            yield candidate
    explorer.is_larger = next(points, None) is not None


def at_random(explorer: Explorer, random: Generator) -> Iterator[Candidate]:
    """Any points, each option as likely as the others."""
    fruitless, seen = 0, {candidate.plan for candidate, _ in explorer.settled}
    while fruitless < FRUITLESS:
        candidate = explorer.look({}, random)
        if candidate is not None and candidate.plan not in seen:
            fruitless = 0
            seen.add(candidate.plan)
            yield candidate
        else:
            fruitless += 1


def by_estimate(explorer: Explorer, random: Generator) -> Iterator[Candidate]:
    """Points by their estimates, the best first, from what the target chooses itself."""
    ways = count()                          # in the order of discovery where estimates are equal
    heap: list[tuple[float, int, Mapping[str, str]]] = [(1.0, next(ways), {})]
    seen: set[frozenset[tuple[str, str]]] = set()
    while heap:
        _, _, point = heappop(heap)
        candidate = explorer.look(point)
        if candidate is None or (key := frozenset(candidate.point.items())) in seen:
            continue
        seen.add(key)
        yield candidate
        for estimate, neighbour in _estimated(candidate):
            heappush(heap, (estimate, next(ways), neighbour))


def _estimated(candidate: Candidate) -> Iterator[tuple[float, dict[str, str]]]:
    """Neighbours with estimates, as if the other decisions kept theirs."""
    points = iter(neighbours(candidate))
    for decision in candidate.decisions:
        least = min(decision.costs)
        for place, cost in enumerate(decision.costs):
            if place != decision.taken:
                excess = cost / least if least > 0 else 1.0
                yield candidate.estimate / decision.excess * excess, next(points)


def beside(explorer: Explorer, candidate: Candidate) -> Iterator[Candidate]:
    """Neighbours, the best by estimate first."""
    for _, point in sorted(_estimated(candidate), key=lambda pair: pair[0]):
        if (neighbour := explorer.look(point)) is not None:
            yield neighbour


def descent(explorer: Explorer, random: Generator) -> Iterator[Candidate]:
    """The best by estimate; then neighbours of the best trial, of the second best, and so on."""
    if not explorer.settled:
        yield from by_estimate(explorer, random)
    for candidate, _ in ranked(explorer.settled):
        yield from beside(explorer, candidate)
    yield from at_random(explorer, random)


@dataclass(frozen=True)
class Guided:
    """Tries the best by estimate first, then what lies near the best trials and is promising.

    Generations of changed and crossed points descend from the best trials; the model says which of
    them are promising. Where there is no model, or too little to learn from, neighbours of the best
    trials follow (`descent`).

    Parameters
    ----------
    drafts : trials that the estimate chooses.
    children : candidates of a generation, of which there are two.
    parents : trials that generations descend from.
    chance : the share of proposals that are at random.
    """

    model: Teachable | None = None
    drafts: int = 16
    children: int = 32
    parents: int = 12
    chance: float = 0.125

    def __call__(self, explorer: Explorer, random: Generator) -> Iterator[Candidate]:
        trials = explorer.settled
        if len(trials) < self.drafts:
            yield from islice(by_estimate(explorer, random), self.drafts)
        best = [candidate for candidate, _ in ranked(trials)[:self.parents]]
        scores = self.model.learned(trials) if self.model else None
        if best and scores is not None:
            others = at_random(explorer, random)
            for candidate in self._pool(explorer, best, scores, random):
                if random.random() < self.chance:
                    yield from islice(others, 1)
                yield candidate
        yield from descent(explorer, random)

    def _pool(self, explorer: Explorer, parents: Sequence[Candidate], scores: Scores,
              random: Generator) -> list[Candidate]:
        """New candidates of two generations, the most promising first."""
        known = {candidate.plan for candidate, _ in explorer.settled}
        pool: dict[str, Candidate] = {}
        promising: list[Candidate] = []
        for _ in range(2):
            for point in self._children(parents, random):
                child = explorer.look(point)
                if child is not None and child.plan not in known:
                    pool[child.plan] = child
            promising = _by(scores, list(pool.values()))
            parents = promising[:self.parents] or parents
        return promising

    def _children(self, parents: Sequence[Candidate], random: Generator) -> Iterator[Point]:
        """Points that differ from a parent in few decisions, or are crossed from two."""
        for _ in range(self.children):
            first = _one(parents, random)
            if random.random() < 0.25:
                second = _one(parents, random)
                yield {name: (first if random.random() < 0.5 else second).point.get(name, option)
                       for name, option in first.point.items()}
                continue
            point = first.point
            for _ in range(int(random.geometric(0.5))):
                decision = first.decisions[random.integers(len(first.decisions))]
                point[decision.name] = decision.options[random.integers(len(decision.options))]
            yield point


def _one(parents: Sequence[Candidate], random: Generator) -> Candidate:
    """One of them, the first ones more likely."""
    return parents[int(len(parents) * random.random() ** 2)]


def _by(scores: Scores, candidates: Sequence[Candidate]) -> list[Candidate]:
    values = scores(candidates)
    return [candidates[place] for place in np.argsort([-value for value in values], kind="stable")]


STRATEGIES: Mapping[str, Callable[[], Strategy]] = {
    "guided": lambda: Guided(cost_model()), "descent": lambda: descent,
    "random": lambda: at_random, "grid": lambda: grid}


def cost_model(lessons: Iterable[Lesson] = ()) -> CostModel | None:
    """A model with the lessons of other tasks; None where LightGBM is missing."""
    try:
        return CostModel(lessons)
    except RequestError:
        return None
