"""The probe: the same run as without it, ports at a cycle, pokes, waveforms."""

import numpy as np
import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, ProgramError, TensorSlot, finish
from accel.machine.status import Status
from accel.proof.legal import with_tokens
from accel.sim.rtl.probe import Probe
from accel.sim.rtl.verilated import simulate

MACHINE = Machine(preset("tiny-1x4x4"))
X = TensorSlot("x", "io", 0, (64,), "uint8")
Y = TensorSlot("y", "io", 64, (16,), "uint8")
INPUTS = {"x": np.arange(64, dtype=np.uint8)}


def program() -> AccelProgram:
    """y is the low bytes of inp * wgt: four pixels of x by one block of x."""
    return AccelProgram.assemble(MACHINE, [*with_tokens(MACHINE, [
        Instruction("load", "load", {"buffer": 0, "base": 3, "run": 16}),
        Instruction("load", "load", {"buffer": 1, "base": 3, "run": 16, "dram": 16}),
        Instruction("gemm", "gemm", {"banks": 1, "reset": 1, "loops": [
            {"extent": 4, "dst": 1, "a": 1}]}),
        Instruction("copy", "vector", {"banks": 1, "b_source": 0, "destination": 1, "loops": [
            {"extent": 4, "dst": 1, "b": 1}]}),
        Instruction("store", "store", {"buffer": 5, "base": 3, "dram": 64, "run": 16})]),
        finish()], io_bytes=128, inputs=(X,), outputs=(Y,))


def probed(**options) -> Probe:
    return Probe(MACHINE, program(), inputs=INPUTS, **options)


@pytest.mark.parametrize("options", [{}, {"latency": 3, "stall_seed": 5}])
def test_a_probe_runs_as_the_simulator_does(options):
    run = simulate(MACHINE, program(), inputs=INPUTS, **options)
    with probed(**options) as probe:
        assert (probe.cycle, probe.done) == (0, False)
        assert probe.run_until(1 << 20) == run.cycles == probe.cycle and probe.done
        assert Status(int(probe.io.status)) is run.status
        np.testing.assert_array_equal(probe.memory, run.memory)
        assert probe.step() == run.cycles


def test_counters_can_be_read_on_the_way():
    """In every cycle counters show the count so far, and at the end that of the run."""
    run = simulate(MACHINE, program(), inputs=INPUTS)
    with probed() as probe:
        busy = []
        while not probe.done:
            busy.append(probe.counters.activity["gemm"]["busy"])
            probe.step()
        assert probe.counters == run.counters
    last = run.counters.activity["gemm"]["busy"]
    assert busy[0] == 0 and sorted(busy) == busy and set(busy) == set(range(last + 1))


def test_cycles_count_as_those_of_runs():
    run = simulate(MACHINE, program(), inputs=INPUTS)
    with probed() as probe:
        for index, unit in ((2, "gemm"), (3, "vector")):
            probe.run_until(int(run.start[index]))
            assert probe.io[f"{unit}_started"] and probe.io[f"{unit}_started_index"] == index
            assert probe.step() == run.start[index] + 1 and not probe.io[f"{unit}_started"]
            probe.run_until(int(run.retire[index]))
            assert probe.io[f"{unit}_retired"] and probe.io[f"{unit}_retired_index"] == index


def test_steps_of_one_cycle_are_the_same_run():
    run = simulate(MACHINE, program(), inputs=INPUTS)
    with probed() as probe:
        while not probe.done:
            probe.step()
        assert probe.cycle == run.cycles
        np.testing.assert_array_equal(probe.memory, run.memory)


def test_a_poke_of_the_memory_port_lasts_a_cycle():
    """The first beat of x: it is read once for inp."""
    with probed() as probe:
        while not (probe.io.mem__rdata__valid and probe.io.mem__rdata__payload == 0x03020100):
            assert not probe.done
            probe.step()
        probe.io.mem__rdata__payload = 0x03020101
        assert probe.io.mem__rdata__payload == 0x03020101
        probe.run_until(1 << 20)
        poked = probe.program.extract(probe.memory, "y")
    wrong = INPUTS["x"].copy()
    wrong[0] = 1
    wanted = simulate(MACHINE, program(), inputs={"x": wrong})
    np.testing.assert_array_equal(poked, program().extract(wanted.memory, "y"))
    right = simulate(MACHINE, program(), inputs=INPUTS)
    assert (poked != program().extract(right.memory, "y")).any()


def test_memory_and_bases_can_be_changed_on_the_way():
    made = program()
    run = simulate(MACHINE, made, inputs=INPUTS)
    with probed() as probe:
        probe.run_until(int(run.retire[3]))             # before store
        probe.io.base_io = made.bases["io"] + 32        # store goes elsewhere
        probe.memory[made.bases["io"]] = 99
        probe.run_until(1 << 20)
        at = made.bases["io"]
        np.testing.assert_array_equal(probe.memory[at + 96:at + 112],
                                      made.extract(run.memory, "y"))
        assert probe.memory[at] == 99 and not probe.memory[at + 64:at + 80].any()


def test_the_image_that_is_given_is_not_changed():
    image = program().image(INPUTS)
    with Probe(MACHINE, program(), image) as probe:
        probe.run_until(1 << 20)
        assert not np.array_equal(probe.memory, image)
    np.testing.assert_array_equal(image, program().image(INPUTS))


def test_waveforms(tmp_path):
    path = tmp_path / "core.vcd"
    with probed() as probe:
        probe.run_until(40)
        probe.trace(path)
        probe.run_until(50)
    text = path.read_text()
    assert "mem__request__valid" in text and "$enddefinitions" in text
    times = [int(line[1:]) for line in text.splitlines() if line.startswith("#")]
    assert (times[0], times[-1]) == (400, 500) and len(times) == 21


def test_two_probes_and_a_run_do_not_meet():
    run = simulate(MACHINE, program(), inputs=INPUTS)
    with probed() as one, probed() as other:
        one.run_until(100)
        other.run_until(1 << 20)
        assert simulate(MACHINE, program(), inputs=INPUTS).cycles == run.cycles
        assert one.cycle == 100 and other.cycle == run.cycles
        assert one.run_until(1 << 20) == run.cycles


def test_a_cycle_that_is_over():
    with probed() as probe:
        probe.run_until(7)
        with pytest.raises(ValueError, match="^Cycle must be at least 7, where the probe is, "
                                             "not 6$"):
            probe.run_until(6)


def test_a_probe_that_was_closed(tmp_path):
    probe = probed()
    probe.close()
    probe.close()
    for act in (probe.step, lambda: probe.trace(tmp_path / "core.vcd")):
        with pytest.raises(ValueError, match="^Probe must be open: it has been closed$"):
            act()


def test_a_probe_that_nobody_closes_writes_its_waveforms(tmp_path):
    probe = probed()
    probe.trace(tmp_path / "core.vcd")
    probe.run_until(20)
    del probe
    assert "\n#200\n" in (tmp_path / "core.vcd").read_text()


def test_program_of_another_machine():
    with pytest.raises(ProgramError, match="^Program was compiled for machine 000000000000, not "):
        Probe(MACHINE, AccelProgram("0" * 64, np.zeros((0, 64), np.uint8)))
