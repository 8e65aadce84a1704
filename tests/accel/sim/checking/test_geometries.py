"""Random machines are legal, and the simulators agree on them."""

from dataclasses import fields

import pytest

from accel.machine.config import BUFFERS, AccelConfig
from accel.machine.machine import Machine
from accel.machine.timing import CoreTiming
from accel.sim.checking.geometries import check_geometries, random_config
from accel.sim.programs.generate import generate


def test_a_seed_is_a_geometry():
    assert random_config(3) == random_config(3) != random_config(4)
    assert random_config(3).name == "random-3"


def test_geometries_differ_in_everything():
    configs = [random_config(seed) for seed in range(100)]
    for field in AccelConfig.__dataclass_fields__:
        if field not in ("clock_mhz", "operand", "accumulator", "output", "weight", "records",
                         "memory", "structure"):
            assert len({getattr(config, field) for config in configs}) >= 3, field
    assert all(config.macs_per_cycle <= 128 for config in configs)


def test_every_number_of_the_hardware_differs_from_the_shipped_one():
    configs = [random_config(seed) for seed in range(100)]
    for one in fields(CoreTiming):
        values = {getattr(config.timing, one.name) for config in configs}
        assert len(values) >= 3 or one.name == "burst_bytes", one.name      # that is the port's
        assert one.default in values


def test_buffers_go_down_to_the_fewest_entries():
    configs = [random_config(seed) for seed in range(100)]
    for buffer in BUFFERS:
        assert min(config.buffers[buffer].depth for config in configs) == 4


@pytest.mark.parametrize("seed", range(10))
def test_there_are_programs_for_every_geometry(seed):
    machine = Machine(random_config(seed))
    assert generate(machine, 0).program.count > 8


@pytest.mark.slow
def test_the_simulators_agree_on_random_geometries():
    for report in check_geometries(12, 300):
        assert report.ok, f"{report.machine.config} {report.difference}"
