"""Fronts of points with several objectives, all of which are to be least.

A point dominates another one if it is nowhere worse and somewhere better. The hypervolume of a
front is the volume of what it dominates within a reference point.
"""

from collections.abc import Sequence

import numpy as np

__all__ = ["gains", "hypervolume", "non_dominated"]


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
