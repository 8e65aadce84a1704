"""Random nodes of functions of elements, and of reductions."""

import numpy as np

from tests.support.gradients.draws import Drawn, Rng, broadcast_shapes, shape, some

def where(rng: Rng) -> Drawn:
    first, a, b = broadcast_shapes(rng, 3)
    return Drawn((rng.random(first) < 0.5, some(rng, *a), some(rng, *b)))


def clip(rng: Rng) -> Drawn:
    low, high = rng.uniform(-1, 0), rng.uniform(0, 1)
    ends = [(low, high), (-np.inf, high), (low, np.inf), (high, low)][rng.integers(4)]
    return Drawn((some(rng, *shape(rng)),), {"lo": ends[0], "hi": ends[1]})


def fake_quantize(rng: Rng) -> Drawn:
    extents = shape(rng)
    axis = int(rng.integers(max(len(extents), 1)))
    channels = extents[axis:axis + 1] if rng.random() < 0.5 else ()
    return Drawn((some(rng, *extents), rng.uniform(0.1, 0.5, channels)),
                 {"axis": axis, "lo": -int(rng.integers(5)), "hi": int(rng.integers(1, 5))})


def leaky(rng: Rng) -> Drawn:
    return Drawn((some(rng, *shape(rng)),), {"alpha": rng.uniform(-0.5, 0.5)})


def reduced(rng: Rng) -> Drawn:
    extents = shape(rng)
    axes = sorted(rng.permutation(len(extents))[:rng.integers(0, len(extents) + 1)].tolist())
    return Drawn((some(rng, *extents),), {"axes": axes, "keepdims": int(rng.integers(2))})


def running(rng: Rng) -> Drawn:
    extents = shape(rng, 1)
    exclusive, reverse = rng.integers(0, 2, 2).tolist()
    return Drawn((some(rng, *extents),), {"axis": int(rng.integers(len(extents))),
                                          "exclusive": exclusive, "reverse": reverse})
