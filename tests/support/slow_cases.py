"""Many cases of one test, of which the fast tests take some."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import product
from typing import Any

import pytest

__all__ = ["each_once", "some_fast", "some_of_each"]


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


def some_of_each(step: int, name: str, cases: Sequence[Any], kind: Callable[[Any], Hashable],
                 ids: Any = str) -> Any:
    """Parametrizes a test with all cases; of each kind all but each `step`-th, from the first on,
    are slow.
    """
    met: Counter[Hashable] = Counter()
    params = []
    for case in cases:
        place = met[kind(case)]
        params.append(pytest.param(case, marks=() if place % step == 0 else pytest.mark.slow))
        met[kind(case)] += 1
    return pytest.mark.parametrize(name, params, ids=ids)
