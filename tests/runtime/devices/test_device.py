"""Simulators as devices."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, ProgramError, finish
from accel.mapping.target import AccelTarget
from accel.sim.meaning.functional import simulate
from compiler.graph import evaluate
from runtime import SimulatedDevice, simulator
from tests.support.integer_graphs import Net
from tests.support.machines import TINY


def test_memory_is_allocated_aligned_and_kept() -> None:
    device = SimulatedDevice(TINY, simulate)
    assert [device.allocate(size) for size in (1, 64, 65, 0, 3)] == [0, 64, 128, 256, 256]
    device.copy_in(64, np.arange(70, dtype=np.uint8))
    device.allocate(1000)
    found = device.copy_out(60, 80)
    np.testing.assert_array_equal(found, [0] * 4 + list(range(70)) + [0] * 6)
    found[:] = 9
    assert device.copy_out(60, 1)[0] == 0
    assert device.machine is TINY


def test_programs_side_by_side_do_not_disturb_each_other() -> None:
    device, nets = SimulatedDevice(TINY, simulate), []
    for seed in (1, 2):
        net = Net(seed)
        graph = net.graph(net.conv(net.input(1, 4, 3, 3), 4, (2, 2)))
        program = AccelTarget(TINY).compile(graph).program
        address = device.allocate(program.memory_bytes)
        given = net.samples()
        image = program.image({"x": np.ascontiguousarray(given["x"].transpose(0, 2, 3, 1))})
        device.copy_in(address, image)
        nets.append((graph, program, address, given))
    for graph, program, address, given in nets * 2:
        device.launch(program, address)
        assert device.wait().ok
        memory = device.copy_out(address, program.memory_bytes)
        ((name, wanted),) = evaluate(graph, given).items()
        found = program.extract(memory, name).reshape(2, 2, 4).transpose(2, 0, 1)[None]
        np.testing.assert_array_equal(found, wanted)


def test_a_device_is_launched_before_it_is_waited_for() -> None:
    device = SimulatedDevice(TINY, simulate)
    message = r"^A device must be launched before it is waited for$"
    with pytest.raises(ValueError, match=message):
        device.wait()
    program = AccelProgram.assemble(TINY, [finish()])
    device.copy_in(device.allocate(program.memory_bytes), program.image())
    device.launch(program, 0)
    assert device.wait().ok
    with pytest.raises(ValueError, match=message):
        device.wait()


def test_a_program_of_another_machine_is_refused() -> None:
    other = Machine(replace(TINY.config, queue_depth=4))
    program = AccelProgram.assemble(other, [finish()])
    device = SimulatedDevice(TINY, simulate)
    device.allocate(program.memory_bytes)
    with pytest.raises(ProgramError) as refusal:
        device.launch(program, 0)
    assert str(refusal.value) == (
        f"Program was compiled for machine {other.hash[:12]} (tiny-1x4x4), not {TINY.hash[:12]} "
        f"(tiny-1x4x4): queue_depth is 4, not 8; compile it again")


def test_simulators_have_names() -> None:
    program = AccelProgram.assemble(TINY, [finish()])
    assert simulator("functional")(TINY, program, program.image()).ok
    assert simulator("cycle", latency=7)(TINY, program, program.image()).cycles > 7
    with pytest.raises(ValueError, match=r"^Simulator must be one of functional, cycle, "
                                         r"slice, verilator, not 'fast'$"):
        simulator("fast")
