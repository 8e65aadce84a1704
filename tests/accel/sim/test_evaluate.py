"""Arithmetic of bodies by NumPy, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from accel.sim.evaluate import rshift_rne


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
def test_every_amount_rounds_half_to_even(dtype, rng):
    bounds = np.iinfo(dtype)
    values = [bounds.min, bounds.max, 0, 1, 3, *rng.integers(bounds.min, bounds.max, 20, dtype)]
    for amount in range(bounds.bits):
        tie = (1 << amount >> 1) % (bounds.max + 1)
        given = np.array([*values, tie], dtype)
        found = rshift_rne(given, np.full(len(given), amount, dtype))
        assert found.tolist() == [round(Fraction(int(v), 1 << amount)) for v in given]
