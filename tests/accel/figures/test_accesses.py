"""Accesses of a run, against counts by hand, the memory port, and each other."""

from dataclasses import replace

import numpy as np
import pytest

from accel.estimates.energy import energy
from accel.figures import counting
from accel.figures.accesses import AccessError, AccessProfile
from accel.machine.loading import load_machine
from accel.machine.config import DATAFLOWS, preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.status import ACCESSES, Run
from accel.machine.structure import SEGMENTS
from accel.machine.words import column, decode_words
from accel.sim.meaning import functional
from accel.sim.timed import cycle
from accel.sim.programs.generate import generate
from tests.support.streams import row_instruction

MACHINE = Machine(preset("tiny-1x4x4"))
GEMM = {"banks": 1, "loops": [{"extent": 3, "dst": 1, "a": 1}, {"extent": 5, "a": 1, "b": 1}]}


def totals(*instructions: Instruction, machine: Machine = MACHINE) -> dict[str, int]:
    """Without the words, the cycles, and the beats that words take."""
    program = AccelProgram.assemble(machine, [*instructions, finish()], io_bytes=4096)
    found = AccessProfile.of(machine, program, cycle.measure(machine, program)).totals()
    assert found.pop("fetch.words") == program.count and found.pop("cycles")
    found["dram.read"] -= program.words.size // machine.config.bus_bytes
    return {key: count for key, count in found.items() if count}


def counted(run: Run) -> np.ndarray:
    """Accesses [instruction, kind]."""
    assert run.accesses is not None
    return run.accesses


def test_a_gemm_instruction() -> None:
    read = {"gemm.gemm": 15, "inp.read": 15, "wgt.read": 15, "acc.gemm_write": 15}
    assert totals(Instruction("gemm", "gemm", GEMM)) == {
        **read, "gemm.folds": 15, "acc.gemm_read": 15}
    # The first of five products of each entry assigns.
    assert totals(Instruction("gemm", "gemm", {**GEMM, "reset": 1})) == {
        **read, "gemm.folds": 12, "acc.gemm_read": 12}


@pytest.mark.parametrize("loops, tiles, runs", [
    (GEMM["loops"], 15, 3), (GEMM["loops"][::-1], 5, 15),
    ([{"extent": 2, "dst": 1}, {"extent": 2, "dst": 1}, {"extent": 3, "b": 1}], 12, 3)])
def test_arrays_read_weights_and_write_sums_as_often_as_these_change(loops, tiles, runs) -> None:
    """A tile of weights is four columns; neighbours into one entry of acc meet it once."""
    for reset in (0, 1):
        fields = {"banks": 1, "loops": loops, "reset": reset}
        one, machines = Instruction("gemm", "gemm", fields), [
            Machine(replace(MACHINE.config, dataflow=dataflow)) for dataflow in DATAFLOWS[1:]]
        weights, sums = (totals(one, machine=machine) for machine in machines)
        assert weights["wgt.read"] == 4 * tiles and sums["wgt.read"] == sums["gemm.gemm"]
        assert weights["acc.gemm_write"] == weights["gemm.gemm"] and sums["acc.gemm_write"] == runs
        assert sums.get("acc.gemm_read", 0) == (0 if reset and runs == 3 else runs - 3 * reset)


def test_a_vector_instruction_that_waits_for_its_own_results_reads_on() -> None:
    """Entry 0 is doubled seven times; each time the sum before must be written first."""
    loops = [{"extent": 7}]
    fields = {"banks": 1, "a_source": 0, "b_source": 0, "destination": 0, "loops": loops}
    found = totals(Instruction("add", "vector", fields))
    assert found["vector.add"] == found["acc.vector_write"] == 7
    assert found["acc.vector_read"] > 2 * 7                 # two sources a time, at least
    apart = [{"extent": 7, "dst": 1, "a": 1, "b": 1}]
    found = totals(Instruction("add", "vector", {**fields, "loops": apart}))
    assert found["acc.vector_read"] == 2 * 7


def test_a_vector_reduction_reads_what_it_adds_to() -> None:
    """Five entries of res are added to one of acc; with `reset` the first one assigns."""
    fields = {"banks": 1, "a_source": 1, "destination": 0, "loops": [{"extent": 5, "a": 1}]}
    same = {"vector.reduce_add": 5, "res.read": 5, "acc.vector_write": 5}
    assert totals(Instruction("reduce_add", "vector", fields)) == {
        **same, "vector.folds": 5, "acc.vector_read": 5}
    assert totals(Instruction("reduce_add", "vector", {**fields, "reset": 1})) == {
        **same, "vector.folds": 4, "acc.vector_read": 4}


def test_a_lookup_reads_every_copy_of_its_table() -> None:
    """The datapath has four lookups, each with a copy."""
    loops = [{"extent": 5, "a": 1, "dst": 1}]
    fields = {"banks": 1, "a_source": 1, "destination": 1, "loops": loops}
    assert totals(Instruction("lookup", "vector", fields)) == {
        "vector.lookup": 5, "res.read": 5, "out.write": 5, "tab.read": 4 * 5}


def test_a_load_and_a_store() -> None:
    """Runs of 9 bytes on a bus of 4: from offset 2 to offset 0 they touch 3 beats and 3 chunks."""
    line = {"extent": 4, "dram": 100, "buffer": 12, "before": 1}
    assert totals(Instruction("load", "load", {"buffer": 0, "run": 9, "base": 3, "dram": 2,
                                               "loops": [line]})
                  ) == {"load.beats": 3 * 3, "dram.read": 3 * 3,    # one is padding
                        "load.chunks": 4 * 3, "inp.write": 4 * 3}
    line = {"extent": 4, "dram": 100, "buffer": 12}
    assert totals(Instruction("store", "store", {"buffer": 5, "run": 9, "base": 3, "dram": 3,
                                                 "loops": [line]})
                  ) == {"store.beats": 4 * 3, "dram.write": 4 * 3,
                        "store.chunks": 4 * 3, "out.read": 4 * 3}


@pytest.mark.parametrize("fields", [*({"dataflow": dataflow} for dataflow in DATAFLOWS),
                                    {"shared_bytes": 1024}], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_words_alone_say_all_but_what_waiting_reads(seed, fields) -> None:
    machine = Machine(replace(MACHINE.config, **fields))
    case = generate(machine, seed)
    found, run = counting.counted(machine, case.program), cycle.measure(machine, case.program)
    for place, name in enumerate(ACCESSES):
        if name == "rows":
            continue
        if name in ("acc", "res", "par"):
            assert (found[:, place] <= counted(run)[:, place]).all(), name
            assert found[:, place].any()
        else:
            np.testing.assert_array_equal(found[:, place], counted(run)[:, place], name)


@pytest.mark.parametrize("dram", [0, 1010, 1024])
def test_words_say_which_beats_the_shared_scratchpad_has(dram: int) -> None:
    """Runs that overlap, in it, across its end and behind it: a beat that two share counts once."""
    machine = Machine(replace(MACHINE.config, shared_bytes=1024))
    line = {"extent": 6, "dram": 4, "buffer": 12, "before": 1}
    program = AccelProgram.assemble(machine, [Instruction("load", "load", {
        "buffer": 0, "run": 9, "base": SEGMENTS.index("activations"), "dram": dram,
        "loops": [line]}), finish()], activations_bytes=2048)
    shared = ACCESSES.index("shared")
    found = counting.counted(machine, program)[:, shared].tolist()
    assert found == counted(cycle.measure(machine, program))[:, shared].tolist()
    assert (found[0] > 0) == (dram < 1024)


@pytest.mark.slow       # builds a slice
def test_counts_of_a_machine_with_a_stream_unit() -> None:
    """Three rows of four entries of res, of which the unit reads and writes each once."""
    machine = load_machine("examples/machines/running_max.py")
    program = AccelProgram.assemble(machine, [
        row_instruction(machine, "running_max", 3, 4, {}), finish()], io_bytes=4096)
    run = cycle.measure(machine, program)
    found = AccessProfile.of(machine, program, run).totals()
    assert run.simulator == "slice" and found["cycles"] == run.cycles
    assert found["peaks.running_max"] == found["res.read"] == found["tops.write"] == 12
    used = energy(AccessProfile.of(machine, program, run), machine, "45nm").units
    assert min(used[name] for name in ("peaks", "res", "tops", "idle")) > 0
    assert not used["vector"]


@pytest.mark.parametrize("seed", range(6))
def test_counts_agree_with_the_memory_port_and_not_with_its_time(seed) -> None:
    case = generate(MACHINE, seed)
    bus, fixed = MACHINE.config.bus_bytes, ["iterations", "folds", "beats", "chunks"]
    places = [ACCESSES.index(name) for name in fixed]
    runs = [cycle.simulate(MACHINE, case.program, case.memory, values=False, **memory)
            for memory in ({}, {"latency": 200}, {"row_bytes": 64, "row_miss": 9, "banks": 2},
                           {"in_order": True, "row_bytes": 64, "row_miss": 9, "banks": 2})]
    for run in runs:
        np.testing.assert_array_equal(counted(run)[:, places], counted(runs[0])[:, places])
        found = AccessProfile.of(MACHINE, case.program, run).totals()
        port = run.counters.bytes
        assert found["load.beats"] * bus == port["load"]
        assert found["store.beats"] * bus == port["store"]
        assert found["dram.read"] * bus == port["load"] + port["fetch"]
        assert found["cycles"] == run.cycles
    opened = [counted(run)[:, ACCESSES.index("rows")].sum() for run in runs]
    assert opened[:2] == [0, 0] and opened[2] > 0 < opened[3]


def test_rows_of_memory() -> None:
    """Four rows of 64 bytes in one bank, each opened once; a fifth request finds its row open."""
    lines = [{"extent": 4, "dram": 64}, {"extent": 2, "dram": 8}]
    program = AccelProgram.assemble(MACHINE, [
        Instruction("load", "load", {"buffer": 0, "run": 4, "base": 3, "loops": lines}), finish()],
        io_bytes=4096)
    run = cycle.simulate(MACHINE, program, values=False, row_bytes=64, row_miss=9, banks=1)
    # The two words, which are fetched first, lie in rows of their own.
    assert counted(run)[:, ACCESSES.index("rows")].tolist() == [1 + 4, 1]


def test_layers_have_their_own_instructions() -> None:
    one, other = (Instruction("gemm", "gemm", {**GEMM, "loops": [{"extent": extent}]})
                  for extent in (7, 40))
    program = AccelProgram.assemble(MACHINE, [one, one, other, finish()],
                                    layers=(("first", 2), ("second", 3)))
    run = cycle.measure(MACHINE, program)
    found = AccessProfile.of(MACHINE, program, run)
    assert found.layers == ("first", "second", "finish")
    assert found.counts["fetch.words"].tolist() == [2, 1, 1]
    assert found.counts["inp.read"].tolist() == [14, 40, 0]
    assert found.counts["cycles"].cumsum().tolist() == [*run.retire[1:3], run.cycles]


def test_runs_join() -> None:
    case = generate(MACHINE, 3)
    one = AccessProfile.of(MACHINE, case.program, cycle.measure(MACHINE, case.program))
    both = AccessProfile.joined([one, one])
    assert both.layers == 2 * one.layers
    assert both.totals() == {key: 2 * count for key, count in one.totals().items()}


def test_a_run_without_counts_is_refused() -> None:
    case = generate(MACHINE, 0)
    with pytest.raises(AccessError, match="Accesses are those of a run of the cycle simulator that "
                                          "ended well; this one has no counts"):
        AccessProfile.of(MACHINE, case.program,
                         functional.simulate(MACHINE, case.program, case.memory))
    cut = cycle.simulate(MACHINE, case.program, case.memory, max_cycles=9)
    with pytest.raises(AccessError, match="this one ended: watchdog"):
        AccessProfile.of(MACHINE, case.program, cut)


def test_columns_are_the_fields_of_decoded_words() -> None:
    case = generate(MACHINE, 1)
    for unit, field in (("load", "buffer"), ("store", "run"), ("gemm", "banks")):
        decoded = [one.fields[field] for one in decode_words(MACHINE, case.program.words)
                   if one.name == unit]
        words = case.program.words[case.program.words[:, 0] == MACHINE.opcodes[unit]]
        assert decoded and column(MACHINE.layouts[unit], words, field).tolist() == decoded
    assert not column(MACHINE.layouts["gemm"], case.program.words, "buffer").any()
