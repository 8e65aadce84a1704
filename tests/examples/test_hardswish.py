"""Blocks like those of MobileNet-v3 on a machine with an instruction for hard-swish."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lockstep
from accel.machine.intrinsics import instructions
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.sim.checking.check import check
from compiler.graph import optimize
from compiler.ops.records.integer_forms import StaysFloat, Stored
from compiler.quantize import quantize
from compiler.quantize.ranges.scales import Scale
from compiler.ops.patterns import Pattern
from examples import hardswish
from tests.support.machines import LONG, example
from tests.support.onnx_runtime import run_onnx

FILE = Path(__file__).parents[2] / "examples" / "machines" / "hardswish.py"
SWISHES, SIZE = 9, 16
X = {"x": hardswish.samples(1, SIZE)}


@pytest.fixture(scope="module")
def quantized():
    return lockstep.quantize(hardswish.network(SIZE), hardswish.samples(2, SIZE), machine=FILE)


def of(stored: str):
    """The instruction's declaration, for numbers of this type."""
    from examples.machines.hardswish import hard_swish

    return hard_swish(stored)


@pytest.mark.slow
def test_every_hard_swish_is_the_instruction(quantized) -> None:
    own = [layer for layer in quantized.layers if layer.by]
    assert [layer.by for layer in own] == ["hswish"] * SWISHES
    assert {layer.steps_off for layer in own} <= {0, 1}
    ops = [node.op for node in optimize(quantized.graph).nodes]
    assert ops.count("qmap") == SWISHES + len(hardswish.BLOCKS) and "qtable" not in ops
    plain = quantize(hardswish.network(SIZE), hardswish.samples(2, SIZE))
    ops = [node.op for node in optimize(plain.graph).nodes]
    assert ops.count("qtable") == SWISHES
    assert abs(quantized.decibels - plain.decibels) < 2


@pytest.mark.slow
def test_all_targets_compute_the_same(quantized) -> None:
    machine = load_machine(FILE)
    wanted = lockstep.compile(quantized.graph, "cpu", cache=False)(X)["y"]
    for sim in ("functional", "cycle"):
        module = lockstep.compile(quantized.graph, "accel,cpu", machine=machine, sim=sim,
                                  cache=False)
        np.testing.assert_array_equal(module(X)["y"], wanted, sim)
        assert [segment.target for segment in module.partition.segments].count("accel") == 1
    names = [one.name for segment in module.accelerated
             for one in segment.program.instructions(machine)]
    assert "hswish" in names and "lookup" not in names
    theirs = run_onnx(quantized.model, X)["y"]
    assert np.abs(theirs - wanted).max() < 0.1 * np.abs(wanted).max()


@pytest.mark.slow
def test_a_layer_runs_in_rtl() -> None:
    """A convolution and its hard-swish on either side of it, on the tiny machine."""
    net = hardswish.Network()
    net.hard_swish(net.conv(net.hard_swish(net.conv("x", "stem", 3, 5, 3, 4)), "last", 5, 4))
    model = hardswish.network(SIZE)
    del model.graph.node[:], model.graph.initializer[:], model.graph.output[:]
    model.graph.node.extend(net.nodes)
    model.graph.initializer.extend(net.constants)
    model.graph.output.extend(hardswish.helper.make_tensor_value_info(
        name, 1, shape) for name, shape in ((net.nodes[-1].output[0], (1, 4, 4, 4)),))
    graph = lockstep.quantize(model, hardswish.samples(2, SIZE), machine=example("hardswish")).graph
    found, wanted = (lockstep.compile(graph, "accel,cpu", machine=example("hardswish"), sim=sim,
                                      cache=False)(X) for sim in ("verilator", "functional"))
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("below", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("reach", [0.3, 1.0, 2.9, 6.0, 17.0, 60.0])
def test_it_is_within_a_step_whatever_the_range(reach: float, below: float) -> None:
    """The range of x has the length `reach`, and the share `below` of it is negative."""
    pattern = of("int8").pattern
    assert isinstance(pattern, Pattern)
    low, high = -below * reach, (1 - below) * reach
    values = pattern.value(np.linspace(low, high, 2001))
    x, y = (as_stored(*ends) for ends in ((low, high), (values.min(), values.max())))
    assert pattern.steps_off([x], y) <= 1


def as_stored(low: float, high: float) -> Stored:
    scale = Scale.of(low, high)
    return Stored("x", float(scale.scale), int(scale.zero) - 128)


@pytest.mark.parametrize(("reach", "steps"), [(0.3, 1), (2.9, 1), (6.0, 1), (17.0, 2)])
def test_it_is_within_a_few_steps_of_16_bits(reach: float, steps: int) -> None:
    pattern = of("int16").pattern
    assert isinstance(pattern, Pattern)
    x = Stored("x", reach / 32767, 0, "int16")
    most = np.abs(pattern.value(np.linspace(-reach, reach, 2001))).max()
    y = replace(x, scale=float(most) / 32767)
    assert pattern.steps_off([x], y) <= steps


def test_a_scale_that_is_too_small_is_refused() -> None:
    pattern = of("int8").pattern
    assert isinstance(pattern, Pattern)
    x, y = Stored("x", 1e-4, 0), Stored("y", 1e-4, 0)
    with pytest.raises(StaysFloat, match="^immediate three must be an integer from 0 to 65535, "
                                         "not 480000$"):
        pattern.function([x], y)


def test_the_machine_finds_it_and_has_no_tables() -> None:
    machine = load_machine(FILE)
    assert [pattern.name for pattern in machine.patterns] == ["hswish"]
    assert "lookup" not in machine.opcodes


@pytest.mark.slow
def test_with_16_bits_no_layer_of_it_is_in_float() -> None:
    machine = Machine(LONG.config, (*instructions("int16", "int8", "int16"), of("int16")))
    made = [lockstep.quantize(hardswish.network(SIZE), hardswish.samples(2, SIZE), machine=one)
            for one in (LONG, machine)]
    before, after = ([layer.name for layer in one.layers if not layer.quantized] for one in made)
    assert len(before) == SWISHES + 2 * len(hardswish.BLOCKS) + 1
    assert all(name.endswith(".gated") for name in after) and len(after) == len(hardswish.BLOCKS)


@pytest.mark.slow
def test_random_programs() -> None:
    report = check(example("hardswish"), 20)
    assert report.ok, report.difference
