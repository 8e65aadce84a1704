"""Random nodes of operators whose places are computed."""

import numpy as np

from tests.support.gradients.draws import Array, Drawn, Rng, shape, some

def places(rng: Rng, extent: int, *extents: int) -> Array:
    """Some lie outside."""
    return rng.integers(-extent - 1, extent + 2, extents).astype(
        (np.int64, np.int32)[rng.integers(2)])


def gather(rng: Rng) -> Drawn:
    extents = shape(rng, 1, 3)
    axis = int(rng.integers(len(extents)))
    return Drawn((some(rng, *extents), places(rng, extents[axis], *shape(rng, 0, 2))),
                 {"axis": axis})


def gather_elements(rng: Rng) -> Drawn:
    extents = shape(rng, 1, 3)
    axis = int(rng.integers(len(extents)))
    seen = [int(rng.integers(1, n + 1)) if place != axis else int(rng.integers(1, 6))
            for place, n in enumerate(extents)]
    return Drawn((some(rng, *extents), places(rng, extents[axis], *seen)), {"axis": axis})


def gather_nd(rng: Rng) -> Drawn:
    extents = shape(rng, 2, 4)
    batch = int(rng.integers(0, len(extents)))
    depth = int(rng.integers(1, len(extents) - batch + 1))
    at = np.stack([places(rng, n, *extents[:batch], 3).astype(np.int64)
                   for n in extents[batch:batch + depth]], -1)
    return Drawn((some(rng, *extents), at), {"batch_dims": batch})


def resample(rng: Rng) -> Drawn:
    extents = shape(rng, 1, 3)
    axis, (n, k) = int(rng.integers(len(extents))), rng.integers(1, 5, 2).tolist()
    return Drawn((some(rng, *extents), places(rng, extents[axis], n, k), some(rng, n, k)),
                 {"axis": axis})


def scatter(rng: Rng) -> Drawn:
    a, n, m, b = rng.integers(1, 5, 4).tolist()
    at = places(rng, n, a, m, b if rng.random() < 0.5 else 1)
    reduction = ("add", "max", "min")[rng.integers(3)]
    return Drawn((some(rng, a, n, b), at, some(rng, a, m, b)), {"reduction": reduction})
