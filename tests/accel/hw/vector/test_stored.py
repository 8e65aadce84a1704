"""Floats of res and out, and float32 between: gates against ml_dtypes, for all numbers."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

from accel.datapath.floats import FORMATS
from accel.hw.vector.stored import narrowed, widened
from compiler.te import bits, numpy_dtype
from tests.support.amaranth_sim import simulate

EIGHT = [dtype for dtype in FORMATS if bits(dtype) == 8]


def results(make, width, values):
    """What `make` gives for each of the values, numbers of so many bits."""
    m, value = Module(), Signal(width)
    result = make(value)
    made = Signal(len(result))
    m.d.sync += made.eq(result)
    found = []

    async def bench(ctx):
        for one in values:
            ctx.set(value, int(one))
            await ctx.tick()
            found.append(ctx.get(made))

    simulate(m, bench)
    return found


def as_float32(dtype):
    """The number of each code in float32, with one NaN, as bits."""
    known = np.arange(1 << bits(dtype), dtype=f"uint{bits(dtype)}").view(numpy_dtype(dtype))
    wide = known.astype(np.float32)
    wide[np.isnan(wide)] = np.nan
    return wide


@pytest.mark.parametrize("dtype", EIGHT)
def test_every_number_is_widened(dtype):
    assert results(lambda value: widened(value, FORMATS[dtype]), 8, range(256)) == (
        as_float32(dtype).view(np.uint32).tolist())


@pytest.mark.parametrize("dtype", EIGHT)
def test_every_number_is_narrowed_again(dtype):
    wide = as_float32(dtype)
    codes = np.where(np.isnan(wide), FORMATS[dtype].nan, np.arange(256))
    assert results(lambda value: narrowed(value, FORMATS[dtype]), 32, wide.view(np.uint32)) == (
        codes.tolist())
