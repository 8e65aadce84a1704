# amaranth: UnusedElaboratable=no
from dataclasses import replace

import numpy as np
import pytest
from amaranth.back import verilog

from accel.hw.core import Core
from accel.machine.config import preset
from accel.machine.isa import unit_mask
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, finish
from accel.machine.status import Status
from accel.machine.timing import TIMING
from accel.sim.meaning import functional
from tests.support.amaranth_sim import stalls
from tests.support.core_bench import run_program, word
from tests.support.verilator_lint import assert_clean

TINY = Machine(preset("tiny-1x4x4"))
WIDE = Machine(replace(preset("tiny-1x4x4"), name="wide", batch=2, bus_bytes=16))
WEIGHTS = np.arange(256, dtype=np.uint8)


def program(instructions, machine=TINY, **parts) -> AccelProgram:
    return AccelProgram.assemble(machine, instructions, weights=WEIGHTS, activations_bytes=256,
                                 **parts)


def load(**fields):
    return word(TINY, "load", **({"buffer": 0, "base": 1, "run": 64} | fields))


def store(**fields):
    return word(TINY, "store", **({"buffer": 5, "base": 2, "run": 40} | fields))


def with_opcode(whole: AccelProgram, index: int, opcode: int) -> AccelProgram:
    words = whole.words.copy()
    words[index, 0] = opcode
    return replace(whole, words=words)


ENDS = {
    "finish alone": (program([finish()]), Status.DONE, "fetch", 0),
    "loads": (program([load(), load(address=64), finish()]), Status.DONE, "fetch", 2),
    "no instruction": (program([]), Status.DEADLOCK, "fetch", 0),
    "no finish": (program([load()] * 3), Status.DEADLOCK, "fetch", 3),
    "nothing after finish": (program([finish(), load(address=5000)]), Status.DONE, "fetch", 0),
    "illegal opcode": (with_opcode(program([load()] * 4), 2, 200), Status.ILLEGAL, "fetch", 2),
    "opcode 0": (with_opcode(program([finish()]), 0, 0), Status.ILLEGAL, "fetch", 0),
    "illegal buffer": (program([load(), store(buffer=0), finish()]), Status.ILLEGAL, "store", 1),
    "illegal operand": (program([load(), word(TINY, "copy", a_source=0, b_source=2,
                                              destination=0, banks=0), finish()]),
                        Status.ADDRESS, "vector", 1),
    "address": (program([load(), load(address=2000), finish()]), Status.ADDRESS, "load", 1),
    "bus, load": (program([load(), load(dram=1 << 20), finish()]), Status.BUS, "load", 1),
    "bus, store": (program([store(), store(dram=1 << 20), finish()]), Status.BUS, "store", 1),
    "tokens left": (program([load(signals=0b1000), finish()]), Status.TOKENS_LEFT, "fetch", 1),
    "a token that never comes": (program([load(), store(waits=0b0010), finish()]),
                                 Status.DEADLOCK, "store", 1),
    "each waits for the other": (program([load(), load(waits=8, signals=8),
                                          store(waits=1, signals=1), finish()]),
                                 Status.DEADLOCK, "load", 1),
    "fetch behind a full queue": (program([store(waits=1)] * 10 + [load(signals=8), finish()]),
                                  Status.DEADLOCK, "store", 0),
    "ping pong": (program([load(signals=8), store(waits=1, signals=1), load(waits=8, signals=8),
                           store(waits=1), finish()]), Status.DONE, "fetch", 4),
}


@pytest.fixture(scope="module")
def results():
    """All programs of `ENDS`, one after the other on one core, which is never reset."""
    found = run_program(TINY, [whole for whole, *_ in ENDS.values()], latency=5,
                        stall=stalls(8, 0.2), max_cycles=6_000)
    return dict(zip(ENDS, found))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", ENDS)
def test_ends(results, name):
    run, _, _ = results[name]
    whole, status, unit, index = ENDS[name]
    assert (run.status, run.unit, run.index) == (status, unit, index)
    meaning = functional.simulate(TINY, whole)
    assert (meaning.status, meaning.unit, meaning.index) == (status, unit, index)
    assert run.waiting == meaning.waiting


@pytest.mark.parametrize("name", ENDS)
def test_every_cycle_of_a_unit_is_counted_once(results, name):
    run, _, _ = results[name]
    for unit, activity in run.counters.activity.items():
        assert sum(activity.values()) == run.cycles, unit


def test_events(results):
    _, observed, _ = results["ping pong"]
    assert sorted(observed.started) == list(observed.retired) == [0, 1, 2, 3, 4]
    for before, after in ((0, 1), (1, 2), (2, 3)):          # each waits for the one before it
        assert observed.started[after] == observed.retired[before] + 3
    assert observed.retired[4] > observed.retired[3]


def test_done_rises_after_finish(results):
    for name in ("finish alone", "loads", "ping pong"):
        run, observed, _ = results[name]
        assert run.cycles == observed.retired[run.index] + TIMING.end_cycles


def test_first_cycles():
    """The request is offered; 16 beats follow; fetch has the word three cycles later."""
    (run, observed, _), = run_program(TINY, [program([finish()])], latency=7)
    begin = TIMING.request_cycle + 1 + 7 + 15 + 3
    assert observed.started == {0: begin} and observed.retired == {0: begin + 1}
    assert run.cycles == begin + 1 + TIMING.end_cycles


def test_bytes_are_counted(results):
    run, _, _ = results["ping pong"]
    assert run.counters.bytes == {"fetch": 5 * 64, "load": 128, "store": 80}


def constants(config, rows: int, blocks: int) -> tuple[np.ndarray, dict[str, int]]:
    """Random bytes of inp, wgt and par one after the other, and where each starts."""
    rng = np.random.default_rng(5)
    parameters = np.zeros(config.block_out, np.dtype([
        ("bias", "<i4"), ("mult", "<u2"), ("shift", "u1"), ("unused", "u1")]))
    parameters["bias"] = rng.integers(-4000, 4000, config.block_out)
    parameters["mult"] = rng.integers(1 << 15, 1 << 16, config.block_out)
    parameters["shift"] = rng.integers(23, 25, config.block_out)
    buffers = config.buffers
    parts = {"inp": rng.integers(0, 256, rows * blocks * buffers["inp"].entry_bytes, np.uint8),
             "wgt": rng.integers(0, 256, blocks * buffers["wgt"].entry_bytes, np.uint8),
             "par": parameters.view(np.uint8)}
    ends = np.cumsum([part.size for part in parts.values()])
    return np.concatenate(list(parts.values())), {
        name: int(end - part.size) for (name, part), end in zip(parts.items(), ends)}


def two_layers(machine: Machine, rows: int, blocks: int) -> AccelProgram:
    """Two matrix products with requantization; the second reads what the first one stored."""
    data, at = constants(machine.config, rows, blocks)
    size = {name: buffer.entry_bytes for name, buffer in machine.config.buffers.items()}
    from_memory = {
        "wgt": {"buffer": 1, "base": 1, "dram": at["wgt"], "run": blocks * size["wgt"]},
        "par": {"buffer": 3, "base": 1, "dram": at["par"], "run": size["par"]},
        "inp": {"buffer": 0, "base": 1, "dram": at["inp"], "run": rows * blocks * size["inp"]},
        "stored": {"buffer": 0, "base": 2, "dram": 3, "run": rows * size["out"], "address": 1}}
    gemm, vector, stored, loaded = (unit_mask([u]) for u in ("gemm", "vector", "store", "load"))

    def layer(source: str, waits: int, signals: int):
        yield word(machine, "load", **from_memory["wgt"])
        yield word(machine, "load", **from_memory["par"], signals=vector)
        yield word(machine, "load", **from_memory[source], waits=waits, signals=gemm)
        yield word(machine, "gemm", waits=loaded, signals=vector, banks=1, reset=1,
                   loops=[{"extent": rows, "dst": 1, "a": blocks},
                          {"extent": blocks, "a": 1, "b": 1}])
        yield word(machine, "requantize", waits=loaded | gemm, signals=stored, banks=1,
                   destination=1, b_source=2, loops=[{"extent": rows, "dst": 1, "a": 1}],
                   zp=3, lo=-100, hi=90)
        yield word(machine, "store", waits=vector, signals=signals, buffer=5, base=2, dram=3,
                   run=rows * size["out"])

    stream = [*layer("inp", 0, loaded), *layer("stored", stored, 0), finish()]
    return AccelProgram.assemble(machine, stream, weights=data, activations_bytes=256)


@pytest.mark.slow
@pytest.mark.parametrize("p_stall", [pytest.param(0, marks=pytest.mark.slow), 0.4])
@pytest.mark.parametrize("machine", [
    TINY, pytest.param(WIDE, marks=pytest.mark.slow)], ids=lambda m: m.config.name)
def test_whole_programs_match_the_functional_simulator(machine, p_stall):
    whole = two_layers(machine, 4, 3)
    meaning = functional.simulate(machine, whole)
    assert meaning.ok
    for run, observed, memory in run_program(machine, [whole] * 2, 9, stalls(2, p_stall)):
        assert run.ok, run.describe()
        assert memory == meaning.memory.tobytes()
        assert sorted(observed.retired) == list(range(whole.count))
    assert len(set(memory[-256:])) > 10


@pytest.mark.slow
def test_verilog_has_no_errors(tmp_path):
    """The quick run has this of the core within tests/fpga/verilog."""
    (tmp_path / "core.v").write_text(verilog.convert(Core(TINY), name="core", emit_src=False,
                                                     strip_internal_attrs=True))
    assert_clean(tmp_path / "core.v", "core")
