"""A Gaussian process over machines: what a figure is likely to be where it was not measured.

Its kernel is a Gaussian with a length of its own for each coordinate (automatic relevance
determination; Rasmussen and Williams, 2006, chapters 2 and 5). The lengths are those of `LENGTHS`
that explain the measurements best, found one coordinate at a time.
"""

import numpy as np

LENGTHS = (0.15, 0.3, 0.6, 1.2, 2.5, 6.0)   # of coordinates from 0 to 1
NOISE = 1e-6                                # of variance: figures are exact
SWEEPS = 2


def predicted(known: np.ndarray, values: np.ndarray, wanted: np.ndarray
              ) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations at `wanted` (points, coordinates), from the values at `known`.
    """
    low = np.minimum(known.min(axis=0), wanted.min(axis=0))
    span = np.maximum(known.max(axis=0), wanted.max(axis=0)) - low
    span[span == 0] = 1
    known, wanted = (known - low) / span, (wanted - low) / span
    mean, scale = values.mean(), values.std() or 1.0
    target = (values - mean) / scale
    squares = (known[:, None, :] - known[None, :, :]) ** 2
    lengths = _lengths(squares, target)
    lower = np.linalg.cholesky(_kernel(squares, lengths) + NOISE * np.eye(len(known)))
    across = _kernel((wanted[:, None, :] - known[None, :, :]) ** 2, lengths)
    weights = _solved(lower, target)
    solved = np.linalg.solve(lower, across.T)
    variance = np.clip(1 - (solved ** 2).sum(axis=0), 0, None)
    return mean + scale * (across @ weights), scale * np.sqrt(variance)


def _kernel(squares: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * (squares / lengths ** 2).sum(axis=-1))


def _solved(lower: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.linalg.solve(lower.T, np.linalg.solve(lower, target))


def _lengths(squares: np.ndarray, target: np.ndarray) -> np.ndarray:
    lengths = np.full(squares.shape[-1], 1.2)
    for _ in range(SWEEPS):
        for place in range(len(lengths)):
            found = []
            for length in LENGTHS:
                lengths[place] = length
                found.append(_likelihood(_kernel(squares, lengths), target))
            lengths[place] = LENGTHS[int(np.argmax(found))]
    return lengths


def _likelihood(kernel: np.ndarray, target: np.ndarray) -> float:
    """The logarithm of the likelihood, where the variance of the process is the best one."""
    try:
        lower = np.linalg.cholesky(kernel + NOISE * np.eye(len(target)))
    except np.linalg.LinAlgError:
        return -np.inf
    variance = float(target @ _solved(lower, target)) / len(target)
    if variance <= 0:
        return -np.inf
    return -len(target) / 2 * np.log(variance) - float(np.log(np.diag(lower)).sum())
