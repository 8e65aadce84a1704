"""Several channels: what they move at the same time, by hand. They are held against the RTL's slice
in tests/accel/sim/checking/test_combinations.py.
"""

from dataclasses import replace
from typing import Any

from accel.machine.config import preset
from accel.machine.dram import Dram
from accel.machine.isa import BASES
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.status import ACCESSES
from accel.sim.timed import cycle

MOVES = {"load": "inp", "store": "out"}


def moving(machine: Machine, blocks: int) -> AccelProgram:
    """A load and a store of so many blocks of 64 bytes each, at the same time."""
    codes = machine.structure.buffer_names
    stream = [Instruction(unit, unit, {
        "buffer": codes.index(buffer), "run": 64 * blocks, "dram": 64 * blocks * place,
        "base": BASES.index("io")}) for place, (unit, buffer) in enumerate(MOVES.items())]
    return AccelProgram.assemble(machine, [*stream, finish()], io_bytes=128 * blocks)


def cycles_of(channels: int, blocks: int, **memory: Any) -> int:
    machine = Machine(replace(preset("tiny-1x4x4"), channels=channels))
    run = cycle.simulate_model(machine, moving(machine, blocks), values=False, dram=Dram(**memory))
    assert run.ok, run.describe()
    return run.cycles


def test_load_and_store_move_at_once_on_two_channels() -> None:
    """16 blocks each way, a beat of four bytes a cycle: 256 beats that are in turns on one."""
    one, two = (cycles_of(channels, 16, latency=10) for channels in (1, 2))
    assert one > 512 and 256 < two < 400


def test_slow_channels_add_up_for_one_unit() -> None:
    """A byte a cycle and channel, so that one channel holds load up and four do not."""
    one, four = (cycles_of(channels, 16, latency=10, bytes_per_cycle=1) for channels in (1, 4))
    assert one > 2048 and four < 800


def test_rows_of_a_channel_have_its_own_blocks_alone() -> None:
    """Eight blocks lie in two rows of 256 bytes; those of two channels fill a row of each. One row
    more has the word of the load."""
    for channels in (1, 2):
        machine = Machine(replace(preset("tiny-1x4x4"), channels=channels))
        load = Instruction("load", "load", {"buffer": 0, "run": 512, "base": BASES.index("io")})
        program = AccelProgram.assemble(machine, [load, finish()], io_bytes=1024)
        word = replace(load, fields=load.fields | {"dram": -program.bases["io"] % 512})
        program = AccelProgram.assemble(machine, [word, finish()], io_bytes=1024)
        run = cycle.simulate_model(machine, program, values=False, dram=Dram(row_bytes=256))
        assert run.ok and run.accesses is not None
        assert run.accesses[0][ACCESSES.index("rows")] == 3
