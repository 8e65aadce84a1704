"""Area and energy of a shared scratchpad."""

from dataclasses import replace

from accel.estimates.area import area
from accel.estimates.energy import energy
from accel.estimates.silicon import memory_kib
from accel.figures.accesses import AccessProfile
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.sim.timed import cycle

TINY = preset("tiny-1x4x4")
BEFORE, MACHINE = Machine(TINY), Machine(replace(TINY, name="shared", shared_bytes=8192))


def test_its_memory_is_counted_and_its_logic_is_that_of_its_netlist() -> None:
    """8 KiB are 2,048 rows of 32 bits: four block RAMs of 8 bits."""
    found, before = area(MACHINE), area(BEFORE)
    assert found.block_rams.value == before.block_rams.value + 4
    assert found.units["shared"]["block_rams"].value == 4
    assert 100 < found.units["shared"]["luts"].value < 2000
    assert "shared" not in before.units
    assert memory_kib(MACHINE) == memory_kib(BEFORE) + 8


def test_beats_of_both_sides_are_priced_apart() -> None:
    """A store of 64 bytes into the scratchpad, and one of 32 behind it."""
    fields = {"buffer": MACHINE.structure.buffer_names.index("out"), "base": 2, "address": 0,
              "loops": []}
    stores = [Instruction("store", "store", fields | {"dram": dram, "run": run})
              for dram, run in ((0, 64), (8192, 32))]
    program = AccelProgram.assemble(MACHINE, [*stores, finish()], activations_bytes=8192 + 64)
    run = cycle.simulate_model(MACHINE, program, values=False)
    profile = AccessProfile.of(MACHINE, program, run)
    counts, beats = profile.totals(), TINY.bus_bytes
    assert (counts["shared.write"], counts["dram.write"]) == (64 // beats, 32 // beats)
    assert counts["store.beats"] == 96 // beats and run.counters.bytes["store"] == 32
    assert energy(profile, MACHINE).units["shared"] > 0
