"""The RTL through Verilator: runs, time, faults, the view of PyVerilator, identity."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel.machine import isa
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, ProgramError, TensorSlot, finish
from accel.machine.status import Run, Status
from accel.proof.legal import IllegalProgram, prove, with_tokens
from accel.sim.meaning import functional
from accel.sim.rtl import verilated

MACHINE = Machine(preset("tiny-1x4x4"))
ROOT = Path(__file__).parents[4]
X = TensorSlot("x", "io", 0, (64,), "uint8")


def chain() -> list[Instruction]:
    """Load, multiply, copy out and store."""
    return with_tokens(MACHINE, [
        Instruction("load", "load", {"buffer": 0, "base": 3, "run": 16}),
        Instruction("load", "load", {"buffer": 1, "base": 3, "run": 16, "dram": 16}),
        Instruction("gemm", "gemm", {"banks": 1, "reset": 1,
                                     "loops": [{"extent": 4, "dst": 1, "a": 1}]}),
        Instruction("copy", "vector", {"banks": 1, "b_source": 0, "destination": 1,
                                       "loops": [{"extent": 4, "dst": 1, "b": 1}]}),
        Instruction("store", "store", {"buffer": 5, "base": 3, "dram": 64, "run": 16}),
        finish()])


def program(stream) -> AccelProgram:
    return AccelProgram.assemble(MACHINE, stream, io_bytes=128, inputs=(X,))


def both(one: AccelProgram, **timing) -> tuple[Run, Run]:
    x = np.random.default_rng(1).integers(0, 256, 64, np.uint8)
    return (functional.simulate(MACHINE, one, inputs={"x": x}),
            verilated.simulate(MACHINE, one, inputs={"x": x}, **timing))


@pytest.mark.parametrize("timing", [
    {}, {"latency": 0}, {"latency": 200, "outstanding": 1}, {"stall_seed": 7}],
    ids=["plain", "no latency", "one burst", "stalls"])
def test_a_chain_computes_what_it_means(timing):
    expected, run = both(program(chain()), **timing)
    assert (run.status, run.unit, run.index) == (Status.DONE, "fetch", 5)
    np.testing.assert_array_equal(run.memory, expected.memory)


def test_events_and_counters_tell_the_time():
    _, run = both(program(chain()))
    assert np.all(run.start >= 0) and np.all(run.retire >= run.start)
    assert run.retire[4] < run.retire[5] < run.cycles
    assert run.retire[1] < run.start[2] and run.retire[3] < run.start[4]    # tokens
    for activity in run.counters.activity.values():
        assert sum(activity.values()) == run.cycles
    assert run.counters.bytes == {"fetch": 6 * 64, "load": 32, "store": 16}
    assert run.counters.activity["gemm"]["busy"] >= 4


def test_latency_delays_the_first_instruction():
    near, far = (both(program(chain()), latency=latency)[1] for latency in (10, 60))
    assert far.start[0] == near.start[0] + 50
    # The store waits as long again; loads hide behind fetch, but for a part.
    assert near.cycles + 100 <= far.cycles < near.cycles + 150


def test_a_run_repeats_itself():
    one, two = (both(program(chain()), stall_seed=3)[1] for _ in range(2))
    other = both(program(chain()), stall_seed=4)[1]
    assert one.cycles == two.cycles and np.array_equal(one.start, two.start)
    assert one.cycles != other.cycles


def test_memory_that_is_given_is_not_changed():
    image = program(chain()).image()
    before = image.copy()
    verilated.simulate(MACHINE, program(chain()), image)
    np.testing.assert_array_equal(image, before)


def changed(index: int, **fields) -> list[Instruction]:
    stream = chain()
    stream[index] = replace(stream[index], fields={**stream[index].fields, **fields})
    return stream


def illegal_opcode() -> AccelProgram:
    words = program(chain()).words.copy()
    words[2, 0] = 0xEE
    return replace(program(chain()), words=words)


FAULTS = {
    "missing token": (program(changed(1, signals=0)), Status.DEADLOCK, "gemm", 2),
    "leftover token": (program(changed(4, signals=isa.unit_mask(["load"]))),
                       Status.TOKENS_LEFT, "fetch", 5),
    "illegal opcode": (illegal_opcode(), Status.ILLEGAL, "fetch", 2),
    "buffer of load": (program(changed(1, buffer=4)), Status.ILLEGAL, "load", 1),
    "buffer of store": (program(changed(4, buffer=0)), Status.ILLEGAL, "store", 4),
    "selector": (program([*chain()[:3], Instruction(
        "reduce_add", "vector", {"banks": 1, "a_source": 0, "waits": 2, "signals": 8}),
        *chain()[4:]]), Status.ILLEGAL, "vector", 3),
    "entry of inp": (program(changed(2, base={"a": 510})), Status.ADDRESS, "gemm", 2),
    "entry of wgt": (program(changed(2, base={"b": 256})), Status.ADDRESS, "gemm", 2),
    "entry of out": (program(changed(3, base={"dst": 253})), Status.ADDRESS, "vector", 3),
    "byte of inp": (program(changed(0, address=2033)), Status.ADDRESS, "load", 0),
    "byte of out": (program(changed(4, address=1009)), Status.ADDRESS, "store", 4),
    "bank": (program(changed(2, base={"dst": 126})), Status.ADDRESS, "gemm", 2),
    "load from nowhere": (program(changed(1, dram=1 << 20)), Status.BUS, "load", 1),
    "store to nowhere": (program(changed(4, dram=1 << 20)), Status.BUS, "store", 4),
    "no finish": (program(chain()[:-1]), Status.DEADLOCK, "fetch", 5),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_and_stops_both_simulators_alike(fault):
    faulty, status, unit, index = FAULTS[fault]
    with pytest.raises(IllegalProgram):
        prove(MACHINE, faulty)
    for seed in (0, 5):
        for run in both(faulty, stall_seed=seed):
            assert (run.status, run.unit, run.index) == (status, unit, index)


def test_the_chain_without_a_fault_is_proved():
    prove(MACHINE, program(chain()))


def test_deadlock_tells_who_waits():
    expected, run = both(program(changed(1, signals=0)))
    assert run.waiting == expected.waiting == {"gemm": 2, "vector": 3, "store": 4}
    assert run.describe() == ("deadlock: gemm, instruction 2 (waiting: gemm at 2, vector at 3, "
                              "store at 4)")


def test_the_watchdog_ends_a_long_run():
    _, run = both(program(chain()), max_cycles=150)
    assert (run.status, run.cycles) == (Status.WATCHDOG, 150)
    assert run.start[0] > 0 and run.retire[5] == -1


def test_program_of_another_machine():
    with pytest.raises(ProgramError, match="^Program was compiled for machine 000000000000, not "):
        verilated.simulate(MACHINE, AccelProgram("0" * 64, np.zeros((0, 64), np.uint8)))


def test_object_of_another_machine():
    path = verilated.build(MACHINE).path
    other = Machine(replace(preset("tiny-1x4x4"), queue_depth=4))
    with pytest.raises(verilated.SimulatorError,
                       match=f"^Simulator core.so must be built for machine {other.hash[:12]}, "
                             f"not {MACHINE.hash[:12]}$"):
        verilated.VerilatedCore(other, path)


def test_a_built_object_is_found_again_without_emitting_verilog(monkeypatch):
    path = verilated.build(MACHINE).path
    monkeypatch.setattr(verilated, "Core", None)
    assert verilated.build.__wrapped__(MACHINE).path == path


def test_all_that_makes_the_gateware_is_in_its_hash():
    """Every file that is imported for it, in whatever folder; errors alone are not."""
    code = "import sys, accel.hw.core; print(*(getattr(m, '__file__', None) " \
           "for m in sys.modules.values()), sep='\\n')"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=ROOT)
    ours = {path for path in map(Path, said.stdout.splitlines()) if path.is_relative_to(ROOT)
            and path.relative_to(ROOT).parts[0] in ("accel", "compiler")}
    ours = {path for path in ours if len(path.relative_to(ROOT).parts) > 2}
    assert len(ours) > 60 and ours <= set(verilated.gateware_sources())


def test_pyverilator_reads_ports_and_ticks(tmp_path):
    core = verilated.view(MACHINE)
    assert core.io.done == 0 and core.io.mem__request__valid == 0
    core.io.rst = 1
    core.clock.tick()
    core.io.rst = 0
    core.io.base_program, core.io.count = 0x40, 1
    core.start_vcd_trace(str(tmp_path / "core.vcd"))
    core.io.start = 1
    core.clock.tick()
    core.io.start = 0
    for _ in range(10):
        core.clock.tick()
    assert core.io.mem__request__valid == 1
    assert core.io.mem__request__payload & 0xFFFFFFFF == 0x40
    core.stop_vcd_trace()
    text = (tmp_path / "core.vcd").read_text()
    assert "mem__request__valid" in text and "$enddefinitions" in text
    assert both(program(chain()))[1].ok         # the view's clock is not that of runs


def test_verilators_own_files_are_compiled_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))
    asked = ["verilated_threads.cpp"], verilated.COMPILER_FLAGS
    (first,) = verilated.verilator_objects(*asked)
    assert first.name == "verilated_threads.o" and tmp_path in first.parents

    def compile_objects(*args) -> None:
        raise AssertionError("must not be compiled again")

    monkeypatch.setattr(verilated, "compile_objects", compile_objects)
    assert verilated.verilator_objects(*asked) == [first]
    with pytest.raises(AssertionError):         # other flags, another object
        verilated.verilator_objects(["verilated_threads.cpp"], ["-w"])
