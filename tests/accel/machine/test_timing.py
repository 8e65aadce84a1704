from dataclasses import FrozenInstanceError

import pytest

from accel.machine.timing import TIMING, CoreTiming


def test_a_latency_that_follows_from_others_follows():
    slower = CoreTiming(nest_cycles=5)
    assert slower.address_cycles == TIMING.address_cycles + 2
    assert slower.issue_cycles == TIMING.issue_cycles + 2
    assert slower.load_cycles == TIMING.load_cycles + 2
    assert CoreTiming(over_cycles=4).end_cycles == TIMING.end_cycles + 1


def test_every_number_has_a_meaning():
    rows = list(TIMING.rows())
    assert len({meaning for _, _, meaning in rows}) == len(rows) > 20
    assert all(number > 0 and meaning for _, number, meaning in rows)


@pytest.mark.parametrize("bus_bytes, beats", [(4, 32), (8, 16), (64, 16)])
def test_stores_have_room_for_two_bursts_and_16_beats(bus_bytes, beats):
    assert TIMING.write_room(bus_bytes) == beats


def test_it_is_frozen():
    with pytest.raises(FrozenInstanceError):
        TIMING.ahead = 8        # type: ignore[misc]


def test_a_run_must_not_be_called_deadlocked_before_its_errors_are_known_wrong():
    with pytest.raises(ValueError, match=r"^patience_cycles must be above status_cycles \(5\), so "
                                         r"that every error is known before a run ends, not 5$"):
        CoreTiming(patience_cycles=5)
