"""Coefficients that are never negative, fitted to synthesized machines by least squares.

Rows are weighted by what is fitted, so that errors count by their share. The method is that of
Lawson and Hanson, *Solving Least Squares Problems* (1974), chapter 23.
"""

from math import ceil

import numpy as np

ROUNDS = 1000
ENOUGH = 1e-9               # of the greatest value: what is below that is rounding

SHARE = 0.9                 # of machines that an interval holds

DIGITS = 4                  # of a coefficient, so that a fit gives the same bytes anywhere


def fitted(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The coefficients x >= 0 that minimize ``|rows @ x - values|``; what adds no more to any
    value than rounding does is 0.

    Parameters
    ----------
    rows : (samples, features), of which no column is zero.
    values : (samples,).
    """
    scale = np.abs(rows).max(axis=0)
    matrix = rows / scale
    active, x = np.zeros(matrix.shape[1], bool), np.zeros(matrix.shape[1])
    noise = ENOUGH * np.abs(values).max()
    for _ in range(ROUNDS):
        gradient = matrix.T @ (values - matrix @ x)
        gradient[active] = 0
        best = int(np.argmax(gradient))
        if gradient[best] <= noise:
            break
        active[best] = True
        while True:
            trial = np.zeros_like(x)
            trial[active] = np.linalg.lstsq(matrix[:, active], values, rcond=None)[0]
            negative = active & (trial <= 0)
            if not negative.any():
                break
            step = np.min(x[negative] / (x[negative] - trial[negative]))
            x = x + step * (trial - x)
            active &= x > noise
            x[~active] = 0
        x = trial
    return np.where(x > noise, x, 0.0) / scale


def rounded(value: float) -> float:
    """A figure with `DIGITS` digits."""
    return float(f"{value:.{DIGITS}g}")


def quantile(values: list[float]) -> float:
    """The bound that holds a further value with probability `SHARE`, if it is one of their kind:
    Vovk and others, *Algorithmic Learning in a Random World* (2005). Of too few values to say so,
    the greatest."""
    place = ceil(SHARE * (len(values) + 1))
    return sorted(values)[min(place, len(values)) - 1]
