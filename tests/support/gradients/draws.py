"""Random shapes and arrays, and what a random node of a gradient's test is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray

Rng = np.random.Generator


@dataclass(frozen=True)
class Drawn:
    """Attributes and inputs of a node; floats are what it is differentiated by."""

    inputs: tuple[Array, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


Draw = Callable[[Rng], Drawn]


def shape(rng: Rng, least: int = 0, most: int = 4, extent: int = 4) -> tuple[int, ...]:
    return tuple(rng.integers(1, extent + 1, rng.integers(least, most + 1)).tolist())


def some(rng: Rng, *extents: int) -> Array:
    return rng.standard_normal(extents)


def within(low: float, high: float) -> Callable[..., Array]:
    return lambda rng, *extents: rng.uniform(low, high, extents)


def partly(rng: Rng, whole: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to another."""
    cut = whole[rng.integers(0, len(whole) + 1):]
    return tuple(1 if rng.random() < 0.3 else extent for extent in cut)


def broadcast_shapes(rng: Rng, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast, of which none need be the whole."""
    whole = shape(rng)
    return [partly(rng, whole) for _ in range(count)]


def unary(values: Callable[..., Array] = some, **attrs: Any) -> Draw:
    return lambda rng: Drawn((values(rng, *shape(rng)),), attrs)


def binary(*values: Callable[..., Array]) -> Draw:
    return lambda rng: Drawn(tuple(value(rng, *extents) for value, extents in
                                   zip(values, broadcast_shapes(rng, len(values)), strict=True)))
