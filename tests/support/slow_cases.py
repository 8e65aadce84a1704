"""Many cases of one test, of which the fast tests take some."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

__all__ = ["each_once", "some_fast"]


def some_fast(step: int, names: str, cases: Sequence[tuple]) -> Any:
    """Parametrizes a test with all cases; all but each `step`-th, from the first on, are slow."""
    return pytest.mark.parametrize(names.split(", "), [
        pytest.param(*case, marks=() if place % step == 0 else pytest.mark.slow)
        for place, case in enumerate(cases)])


def each_once(names: str, *axes: Sequence[Any], ids: Any = None) -> Any:
    """Parametrizes a test with the product of `axes`, one for each name. As many cases as the
    longest axis has values are fast, so that every value of every axis is in one of them.
    """
    fast = {tuple(place % len(axis) for axis in axes) for place in range(max(map(len, axes)))}
    return pytest.mark.parametrize(names.split(", "), [
        pytest.param(*(axis[place] for axis, place in zip(axes, places, strict=True)),
                     marks=() if places in fast else pytest.mark.slow)
        for places in product(*(range(len(axis)) for axis in axes))], ids=ids)
