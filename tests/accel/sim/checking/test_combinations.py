"""Odd sizes, packed weights, dataflows and channels together: simulators and the RTL's slice agree.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from accel.machine.config import DATAFLOWS, AccelConfig
from accel.machine.intrinsics import SHIPPED
from accel.machine.machine import Machine
from accel.sim.checking.check import MAX_CYCLES, compare
from accel.sim.checking.differences import differ_in_time
from accel.sim.meaning import functional
from accel.sim.programs.case import Case
from accel.sim.programs.forms import form_of, forms
from accel.sim.programs.generate import generate, with_forms
from accel.sim.slice import simulator as slice_
from accel.sim.timed import cycle

INSTRUCTIONS = ("load", "store", "gemm", "shr", "copy")
"""Few, so that slices are small: those that show what weights became."""


def machine(batch: int, block_in: int, block_out: int, bus_bytes: int, bits: tuple[int, ...],
            dataflow: str, channels: int = 1, shared_bytes: int = 0) -> Machine:
    """Buffers have odd numbers of entries, or two beats of the bus."""
    entries = {"inp": batch * block_in, "wgt": block_in * block_out, "res": batch * block_out,
               "par": 8 * block_out, "acc": 4 * batch * block_out, "out": batch * block_out}
    sizes = {f"{name}_bytes": 2 * entry * max(7, -(-bus_bytes * 8 // min(bits) // entry))
             for name, entry in entries.items()}
    config = AccelConfig("odd", batch, block_in, block_out, **sizes, tab_bytes=1024,
                         bus_bytes=bus_bytes, weight_bits=bits, dataflow=dataflow, queue_depth=2,
                         stage_depth=8, channels=channels, shared_bytes=shared_bytes)
    return Machine(config, tuple(one for one in SHIPPED if one.name in INSTRUCTIONS))


COMBINATIONS = {
    "1x6x4, weights stay": (1, 6, 4, 8, (8, 4, 2), "weight_stationary"),
    "2x4x5, weights stay": (2, 4, 5, 2, (8, 4), "weight_stationary"),
    "3x8x3, sums stay": (3, 8, 3, 16, (8, 4, 2), "output_stationary"),
    "1x12x2, adder tree": (1, 12, 2, 1, (8, 2), "adder_tree"),
    "all at once": (1, 6, 4, 8, (8, 4, 2), "weight_stationary", 2, 1024)}
FAST = "all at once"
"""The one whose slice the quick run builds."""

MEMORIES: dict[str, dict[str, Any]] = {
    "near": {"latency": 0}, "far": {"latency": 150}, "stalling": {"stall_seed": 7, "latency": 3},
    "slow": {"bytes_per_cycle": 1.7}, "few": {"outstanding": 2},
    "rows": {"row_bytes": 64, "row_miss": 9, "banks": 2, "origin": 64},
    "in order": {"in_order": True, "beat_cycles": 3, "latency": 5, "stall_seed": 3},
    "refreshed": {"refresh_interval": 90, "refresh_cycles": 11}}


def cases(own: Machine) -> Iterator[Case]:
    """Random programs, of which some load weights of each width and multiply them."""
    wanted = [form for form in forms(own) if form.unit == "gemm" or form.target == "wgt"]
    yield from (with_forms(own, seed, wanted) for seed in range(4))
    yield from (generate(own, seed) for seed in range(4, 12))


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name == FAST else pytest.mark.slow) for name in COMBINATIONS])
def test_simulators_and_slice_agree(name: str) -> None:
    own = machine(*COMBINATIONS[name])
    ran = set()
    for case in cases(own):
        runs = {"functional": functional.simulate(own, case.program, case.memory)} | {
            kind: simulate(own, case.program, case.memory, max_cycles=MAX_CYCLES, **case.timing)
            for kind, simulate in (("cycle", cycle.simulate_model), ("slice", slice_.simulate))}
        difference = compare(own, case, runs)
        assert difference is None, difference.describe()
        ran |= {form_of(own, one) for one in case.program.instructions(own)[:-1]}
    assert {form.bits for form in ran if form.target == "wgt"} == set(COMBINATIONS[name][4])
    assert {form.reset for form in ran if form.unit == "gemm"} == {False, True}


@pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)
def test_channels_take_the_cycles_of_the_slice_whatever_memory_is_behind_each(
        memory: dict[str, Any]) -> None:
    """Loads, stores and instructions of one program are in each other's way in other orders, with
    the scratchpad in front of the channels."""
    own = machine(*COMBINATIONS[FAST])
    for number in range(6):
        case = generate(own, number)
        found, wanted = (simulate(own, case.program, case.memory, values=False,
                                  max_cycles=MAX_CYCLES, **memory)
                         for simulate in (cycle.simulate_model, slice_.simulate))
        assert differ_in_time(found, wanted) is None, case.name


@pytest.mark.slow       # each builds a slice
@pytest.mark.parametrize(("channels", "bus_bytes"), [(4, 2), (2, 64), (8, 128), (1, 256)])
def test_they_agree_with_several_channels(channels: int, bus_bytes: int) -> None:
    """A beat is a burst where it has 64 bytes or more; memories have the stalls of their seeds."""
    own = machine(1, 4, 4, bus_bytes, (8,), "adder_tree", channels)
    for number in range(8):
        case = generate(own, number)
        timing = case.timing | {"latency": 3 * number, "stall_seed": number % 3}
        runs = {"functional": functional.simulate(own, case.program, case.memory)} | {
            kind: simulate(own, case.program, case.memory, max_cycles=MAX_CYCLES, **timing)
            for kind, simulate in (("cycle", cycle.simulate_model), ("slice", slice_.simulate))}
        difference = compare(own, case, runs)
        assert difference is None, difference.describe()


def test_all_dataflows_are_among_them() -> None:
    assert {one[5] for one in COMBINATIONS.values()} == set(DATAFLOWS)
