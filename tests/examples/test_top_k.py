"""examples/machines/top_k.py: the component and its meaning, and networks that end in TopK."""

import numpy as np
import pytest

from accel.machine.streams import StreamShape
from examples.machines.top_k import MOST, TopK, greatest
from tests.support.components import rows_through

FIELDS = {"count": "uint16", "k": "uint8", "part": "uint8", "least": "uint8"}


def shape_of(batch: int, lanes: int, dtype: str) -> StreamShape:
    entry = ((batch, lanes), dtype)
    return StreamShape(entry, entry, FIELDS)


def random_rows(rng: np.random.Generator, batch: int, lanes: int, dtype: str, count: int) -> list:
    """Rows of few numbers, so that many are equal, of all parts; some count beyond their end."""
    rows = []
    for place in range(count):
        n = int(rng.integers(1, 9))
        rows.append((rng.integers(-4, 4, (n, batch, lanes)).astype(dtype), {
            "count": int(rng.integers(0, n * lanes + 3)), "k": int(rng.integers(0, MOST + 2)),
            "part": place % 3, "least": place // 3 % 2}))
    return rows


@pytest.mark.parametrize(("batch", "lanes", "dtype", "p_in", "p_out"), [
    (1, 4, "int8", 0, 0), (2, 4, "int8", 0.3, 0.3), (1, 2, "int16", 0, 0.7), (2, 32, "int8", 0, 0)])
def test_component_is_the_meaning(batch, lanes, dtype, p_in, p_out) -> None:
    rng, shape = np.random.default_rng(lanes), shape_of(batch, lanes, dtype)
    rows = random_rows(rng, batch, lanes, dtype, 12)
    results, _ = rows_through(TopK(shape), shape, rows, None, p_in, p_out)
    for (row, fields), result in zip(rows, results, strict=True):
        np.testing.assert_array_equal(result, greatest(row[None], **fields)[0])


def test_places_of_more_than_a_byte() -> None:
    shape, rng = shape_of(1, 64, "int8"), np.random.default_rng(2)
    row = rng.integers(-100, 100, (9, 1, 64)).astype(np.int8)
    fields = {"count": 570, "k": 5, "least": 0}
    row[8, 0, 50] = 127                                     # place 562
    results, _ = rows_through(TopK(shape), shape, [(row, fields | {"part": part})
                                                   for part in range(3)])
    values, low, high = (result[0, 0, :5].astype(int) for result in results)
    order = np.argsort(-row.reshape(-1)[:570].astype(int), kind="stable")[:5]
    assert order[0] == 562
    np.testing.assert_array_equal((low & 255) + 256 * (high & 255), order)
    np.testing.assert_array_equal(values, row.reshape(-1)[order])


def test_time_of_a_row() -> None:
    shape = shape_of(1, 4, "int8")
    rows = random_rows(np.random.default_rng(1), 1, 4, "int8", 8)
    _, times = rows_through(TopK(shape), shape, rows)
    assert np.diff(times).tolist() == [6 * len(row) for row, _ in rows[1:]]
