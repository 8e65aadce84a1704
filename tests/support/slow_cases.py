"""Many cases of one test, of which the fast tests take some."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import product
from typing import Any

import pytest

__all__ = ["each_once", "leave_slow", "some_of_each"]


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


def leave_slow(items: Iterable[pytest.Item]) -> None:
    """Marks cases of tests with the mark ``one_in(step)`` as slow, all but each `step`-th, from the
    first on.
    """
    met: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark and not item.get_closest_marker("slow"):
            test = item.nodeid.partition("[")[0]
            if met[test] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            met[test] += 1
