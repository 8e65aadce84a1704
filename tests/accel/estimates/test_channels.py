"""Area of several channels of memory."""

import pytest

from dataclasses import replace

from accel.estimates.area import area
from accel.machine.config import preset
from accel.machine.machine import Machine


@pytest.mark.slow
def test_what_lies_before_channels_is_that_of_its_netlist() -> None:
    """Three clients have a queue of 32 beats of 33 or 36 bits for each channel: at least 18 cells
    of 16 rows of 4 bits."""
    tiny = preset("tiny-1x4x4")
    one, two, four = (area(Machine(replace(tiny, channels=count))) for count in (1, 2, 4))
    assert one.units["arbiter"] == area(Machine(tiny)).units["arbiter"]
    queues = [found.units["arbiter"]["distributed"].value for found in (two, four)]
    assert queues[0] >= 2 * 3 * 18 and queues[1] >= 4 * 3 * 18
    assert 1.6 * queues[0] < queues[1] < 2 * queues[0]
    logic = [found.units["arbiter"]["luts"].value for found in (one, two, four)]
    assert logic[0] < logic[1] < logic[2] < 10_000
    assert one.block_rams.value == two.block_rams.value == four.block_rams.value
    apart = [{name: unit["luts"].value for name, unit in found.units.items() if name != "arbiter"}
             for found in (one, two, four)]
    assert apart[0] == apart[1] == apart[2]
