"""A strategy that searches the front of several objectives.

Objectives of the machine alone are known for every point. For the others a Gaussian process
(`runtime.exploring.surrogate`) says what points not yet measured are likely to come to. Proposed
is, again and again, the point that would add most hypervolume to the front, its figures a little
better than likely; then it counts as measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from accel.estimates.technology import Technology
from compiler.tune.explorer import ROUND, Explorer, at_random, grid
from compiler.tune.space import Candidate
from runtime.exploring.fronts import gains, non_dominated
from runtime.exploring.objectives import MeasuredPoint, Objective
from runtime.exploring.points import ExploredPoint, MachineSpace
from runtime.exploring.surrogate import predicted

MOST_LISTED = 20_000    # points of a space that is listed; of a larger one so many are drawn
DRAWN = 4096
DRAFTS = 12             # measured points before anything is predicted
OPTIMISM = 0.5          # standard deviations
SAMPLES = 4096          # at random, by which hypervolumes are estimated
MARGIN = 0.05           # of the range, from the worst point to the reference
TINY = 1e-12            # of an objective: what is less counts as this


def turned(objective: Objective, value: float) -> float:
    """The logarithm of an objective's value, turned so that less is better. Below zero, where
    formulas may lead, it is mirrored at `TINY`.
    """
    logarithm = float(np.log2(max(value, TINY)))
    if value < 0:
        logarithm = float(2 * np.log2(TINY) - np.log2(max(-value, TINY)))
    return -logarithm if objective.greatest else logarithm


@dataclass(frozen=True)
class FrontSearch:
    """Proposes candidates of a `MachineSpace`. `known` has what was measured, by identity."""

    space: MachineSpace
    objectives: Sequence[Objective]
    technology: Technology
    known: Callable[[], Mapping[str, tuple[ExploredPoint, MeasuredPoint]]]

    def __call__(self, explorer: Explorer, random: Generator) -> Iterator[Candidate]:
        known = self.known()
        if len(known) < DRAFTS:
            yield from at_random(explorer, random)
            return
        pool = {candidate.plan: candidate for candidate in self._listed(explorer, random)
                if candidate.plan not in known}
        if pool:
            for place in self._best([*pool.values()], [*known.values()], random):
                yield [*pool.values()][place]
        yield from at_random(explorer, random)

    def _listed(self, explorer: Explorer, random: Generator) -> Iterator[Candidate]:
        if self.space.size <= MOST_LISTED:
            yield from grid(explorer, random)
            return
        for _ in range(DRAWN):
            if (candidate := explorer.look({}, random)) is not None:
                yield candidate

    def _best(self, pool: Sequence[Candidate],
              known: Sequence[tuple[ExploredPoint, MeasuredPoint]], random: Generator
              ) -> Iterator[int]:
        """Places in the pool, the most promising first."""
        here = np.array([self.space.coordinates(point) for point, _ in known])
        there = np.array([candidate.features for candidate in pool])
        measured = np.array([[turned(one, one.of(figures).value) for one in self.objectives]
                             for _, figures in known])
        likely = np.stack([self._column(number, here, measured, there, pool)
                           for number in range(len(self.objectives))], axis=1)
        low = np.minimum(measured.min(axis=0), likely.min(axis=0))
        high = measured.max(axis=0)
        samples = low + random.random((SAMPLES, len(low))) * ((1 + MARGIN) * (high - low) + 1e-9)
        front = measured[non_dominated(measured)]
        left = np.ones(len(pool), bool)
        for _ in range(min(ROUND, len(pool))):
            scores = np.where(left, gains(front, likely, samples), -1)
            place = int(scores.argmax())
            if scores[place] <= 0:              # nothing is likely to add any: the least known
                return
            yield place
            left[place] = False
            front = np.vstack([front, likely[place]])

    def _column(self, number: int, here: np.ndarray, measured: np.ndarray, there: np.ndarray,
                pool: Sequence[Candidate]) -> np.ndarray:
        objective = self.objectives[number]
        if objective.of_machine:
            return np.array([turned(objective, objective.of(MeasuredPoint(
                self.space.points[one.plan].machine, {}, {}, self.technology)).value)
                for one in pool])
        mean, deviation = predicted(here, measured[:, number], there)
        return mean - OPTIMISM * deviation
