"""Floats of few bits: conversions of every number, and products whose sums are exact."""

import numpy as np

from compiler.ops.records.stored_floats import STORED_FLOATS, carrier, stored_array
from tests.support.operators.draws import Array, Draws, OperatorCase, of, window

_draws = Draws(61)
EIGHT = tuple(dtype for dtype in STORED_FLOATS if carrier(dtype) != dtype)


def _all(dtype: str) -> Array:
    """Numbers of the type, ties between them and what surrounds both, and what is beyond."""
    known = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float32) if dtype in EIGHT else (
        _draws.normal(60))
    known = np.sort(known[np.isfinite(known)])
    ties = (known[1:] + known[:-1]) / 2
    sides = np.concatenate([known, ties, np.nextafter(ties, of("float32", 0)),
                            np.nextafter(ties, of("float32", 1e9))])
    beyond = of("float32", [np.inf, 1e9, 465, 464, 63487, 61440, 1e-30, np.nan])
    beyond = beyond if dtype in EIGHT else beyond[:-1]
    whole = np.concatenate([sides, beyond])
    return np.concatenate([whole, -whole])[None]


def _few(dtype: str, *shape: int) -> Array:
    """Numbers whose products have exact sums."""
    return stored_array(_draws.integers(-4, 5, *shape).astype(np.float32) / 2, dtype)


def _product(op: str, element: str, weight: str, x: tuple[int, ...], w: tuple[int, ...],
             relu: int, **attrs) -> OperatorCase:
    scale = of("float32", 2.0 ** _draws.integers(-4, 1, w[0]))
    offset = _draws.integers(-8, 9, w[0]).astype(np.float32)
    return OperatorCase(op, {**attrs, "relu": relu, "element": element, "weight": weight,
                             "lanes": 4}, (_few(element, *x), _few(weight, *w), scale, offset))


CONVERSIONS = [case for dtype in STORED_FLOATS for case in (
    OperatorCase("encodefloat", {"axis": 0, "dtype": dtype}, (_all(dtype), of("float32", 1))),
    OperatorCase("encodefloat", {"axis": 1, "dtype": dtype},
                 (_draws.normal(4, 3, 5) * 300, of("float32", [0.25, 3.0, 1e-3]))),
    OperatorCase("decodefloat", {"axis": 0, "dtype": dtype}, (
        np.arange(256, dtype=np.uint8)[None] if dtype in EIGHT else _few(dtype, 3, 5),
        of("float32", 1))),
    OperatorCase("encodefloat", {"axis": 1, "dtype": dtype},
                 (_draws.normal(2, 3, 4, 5), of("float32", [0.7, 3.0, 1e-3]))),
    OperatorCase("decodefloat", {"axis": 1, "dtype": dtype}, (
        _few(dtype, 2, 3, 4, 5), of("float32", [0.7, 3.0, 1e-3]))))]

FLOAT_PRODUCTS = [
    _product("fconv2d", "float8_e4m3fn", "float8_e4m3fn", (2, 5, 6, 5), (3, 5, 3, 2), 1,
             **window((1, 2), (1, 0, 1, 1))),
    _product("fconv2d", "float8_e5m2", "float8_e4m3fn", (1, 3, 7, 7), (4, 3, 2, 2), 0,
             **window((1, 1), (0, 0, 0, 0), dilations=(2, 3))),
    _product("fconv2d", "bfloat16", "bfloat16", (1, 8, 3, 3), (2, 8, 1, 1), 0,
             **window((1, 1), (0, 0, 0, 0))),
    _product("fdense", "float8_e4m3fn", "float8_e5m2", (2, 3, 9), (5, 9), 1),
    _product("fdense", "bfloat16", "bfloat16", (3, 8), (2, 8), 0),
]
