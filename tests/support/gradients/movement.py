"""Random nodes of operators that move elements."""

import numpy as np

from tests.support.gradients.draws import Drawn, Rng, partly, shape, some

def reshape(rng: Rng) -> Drawn:
    extents = shape(rng)
    flat = (int(np.prod(extents)), 1) if rng.random() < 0.5 else extents[::-1]
    return Drawn((some(rng, *extents),), {"shape": flat})


def expand(rng: Rng) -> Drawn:
    whole = shape(rng)
    return Drawn((some(rng, *partly(rng, whole)),), {"shape": whole})


def upsample(rng: Rng) -> Drawn:
    return Drawn((some(rng, *shape(rng, 4)),), {"factors": rng.integers(1, 4, 2).tolist()})


def cut(rng: Rng) -> Drawn:
    extents = shape(rng, 1, extent=7)
    begin = [int(rng.integers(n)) for n in extents]
    end = [int(rng.integers(low + 1, n + 1)) for low, n in zip(begin, extents, strict=True)]
    step = rng.integers(1, 4, len(extents)).tolist()
    return Drawn((some(rng, *extents),), {"begin": begin, "end": end, "step": step})


def transpose(rng: Rng) -> Drawn:
    extents = shape(rng, 1)
    return Drawn((some(rng, *extents),), {"perm": rng.permutation(len(extents)).tolist()})


def reverse(rng: Rng) -> Drawn:
    extents = shape(rng, 1)
    axes = rng.permutation(len(extents))[:rng.integers(len(extents) + 1)]
    return Drawn((some(rng, *extents),), {"axes": sorted(axes.tolist())})


def pad(rng: Rng) -> Drawn:
    extents = shape(rng, 1, 3, extent=5)
    mode = ("constant", "edge", "reflect", "wrap")[rng.integers(4)]
    low, high = (rng.integers(-1, 4, len(extents)) for _ in "ab")
    between = rng.integers(0, 3, len(extents)) * (mode == "constant")
    reach = (np.array(extents) - 1) * (between + 1) + 1
    low = np.where(reach + low + high < 1, 1, low)
    attrs = {"before": low.tolist(), "after": high.tolist(), "mode": mode}
    if mode != "constant":
        return Drawn((some(rng, *extents),), attrs)
    return Drawn((some(rng, *extents), some(rng)), {**attrs, "between": between.tolist()})


def concat(rng: Rng) -> Drawn:
    extents = shape(rng, 1)
    axis = int(rng.integers(len(extents)))
    parts = [some(rng, *extents[:axis], int(n), *extents[axis + 1:])
             for n in rng.integers(1, 4, rng.integers(1, 4))]
    return Drawn(tuple(parts), {"axis": axis})


def put_place(rng: Rng) -> Drawn:
    extents = shape(rng, 1)
    axis = int(rng.integers(len(extents)))
    row = some(rng, *extents[:axis], 1, *extents[axis + 1:])
    place = np.array([rng.integers(-1, extents[axis] + 1)], np.int64)
    return Drawn((some(rng, *extents), row, place), {"axis": axis})
