"""examples/machines/softmax.py: the component, its meaning, and the compiler's operators."""

import numpy as np
import pytest

from accel.machine.streams import StreamShape
from compiler.ops.families.row_functions import RECIPROCALS, exponentials
from compiler.ops.registry import find
from examples.machines.softmax import FIELDS, FILL, WIDE, Softmax, softmax
from tests.support.components import rows_through


def shape_of(batch: int, lanes: int, read_cycles: int = 2) -> StreamShape:
    entry = ((batch, lanes), "int8")
    return StreamShape(entry, entry, FIELDS, (FILL, (WIDE,), "int16"), read_cycles)


def powers(scale: float) -> np.ndarray:
    high, low = exponentials(scale, masked=True)
    return (128 * high.astype(np.int16) + low).reshape(FILL, WIDE)


def random_rows(rng: np.random.Generator, batch: int, lanes: int, lengths: list[int]):
    """Rows with fields over all their ranges, and rows with those of a network."""
    for place, n in enumerate(lengths):
        fields = {name: int(rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1))
                  for name, dtype in FIELDS.items()}
        if place % 2:
            fields |= {"shift": int(rng.integers(30, 44)), "lo": -128, "hi": 127}
        fields["count"] = int(rng.integers(0, n * lanes + 2))
        yield rng.integers(-128, 128, (n, batch, lanes)).astype(np.int8), fields


@pytest.mark.one_in(3)
@pytest.mark.parametrize("batch, lanes, p_in, p_out, read_cycles", [
    (1, 4, 0, 0, 2), (2, 2, 0.4, 0.4, 3), (1, 2, 0.1, 0.7, 2)])
def test_component_is_the_meaning(batch, lanes, p_in, p_out, read_cycles):
    rng = np.random.default_rng(lanes)
    shape = shape_of(batch, lanes, read_cycles)
    table = rng.integers(-2**15, 2**15, (FILL, WIDE)).astype(np.int16)
    rows = list(random_rows(rng, batch, lanes, [1, 5, 2, 64, 1, 3]))
    results, _ = rows_through(Softmax(shape), shape, rows, table, p_in, p_out)
    for (row, fields), result in zip(rows, results, strict=True):
        np.testing.assert_array_equal(result, softmax(row[None], table, **fields)[0])


def test_time_of_a_row():
    shape = shape_of(1, 2)
    rows = list(random_rows(np.random.default_rng(1), 1, 2, [3, 1, 15, 4]))
    _, times = rows_through(Softmax(shape), shape, rows, powers(0.05))
    assert np.diff(times).tolist() == [max(n, 11) + 2 * n + 12 for n in (1, 15, 4)]


@pytest.mark.parametrize("length", [1, 4, 31, 200])
@pytest.mark.parametrize("scale", [0.004, 0.06, 0.7])
def test_meaning_is_that_of_the_operators(length, scale):
    rng = np.random.default_rng(length)
    attrs = {"mult": 40000, "shift": 35, "zp": -128, "lo": -128, "hi": 127}
    x = rng.integers(-128, 128, (50, length)).astype(np.int8)
    x[::3] //= 16
    high, low = exponentials(scale, masked=True)
    below = find("qbelow_max").meaning({}, x)
    wanted = find("qsoftmax").meaning(attrs, below, high, low, RECIPROCALS)
    entries = -(-length // 4)
    padded = rng.integers(-128, 128, (50, entries * 4)).astype(np.int8)
    padded[:, :length] = x
    results = softmax(padded.reshape(50, entries, 1, 4), powers(scale),
                      count=length, **attrs)
    np.testing.assert_array_equal(results.reshape(50, -1)[:, :length], wanted)
