"""Arithmetic of bodies by NumPy, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from accel.sim.evaluate import evaluate, rshift_rne
from compiler import te


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
def test_every_amount_rounds_half_to_even(dtype, rng):
    bounds = np.iinfo(dtype)
    values = [bounds.min, bounds.max, 0, 1, 3, *rng.integers(bounds.min, bounds.max, 20, dtype)]
    for amount in range(bounds.bits):
        tie = (1 << amount >> 1) % (bounds.max + 1)
        given = np.array([*values, tie], dtype)
        found = rshift_rne(given, np.full(len(given), amount, dtype))
        assert found.tolist() == [round(Fraction(int(v), 1 << amount)) for v in given]


def test_what_numpy_cannot_evaluate_is_named():
    with pytest.raises(TypeError, match=r"^Body of an instruction must be one that NumPy can "
                                        r"evaluate, not Call\(function='erf'"):
        evaluate(te.expr.Call("erf", (te.const(1.0, "float32"),)), (), {}, {}, 1)
