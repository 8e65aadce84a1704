"""Each number of the hardware is changed, nothing else, and simulators and RTL agree."""

from collections.abc import Mapping
from dataclasses import fields, replace

import pytest

from accel.machine.config import AccelConfig, ConfigError
from accel.machine.intrinsics import SHIPPED
from accel.machine.machine import Machine
from accel.machine.timing import CoreTiming
from accel.sim.checking.check import MAX_CYCLES, cases, compare, default_simulators
from accel.sim.checking.geometries import quick_simulators
from accel.sim.timed import cycle
from tests.accel.sim.timed.test_shared_timing import SIDES, require_same_cycles
from tests.support.effort import tries

SMALL = AccelConfig("small", 1, 2, 2, 128, 64, 64, 64, 128, 128, tab_bytes=1024, queue_depth=2,
                    stage_depth=8)
INSTRUCTIONS = ("load", "store", "gemm", "add", "copy", "requantize", "reduce_add", "reduce_max",
                "lookup")
"""Those that use all ports and updates."""

POWERS = ("bursts", "burst_bytes", "beats", "prefetch", "ahead", "in_flight")
"""Numbers that are powers of two, so that one more is refused."""

EVERY = {one.name: one.default + 1 for one in fields(CoreTiming) if one.name not in POWERS} | {
    "bursts": 16, "beats": 16, "prefetch": 2, "ahead": 4, "in_flight": 2}


def machine(timing: Mapping[str, int]) -> Machine:
    """A small machine with these numbers, which has what they are about."""
    shared = 1024 if "shared_cycles" in timing else 0
    return Machine(replace(SMALL, timing=timing, shared_bytes=shared),
                   tuple(one for one in SHIPPED if one.name in INSTRUCTIONS))


def difference(own: Machine, count: int, longest: int = 1 << 20, rtl: str = "verilated") -> str:
    """The first difference in directed, `count` random, faulty and late programs, of those with at
    most `longest` instructions; "" for none. `rtl`: what stands for it, ``slice`` is built sooner.
    """
    known = quick_simulators(own) if rtl == "verilated" else default_simulators()
    simulators = {
        "functional": known["functional"],
        "cycle": lambda _, case: cycle.simulate_model(
            own, case.program, case.memory, max_cycles=MAX_CYCLES, **case.timing),
        rtl: known[rtl]}
    for case in cases(own, count):
        if case.program.count > longest:
            continue
        runs = {name: simulate(own, case) for name, simulate in simulators.items()}
        if found := compare(own, case, runs):
            return found.describe()
    return ""


@pytest.mark.slow
def test_every_number_may_be_another_one():
    assert difference(machine(EVERY), tries(20), 100, rtl="slice") == ""


@pytest.mark.slow
@pytest.mark.parametrize("sides", SIDES)
def test_bursts_of_memory_and_scratchpad_with_all_numbers_others(sides):
    require_same_cycles(machine(EVERY), sides)


@pytest.mark.parametrize("name", POWERS)
def test_what_must_be_a_power_of_two_is_refused_wrong(name):
    number = getattr(CoreTiming(), name) + 1
    with pytest.raises(ConfigError, match=f"^{name} of the timing must be a power of two, not "
                                          f"{number}$"):
        machine({name: number})


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in fields(CoreTiming)
                                  if one.name != "burst_bytes"])
def test_each_number_changed_alone(name):
    default = getattr(CoreTiming(), name)
    longest = 1 << 20 if name in ("token_bits", "in_flight", "prefetch") else 100
    for value in (default // 2, 2 * default) if name in POWERS else (default + 1,):
        assert difference(machine({name: value}), 40, longest) == "", value


@pytest.mark.slow
@pytest.mark.parametrize("name, wrong", [("nest_cycles", 4), ("closing_cycles", 3), ("beats", 16),
                                         ("shared_cycles", 3)])
def test_a_number_that_only_the_simulator_has_is_found(monkeypatch, name, wrong):
    header = cycle._names_header
    monkeypatch.setattr(cycle, "_names_header",
                        lambda timing, units: header(replace(timing, **{name: wrong}), units))
    cycle._library.cache_clear()
    try:
        own = machine({name: getattr(CoreTiming(), name)})
        assert "cycle and verilated differ" in difference(own, 40)
    finally:
        cycle._library.cache_clear()
