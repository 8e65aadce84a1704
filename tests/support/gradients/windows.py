"""Random nodes of convolutions and pools."""

import numpy as np

from compiler.ops.registry import find
from tests.support.gradients.draws import Drawn, Rng, shape, some

def window(rng: Rng, rank: int, kernel: list[int], extra: int = 0) -> dict:
    """Strides, pads and dilations of a window; pads are smaller than the kernel, and `extra`."""
    pads = [int(rng.integers(0, k + extra)) for k in (*kernel, *kernel)]
    return {"strides": rng.integers(1, 4, rank).tolist(), "pads": pads,
            "dilations": rng.integers(1, 3, rank).tolist()}


def fitting(rng: Rng, kernel: list[int], attrs: dict) -> list[int]:
    """Extents that hold one window at least."""
    rank = len(kernel)
    return [max(1, (k - 1) * d + 1 - attrs["pads"][axis] - attrs["pads"][rank + axis])
            + int(rng.integers(0, 5)) for axis, (k, d) in enumerate(
                zip(kernel, attrs["dilations"], strict=True))]


def grouped(rng: Rng) -> tuple[int, int, int]:
    group, inward, outward = rng.integers(1, 4, 3).tolist()
    return group, inward, outward


def conv2d(rng: Rng) -> Drawn:
    return convolution(rng, 2, bias=rng.random() < 0.5)


def conv(rng: Rng) -> Drawn:
    return convolution(rng, int(rng.integers(1, 4)))


def convolution(rng: Rng, rank: int, bias: bool = False) -> Drawn:
    kernel = rng.integers(1, 4, rank).tolist()
    attrs, (group, inward, outward) = window(rng, rank, kernel, 2), grouped(rng)
    size = fitting(rng, kernel, attrs)
    arrays = [some(rng, int(rng.integers(1, 3)), group * inward, *size),
              some(rng, group * outward, inward, *kernel),
              *([some(rng, group * outward)] if bias else [])]
    return Drawn(tuple(arrays), {**attrs, "group": group})


def transposed(rng: Rng) -> Drawn:
    kernel, (group, inward, outward) = rng.integers(1, 4, 2).tolist(), grouped(rng)
    attrs = window(rng, 2, kernel)
    size = [int(rng.integers(1, 5)) + sum(attrs["pads"][axis::2]) for axis in range(2)]
    arrays = [some(rng, int(rng.integers(1, 3)), group * inward, *size),
              some(rng, group * inward, outward, *kernel), some(rng, group * outward)]
    return Drawn(tuple(arrays[:rng.integers(2, 4)]),
                 {**attrs, "group": group, "output_padding": rng.integers(0, 4, 2).tolist()})


def maxpool(rng: Rng) -> Drawn:
    return pool(rng, 2)


def pool_of_any(rng: Rng) -> Drawn:
    return pool(rng, int(rng.integers(1, 4)))


def pool(rng: Rng, rank: int) -> Drawn:
    kernel = rng.integers(1, 4, rank).tolist()
    attrs = {**window(rng, rank, kernel), "kernel": kernel}
    x = some(rng, *rng.integers(1, 3, 2).tolist(), *fitting(rng, kernel, attrs))
    return Drawn((x,), attrs) if np.isfinite(find("pool_max").meaning(attrs, x)).all() else (
        pool(rng, rank))                # a window that sees pads alone


def average(rng: Rng) -> Drawn:
    kernel = rng.integers(1, 4, 2).tolist()
    attrs = {**window(rng, 2, kernel), "dilations": [1, 1]}
    x = some(rng, *rng.integers(1, 3, 2).tolist(), *fitting(rng, kernel, attrs))
    del attrs["dilations"]
    return Drawn((x,), {**attrs, "kernel": kernel, "include_pad": int(rng.integers(2))})


def image(rng: Rng) -> Drawn:
    return Drawn((some(rng, *shape(rng, 4)),))
