"""Fronts of points with several objectives, all of which are to be least.

A point dominates another one if it is nowhere worse and somewhere better. The hypervolume of a
front is the volume of what it dominates within a reference point.

Estimates have intervals. Two machines differ for sure in an objective where theirs do not overlap;
two points of one core share its errors, whatever they are, and differ where their values do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def non_dominated(values: np.ndarray) -> np.ndarray:
    """Which rows no other row dominates, as a mask; of equal rows the first alone. `values` has
    shape (points, objectives).
    """
    mask = np.ones(len(values), bool)
    for place, row in enumerate(values):
        no_worse = (values <= row).all(axis=1)
        better = (values < row).any(axis=1)
        equal = (values == row).all(axis=1)
        mask[place] = not ((no_worse & better).any() or equal[:place].any())
    return mask


@dataclass(frozen=True)
class PointIntervals:
    """Objectives of points as intervals, each array of shape (points, objectives).

    Parameters
    ----------
    cores : what the error of a point's estimates depends on.
    """

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    cores: Sequence[str]

    def rivals(self) -> list[list[int]]:
        """For each point the others by which its place depends on errors: for one of the front
        those that may dominate it, for another one those of the front that may not dominate it
        after all. A point has none that another one dominates for sure.
        """
        front, every = non_dominated(self.values), range(len(self.values))
        open_ = [place for place in every if not self._dominating(place).any()]
        return [self._of(place, front, open_) if place in set(open_) else [] for place in every]

    def _of(self, place: int, front: np.ndarray, open_: Sequence[int]) -> list[int]:
        row = self.values[place]
        found = {*np.flatnonzero(~self._more(place).any(axis=1) if front[place] else
                                 front & (self.values <= row).all(axis=1)).tolist()}
        return [other for other in open_ if other in found and other != place]

    def _dominating(self, place: int) -> np.ndarray:
        """Which points dominate this one for sure."""
        same, row = self._same(place), self.values[place]
        no_more = np.where(same, self.values <= row, self.high <= self.low[place])
        less = np.where(same, self.values < row, self.high < self.low[place])
        return no_more.all(axis=1) & less.any(axis=1)

    def _more(self, place: int) -> np.ndarray:
        """Marks, by objective, the points that are more than this one for sure."""
        return np.where(self._same(place), self.values > self.values[place],
                        self.low > self.high[place])

    def _same(self, place: int) -> np.ndarray:
        return np.array([[core == self.cores[place]] for core in self.cores])


def hypervolume(values: np.ndarray, reference: Sequence[float]) -> float:
    """The exact hypervolume of rows below a reference point, by slices along the last objective
    (HSO, While et al. 2006).
    """
    limits = np.asarray(reference, float)
    inside = np.asarray(values, float).reshape(-1, len(limits))
    inside = inside[(inside < limits).all(axis=1)]
    return _volume(inside[non_dominated(inside)], limits) if len(inside) else 0.0


def _volume(front: np.ndarray, limits: np.ndarray) -> float:
    if len(limits) == 1:
        return float(limits[0] - front[:, 0].min())
    order = np.argsort(front[:, -1], kind="stable")
    front, edges = front[order], [*front[order, -1].tolist(), float(limits[-1])]
    total = 0.0
    for number in range(len(front)):
        height = edges[number + 1] - edges[number]
        if height > 0:
            slab = front[:number + 1, :-1]
            total += height * _volume(slab[non_dominated(slab)], limits[:-1])
    return total


def gains(front: np.ndarray, candidates: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """The gain of each candidate: an estimate of the hypervolume that it would add.

    It is the number of samples, points of the objectives' space, that the candidate dominates and
    no row of the front does.
    """
    free = samples
    for row in front:
        free = free[~(row <= free).all(axis=1)]
    return np.array([(candidate <= free).all(axis=1).sum() for candidate in candidates])
