"""Bytes by mover, against the memory port of the cycle simulator."""

import tracemalloc

import numpy as np
import pytest

from accel.figures import traffic
from accel.figures.traffic import dram_bytes, unit_bytes
from accel.machine.config import AccelConfig, preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.words import decode_words
from accel.sim.timed import cycle
from accel.sim.programs.generate import generate

MACHINE = Machine(preset("tiny-1x4x4"))


def slow(machine: Machine, program: AccelProgram) -> list[int]:
    """Word by word, loop by loop."""
    return [_slow(one, machine.config) if one.unit in ("load", "store") else 0
            for one in decode_words(machine, program.words)]


def _slow(one: Instruction, config: AccelConfig) -> int:
    """Goes through the loops from the inside: bytes of a pass, and where its last run begins."""
    kept = config.kept_beats * config.bus_bytes if one.unit == "load" else 0
    run = total = one.fields["run"]
    last = 0
    for loop in reversed(one.fields["loops"]):
        passes = max(loop["extent"] - loop["before"] - loop["after"], 0)
        ahead = loop["dram"] - last
        common = run - ahead if total and run <= kept and 0 <= ahead < run else 0
        total = sum([total - common] * (passes - 1)) + total if passes else 0
        last += max(passes - 1, 0) * loop["dram"]
    return total


@pytest.mark.parametrize("part", [1, 7, traffic.PART])
@pytest.mark.parametrize("name", ["tiny-1x4x4", "pynq-1x16x16"])
def test_many_words_are_as_one_by_one(monkeypatch, name: str, part: int) -> None:
    monkeypatch.setattr(traffic, "PART", part)
    machine = Machine(preset(name))
    for seed in range(4):
        program = generate(machine, seed).program
        assert dram_bytes(machine, program).tolist() == slow(machine, program)


def test_a_long_program_takes_little_memory() -> None:
    """Few columns of some words are there at a time, beside the result."""
    line = {"extent": 5, "dram": 6, "before": 1}
    load = Instruction("load", "load", {"run": 9, "loops": [line]})
    words = np.repeat(AccelProgram.assemble(MACHINE, [load]).words, 100_000, 0)
    program = AccelProgram(MACHINE.hash, words)
    tracemalloc.start()
    moved = dram_bytes(MACHINE, program)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(moved.tolist()) == {9 + 3 * 6} and peak < moved.nbytes + words.nbytes


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
