"""Bytes by mover, against the memory port of the cycle simulator."""

import numpy as np
import pytest

from accel.figures.traffic import dram_bytes, unit_bytes
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.words import decode_words
from accel.sim import cycle
from accel.sim.programs.generate import generate

MACHINE = Machine(preset("tiny-1x4x4"))


@pytest.mark.parametrize("seed", range(5))
def test_every_byte_has_one_mover(seed) -> None:
    case = generate(MACHINE, seed)
    moved = unit_bytes(MACHINE, case.program)
    np.testing.assert_array_equal(moved["load"] + moved["store"],
                                  dram_bytes(MACHINE, case.program))
    for index, one in enumerate(decode_words(MACHINE, case.program.words)):
        assert not any(moved[unit][index] for unit in ("load", "store") if unit != one.unit)


def test_what_runs_of_a_load_share_counts_once() -> None:
    """Rows of 9 bytes in three lines, the last of which is the first of the windows below."""
    def moved(name: str, **fields: object) -> int:
        one = Instruction(name, name, {"buffer": 0 if name == "load" else 5, "run": 9, **fields})
        return int(dram_bytes(MACHINE, AccelProgram.assemble(MACHINE, [one, finish()]))[0])

    line = {"extent": 5, "dram": 6, "before": 1}
    assert moved("load", loops=[line]) == 9 + 3 * 6
    assert moved("store", loops=[line | {"before": 0}]) == 5 * 9
    assert moved("load", loops=[line], run=40) == 4 * 40                # more than load keeps
    lines = [{"extent": 3, "dram": 100}, line]
    assert moved("load", loops=lines) == 3 * (9 + 3 * 6)
    below = [{"extent": 4, "dram": 200}, {"extent": 3, "dram": 100}]
    assert moved("load", loops=below) == 9 * 9
    assert moved("load", loops=[{"extent": 4, "dram": -3}]) == 4 * 9
    assert moved("load", loops=[{"extent": 7}, {"extent": 2, "before": 2}]) == 0


@pytest.mark.parametrize("seed", range(12))
def test_the_memory_port_moves_whole_beats(seed) -> None:
    case = generate(MACHINE, seed)
    port = cycle.simulate(MACHINE, case.program, case.memory, values=False).counters.bytes
    moved = {unit: int(table.sum()) for unit, table in unit_bytes(MACHINE, case.program).items()}
    assert port["fetch"] == moved["fetch"] == case.program.words.size
    assert port["load"] >= moved["load"] > 0 and port["store"] >= moved["store"] > 0


def test_finish_is_fetched_alone() -> None:
    moved = unit_bytes(MACHINE, AccelProgram.assemble(MACHINE, [finish()]))
    assert {unit: table.tolist() for unit, table in moved.items()} == {
        "fetch": [64], "load": [0], "store": [0]}
