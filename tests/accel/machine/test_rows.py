"""MemoryRows of memories: whole entries, and chunks in slices of one row and the next."""

import pytest

from accel.machine.structure.rows import MemoryRows


@pytest.mark.parametrize(("chunk", "entry", "entries", "slice_bytes", "divides"), [
    (8, 32, 1, 8, False), (8, 4, 2, 8, False), (8, 12, 1, 4, True), (16, 12, 2, 8, True),
    (64, 25, 4, 4, True), (1, 3, 1, 1, True), (64, 3, 32, 32, True), (8, 24, 1, 8, True),
    (128, 1, 128, 128, False),
])
def test_a_row_holds_whole_entries_and_is_as_long_as_a_chunk(chunk, entry, entries, slice_bytes,
                                                             divides) -> None:
    rows = MemoryRows(chunk, entry, 100)
    assert (rows.entries, rows.slice_bytes, rows.divides) == (entries, slice_bytes, divides)
    assert rows.row_bytes == entries * entry < 2 * max(chunk, entry)
    assert rows.row_bytes >= chunk and rows.chunk_slices <= rows.slices
    assert rows.count * rows.entries >= 100 > (rows.count - 1) * rows.entries
    assert rows.chunks == -(-100 * entry // chunk)
