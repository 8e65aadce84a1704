import re
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from accel.datapath.plan import plan
from accel.machine.config import AccelConfig, ConfigError, load, preset
from accel.machine.machine import Machine
from accel.machine.timing import TIMING, CoreTiming

FIELDS = fields(CoreTiming)


def test_a_latency_that_follows_from_others_follows():
    slower = CoreTiming(nest_cycles=5)
    assert slower.address_cycles == TIMING.address_cycles + 2
    assert slower.issue_cycles == TIMING.issue_cycles + 2
    assert slower.load_cycles == TIMING.load_cycles + 2
    assert CoreTiming(counter_cycles=4).end_cycles == TIMING.end_cycles + 1


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


@pytest.mark.parametrize("table, message", [
    ({"patience_cycles": 5}, "patience_cycles of the timing must be above status_cycles (5), so "
                             "that every error is known before a run ends, not 5"),
    ({"settling_cycles": 2}, "settling_cycles of the timing must be above seen_cycles (2), so "
                             "that what units report is what they do after the status, not 2"),
    ({"status_cycles": 4}, "status_cycles of the timing must be at least 5, in which the errors of "
                           "5 reporters meet, not 4"),
    ({"queue_cycles": 1}, "queue_cycles of the timing must be from 2 to 8, not 1"),
    ({"ahead": 0}, "ahead of the timing must be positive, not 0"),
    ({"beats": -1}, "beats of the timing must be positive, not -1"),
    ({"ahead": 17}, "ahead of the timing must be a power of two, not 17"),
    ({"beats": 8}, "beats of the timing must be from 16 to 256, not 8"),
    ({"burst_bytes": 128}, "burst_bytes of the timing must be 64, as the memory port has it, "
                           "not 128"),
    ({"token_bits": True}, "token_bits of the timing must be an integer, not True"),
    ({"latency": 3}, f"timing must have fields among {', '.join(one.name for one in FIELDS)}, not "
                     "latency"),
])
def test_what_no_hardware_has_is_refused_wrong(table, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        replace(preset("tiny-1x4x4"), timing=table)


def test_the_times_of_a_machine_are_a_table_of_its_file(tmp_path):
    config = replace(preset("tiny-1x4x4"), timing={"ahead": 8, "nest_cycles": 5})
    path = tmp_path / "mine.toml"
    path.write_text(config.to_toml())
    assert "\n[timing]\nnest_cycles = 5\nahead = 8\n" in config.to_toml()
    assert load(path) == config and load(path).timing == CoreTiming(ahead=8, nest_cycles=5)


def test_the_hash_of_a_machine_covers_its_times_where_they_are_its_own():
    tiny = preset("tiny-1x4x4")
    here, there = (Machine(replace(tiny, timing=table)) for table in ({}, {"beats": 64}))
    assert here.hash == Machine(tiny).hash != there.hash
    assert here.record.difference(there.record) == "timing.beats is 32, not 64"
    assert AccelConfig(**{**there.config.geometry(), "name": tiny.name}) == there.config


def test_the_latencies_of_datapaths_follow():
    tiny = preset("tiny-1x4x4")
    here, there = (plan(Machine(replace(tiny, timing=table)), "vector")
                   for table in ({}, {"read_cycles": 4}))
    assert there.operand_cycles == here.operand_cycles + 2
    assert there.write_cycles == here.write_cycles + 2 + there.latency - here.latency
