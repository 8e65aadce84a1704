"""Checks of a user's own reducers against their declarations: tried on small numbers."""

from functools import lru_cache

import numpy as np

from compiler.te import Reducer, is_float, numpy_dtype

from .interpret import evaluate

_LANES = 512

Values = list[np.ndarray]


@lru_cache
def check_reducer(reducer: Reducer) -> None:
    """ValueError with an example where the reducer is not commutative or associative, or where
    its identity changes a value. Floats may round."""
    rng = np.random.default_rng(0)
    a, b, c = ([_some(dtype, rng) for dtype in reducer.dtypes] for _ in range(3))
    identity = [np.full(_LANES, const.value, numpy_dtype(const.dtype))
                for const in reducer.identity]
    _compare(reducer, "its identity must change nothing", [identity, a],
             _combined(reducer, identity, a), a)
    _compare(reducer, "it must be commutative", [a, b],
             _combined(reducer, a, b), _combined(reducer, b, a))
    _compare(reducer, "it must be associative", [a, b, c],
             _combined(reducer, _combined(reducer, a, b), c),
             _combined(reducer, a, _combined(reducer, b, c)))


def _some(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Positive numbers: a value may be a count."""
    low, high = (0, 1) if dtype == "bool" else (1, 5)
    return rng.integers(low, high, _LANES, endpoint=True).astype(numpy_dtype(dtype))


def _combined(reducer: Reducer, left: Values, right: Values) -> Values:
    env = dict(zip((*reducer.left, *reducer.right), (*left, *right), strict=True))
    return [evaluate(value, env, _LANES) for value in reducer.combined]


def _compare(reducer: Reducer, fact: str, given: list[Values], first: Values, second: Values):
    same = np.ones(_LANES, bool)
    for dtype, x, y in zip(reducer.dtypes, first, second, strict=True):
        same &= np.isclose(x, y, rtol=1e-3, atol=1e-3) if is_float(dtype) else x == y
    if not same.all():
        at = int(np.flatnonzero(~same)[0])
        operands = " and ".join(_text(values, at) for values in given)
        raise ValueError(f"Reducer {reducer.name} cannot be used: {fact}, but {operands} give "
                         f"{_text(first, at)}, not {_text(second, at)}")


def _text(values: Values, at: int) -> str:
    return f"({', '.join(str(value[at].item()) for value in values)})"
