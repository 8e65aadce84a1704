"""examples/machines/gather.py: the component and its meaning, and networks that look rows up."""

import numpy as np
import pytest

from accel.machine.streams import StreamShape
from compiler.ops.registry import find
from examples.machines.gather import Gather, gathered
from tests.support.components import rows_through

ENTRIES = 64


def shape_of(batch: int, lanes: int, dtype: str, read_cycles: int = 2) -> StreamShape:
    entry = ((batch, lanes), dtype)
    return StreamShape(entry, entry, {"width": "uint16"}, (ENTRIES, (lanes,), dtype), read_cycles)


def random_rows(rng: np.random.Generator, batch: int, lanes: int, dtype: str, count: int) -> list:
    info = np.iinfo(dtype)
    return [(rng.integers(info.min, info.max + 1, (int(rng.integers(1, 6)), batch, lanes), dtype),
             {"width": int(rng.integers(1 << 16))}) for _ in range(count)]


def the_table(rng: np.random.Generator, lanes: int, dtype: str) -> np.ndarray:
    return rng.integers(-100, 100, (ENTRIES, lanes)).astype(dtype)


@pytest.mark.parametrize(("batch", "lanes", "dtype", "p_in", "p_out", "read_cycles"), [
    (1, 4, "int8", 0, 0, 2), (2, 4, "int8", 0.3, 0.3, 3), (4, 2, "int8", 0, 0.7, 2),
    (1, 2, "int16", 0.3, 0, 4)])
def test_component_is_the_meaning(batch, lanes, dtype, p_in, p_out, read_cycles) -> None:
    rng, shape = np.random.default_rng(lanes), shape_of(batch, lanes, dtype, read_cycles)
    table, rows = the_table(rng, lanes, dtype), random_rows(rng, batch, lanes, dtype, 12)
    results, _ = rows_through(Gather(shape), shape, rows, table, p_in, p_out)
    for (row, fields), result in zip(rows, results, strict=True):
        np.testing.assert_array_equal(result, gathered(row[None], table, **fields)[0])


@pytest.mark.parametrize(("batch", "read_cycles"), [(1, 2), (2, 2), (1, 5)])
def test_time_of_a_row(batch: int, read_cycles: int) -> None:
    rng, shape = np.random.default_rng(1), shape_of(batch, 2, "int8", read_cycles)
    rows = random_rows(rng, batch, 2, "int8", 8)
    _, times = rows_through(Gather(shape), shape, rows, the_table(rng, 2, "int8"))
    assert np.diff(times).tolist() == [batch * len(row) for row, _ in rows[1:]]


def test_meaning_is_that_of_the_operator() -> None:
    rng, lanes, width = np.random.default_rng(5), 4, 3
    table = rng.integers(-128, 128, (20, width * lanes - 1)).astype(np.int8)
    bytes_ = find("numbers_in_bytes").meaning({"rows": 20}, rng.integers(-20, 20, (7,)))
    wanted = find("qgather").meaning({}, bytes_, table)
    blocks = np.zeros((64, lanes), np.int8)
    blocks[:60] = np.pad(table, ((0, 0), (0, 1))).reshape(60, lanes)
    rows = rng.integers(-128, 128, (7, 1, 1, lanes)).astype(np.int8)
    rows[:, 0, 0, :2] = bytes_
    results = gathered(np.repeat(rows, width, axis=1), blocks, width)
    np.testing.assert_array_equal(results.reshape(7, -1)[:, :-1], wanted)
