"""The scratchpad between memory and load and store: the cycle simulator takes the cycles of the
RTL's slice, and does not stand still."""

from dataclasses import replace

import pytest

from accel.machine.config import preset
from accel.machine.dram import Dram
from accel.machine.isa import BASES
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.structure import SHIPPED_STRUCTURE
from accel.sim.checking.differences import differ_in_time
from accel.sim.slice import simulator as slice_
from accel.sim.timed import cycle

BUFFERS = {"load": SHIPPED_STRUCTURE.buffer_names.index("inp"),
           "store": SHIPPED_STRUCTURE.buffer_names.index("out")}
SIDES = ["lL", "Ll", "LLlL", "sS", "Ss", "SsSs", "lsLS", "sLSl"]
MOST_CYCLES = 20_000            # a hundred times those of the longest program


def moving(machine: Machine, sides: str, run: int) -> AccelProgram:
    """Loads and stores of so many bytes each: ``l`` and ``s`` of the scratchpad, ``L`` and ``S`` of
    the memory behind it."""
    units = {"l": "load", "s": "store"}
    return AccelProgram.assemble(machine, [*(Instruction(units[side.lower()], units[side.lower()], {
        "buffer": BUFFERS[units[side.lower()]], "run": run, "address": run * (place // 2),
        "dram": 64 * place, "base": BASES.index("activations" if side.islower() else "io")})
        for place, side in enumerate(sides)), finish()], io_bytes=512, activations_bytes=1024)


def require_same_cycles(machine: Machine, sides: str) -> None:
    """Whatever the latency of the memory: it may offer a beat while those of the scratchpad before
    it are on their way, which then stays offered."""
    for run in (4, 16, 64):
        program = moving(machine, sides, run)
        for latency in range(10):
            found, wanted = (simulate(machine, program, values=False, dram=Dram(latency),
                                      max_cycles=MOST_CYCLES)
                             for simulate in (cycle.simulate_model, slice_.simulate))
            assert found.ok, f"{run} bytes, latency {latency}: {found.describe()}"
            assert differ_in_time(found, wanted) is None, f"{run} bytes, latency {latency}"


@pytest.mark.slow       # builds a slice; the quick run has the same on that of test_times
@pytest.mark.parametrize("sides", SIDES)
def test_bursts_of_both_sides_take_the_cycles_of_the_slice(sides: str) -> None:
    require_same_cycles(Machine(replace(preset("tiny-1x4x4"), name="shared", shared_bytes=1024)),
                        sides)
