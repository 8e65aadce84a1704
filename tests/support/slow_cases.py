"""Many cases of one test, of which the fast tests take some."""

from collections.abc import Sequence
from typing import Any

import pytest

__all__ = ["some_fast"]


def some_fast(step: int, names: str, cases: Sequence[tuple]) -> Any:
    """Parametrizes a test with all cases; all but each `step`-th, from the first on, are slow."""
    return pytest.mark.parametrize(names.split(", "), [
        pytest.param(*case, marks=() if place % step == 0 else pytest.mark.slow)
        for place, case in enumerate(cases)])
