"""Streams as arrays: sets of every shape, and who wrote last what another stream reads."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compiler.latency_hiding import (LOOPS, SETS, AddressSet, Batch, Event, last_writers, measure,
                                     token_masks)
from compiler.latency_hiding.arrays import batch_of

UNITS = {"load": 0, "store": 1}
loops = st.lists(st.tuples(st.integers(1, 4), st.integers(-9, 9)), max_size=3)


def walked(start: int, length: int, around: list[tuple[int, int]]) -> Batch:
    """One event that writes a set with loops."""
    return Batch(np.zeros(1, np.uint8), np.zeros(1, np.int64), np.ones(1, np.int32),
                 np.array([(start, length, 0, len(around), 0, 1)], SETS), np.array(around, LOOPS))


def plain(events: list[Event]) -> Batch:
    return batch_of(events, UNITS, {"m": 0})


@given(st.integers(100, 120), st.integers(1, 6), loops)
def test_a_set_with_loops_is_its_addresses(start, length, around) -> None:
    places = np.array([start])
    for extent, stride in around:
        places = (places[:, None] + np.arange(extent) * stride).reshape(-1)
    every = {int(place) + step for place in places for step in range(length)}
    writing = walked(start, length, around)
    reading = plain([Event("load", (AddressSet("m", (at, at + 1)),)) for at in range(220)])
    assert measure([writing], 1).stop[0] == max(every) + 1
    found = last_writers([writing], np.array([7]), [reading], measure([writing, reading], 1))
    assert set(np.flatnonzero(found == 7).tolist()) == every


def test_the_last_writer_counts_and_some_do_not() -> None:
    def write(start: int, stop: int) -> Event:
        return Event("store", (AddressSet("m", (start, stop), True),))

    writing = plain([write(0, 8), write(4, 6), write(0, 8)])
    reading = plain([Event("load", (AddressSet("m", (start, start + 1)),)) for start in (0, 4, 9)])
    known = measure([writing, reading], 1)
    numbers = np.array([3, 5, -1])
    assert last_writers([writing], numbers, [reading], known).tolist() == [3, 5, -1]
    whole = plain([Event("load", (AddressSet("m", (0, 9)),))])
    assert last_writers([writing], numbers, [whole], known).tolist() == [5]


def test_batches_are_one_stream() -> None:
    """Tokens of a stream in two batches are those of the whole."""
    events = [Event("load", (AddressSet("m", (0, 4), True),)),
              Event("store", (AddressSet("m", (0, 4)),)),
              Event("load", (AddressSet("m", (2, 3), True),))]
    whole, parts = [plain(events)], [plain(events[:1]), plain(events[1:])]
    expected = token_masks(whole, 2, measure(whole, 1))
    for masks, mine in zip(expected, token_masks(parts, 2, measure(parts, 1)), strict=True):
        assert masks.tolist() == mine.tolist()
    assert expected[0].tolist() == [0, 1, 2] and expected[1].tolist() == [2, 1, 0]
