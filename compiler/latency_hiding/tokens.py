"""Insertion of tokens: the fewest that make every execution agree with stream order.

One linear scan, native (`tokens.cpp`). For each address the last event of each unit that
wrote it, and that read it, is kept (as the event's number within its unit); for each event a vector
clock: how many events of every unit are known to have finished when it starts. An access needs the
last writers of its addresses to have finished, a write also their last readers. Where the clock of
the event's unit does not say so already, the event waits for a signal of the latest such event;
events are taken latest first, since what a later one knows may make an earlier one's signal
unnecessary.
"""

import ctypes
from collections.abc import Iterable, Sequence

import numpy as np

from .arrays import MOST_UNITS, Batch, Measures, batch_of, library, measure
from .events import Event, Tokens

CAPACITY = 255
"""Tokens that a counter of eight bits holds."""


def insert_tokens(events: Iterable[Event], units: Sequence[str],
                  capacity: int = CAPACITY) -> list[Tokens]:
    """Tokens for each event, so that the stream is legal (see `check`).

    A pair of events is ordered by at most one token, an ordering that follows from the order
    within units and from other tokens by none. At no point of the stream do more than `capacity`
    tokens of a pair wait to be taken.
    """
    stream = list(events)
    numbers = {unit: number for number, unit in enumerate(units)}
    for event in stream:
        if event.unit not in numbers:
            raise ValueError(f"Unit of {event.label!r} must be one of {', '.join(units)}, "
                             f"not {event.unit!r}")
    memories: dict[str, int] = {}
    batch = batch_of(stream, numbers, memories)
    waits, signals = token_masks([batch], len(units), measure([batch], len(memories)), capacity)
    return [Tokens(_named(units, wait), _named(units, signal))
            for wait, signal in zip(waits.tolist(), signals.tolist(), strict=True)]


def _named(units: Sequence[str], mask: int) -> tuple[str, ...]:
    return tuple(unit for number, unit in enumerate(units) if mask >> number & 1)


def token_masks(batches: Iterable[Batch], units: int, measures: Measures,
                capacity: int = CAPACITY) -> tuple[np.ndarray, np.ndarray]:
    """As `insert_tokens`, of a stream in batches: for each event the mask of the units from which
    it takes a token, and of those to which it gives one (uint32).
    """
    if capacity < 1:
        raise ValueError(f"Capacity of a counter must be at least 1, not {capacity!r}")
    if units > MOST_UNITS:
        raise ValueError(f"Units of a stream must be at most {MOST_UNITS}, not {units}")
    scans, count = library(), 0
    insertion = scans.insertion_new(units, capacity, len(measures.stop),
                                    measures.granule.ctypes.data, measures.stop.ctypes.data)
    try:
        for batch in batches:
            scans.insertion_take(insertion, ctypes.byref(batch.native()))
            count += len(batch)
        waits, signals = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
        scans.insertion_collect(insertion, waits.ctypes.data, signals.ctypes.data)
    finally:
        scans.insertion_free(insertion)
    return waits, signals
