"""Networks in C on the gateware for a Zynq in Verilator: registers over AXI4-Lite, memory over AXI4
with random pauses, and a cache in between.
"""

from pathlib import Path

import numpy as np
import pytest

from accel.machine.status import Status
from accel.sim.meaning import functional
from compiler.cpu_gpu_backends.llvm import host
from lockstep.testing.zoo import build
from runtime import SimulatedDevice, compile_for
from tests.fpga.driver.test_board import STATUS
from tests.fpga.driver.test_export import PAIRS, layers, on
from tests.runtime.test_layout import network as divided
from tests.support.axi_board import AxiNetwork, Fault
from tests.support.border_graphs import random_images, samples as border_samples
from tests.support.machines import TINY

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits-int8.onnx"

pytestmark = pytest.mark.slow


def samples(module, count: int) -> list[dict[str, np.ndarray]]:
    rng, graph = np.random.default_rng(count), module.graph
    return [{name: rng.random(graph.values[name].shape, np.float32) for name in graph.inputs}
            for _ in range(count)]


def assert_right(network: AxiNetwork, inputs, exact: bool = True, **options) -> None:
    """Every run ends well, with the outputs of the module; floats that the processor computes may
    be rounded otherwise unless they must be `exact`.
    """
    first, *runs = network.calls(inputs, **options)
    assert (first.name, first.result) == ("init", 0) and len(runs) == len(inputs)
    program = network.module.accelerated[-1].program
    for run in runs:
        assert run.result == 0 and run.status & 0xFF == Status.DONE and run.cycles > 100
        assert run.index == program.count - 1 and not run.interrupt
    for given, made in zip(inputs, network.outputs(), strict=True):
        for name, array in network.module(given).items():
            np.testing.assert_allclose(made[name], array, rtol=0 if exact else 1e-6)


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> AxiNetwork:
    module = compile_for(DIGITS, SimulatedDevice(TINY, functional.simulate))
    return AxiNetwork(module, tmp_path_factory.mktemp("digits"))


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_digits(digits, cached, seed):
    assert_right(digits, samples(digits.module, 3), cached=cached, seed=seed)


def test_the_processor_sleeps_until_the_interrupt(digits):
    """It looks once before, and once after."""
    assert_right(digits, samples(digits.module, 3), sleeps=True)


def test_without_an_end_there_is_no_interrupt(digits):
    _, *runs = digits.calls(samples(digits.module, 1), fault=Fault.NO_MEMORY, sleeps=True)
    assert [(run.result, run.interrupt) for run in runs] == [
        (STATUS["TIMED_OUT"], 0), (STATUS["BUSY"], 0)]


@pytest.mark.parametrize("processor", [None, "x86-64"])
def test_constants_apart(tmp_path, digits, processor):
    network = AxiNetwork(digits.module, tmp_path, apart=True, processor=processor)
    assert_right(network, samples(digits.module, 1))


@pytest.mark.parametrize("machine, images, processor", [
    (TINY, 1, None), (PAIRS, 3, None), (PAIRS, 2, "x86-64")])
def test_a_divided_network(tmp_path, machine, images, processor):
    """A layer, an activation of the processor, a layer: two programs share the memory."""
    graph = divided(images)
    module = on(machine, graph)
    assert len(module.accelerated) == 2
    assert_right(AxiNetwork(module, tmp_path, apart=images > 1, processor=processor),
                 [border_samples(graph, seed) for seed in range(2)])


@pytest.mark.parametrize("processor", [None, pytest.param("x86-64-v3", marks=pytest.mark.skipif(
    not host().has("avx2", "fma"), reason="needs a processor with AVX2 and FMA"))])
@pytest.mark.parametrize("seed", range(4))
def test_random_divided_networks(tmp_path, seed, processor):
    """With maps in float: objects round them as the module does, C text each operation by itself.
    """
    graph = random_images(100 + seed, 12)
    network = AxiNetwork(on((TINY, PAIRS)[seed % 2], graph), tmp_path, processor=processor)
    assert_right(network, [border_samples(graph, seed)], exact=processor is not None)


def test_keywords(tmp_path):
    module = compile_for(build("keywords", int8=True), SimulatedDevice(TINY, functional.simulate))
    assert_right(AxiNetwork(module, tmp_path), samples(module, 2))


def test_layers(tmp_path):
    net, graph = layers()
    assert_right(AxiNetwork(on(TINY, graph), tmp_path), [net.samples(), net.samples()])


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> AxiNetwork:
    return AxiNetwork(on(TINY, layers()[1]), tmp_path_factory.mktemp("layers"))


@pytest.mark.parametrize("fault, first, second", [
    (Fault.NO_MEMORY, "TIMED_OUT", "BUSY"), (Fault.BUS_ERRORS, "FAILED", "FAILED"),
    (Fault.RESET, "LOST", None), (Fault.HELD_IN_RESET, "LOST", "LOST"),
    (Fault.NO_CLOCK, "LOST", "LOST")])
def test_faults_in_a_run(network, fault, first, second):
    """Each ends with a status; after a reset that is over the next run is right."""
    init, *runs = network.calls([layers()[0].samples()] * 2, fault=fault)
    assert init.result == 0
    assert [run.result for run in runs] == [STATUS[first], STATUS[second] if second else 0]
    statuses = [run.status & 0xFF for run in runs]
    assert statuses == {"FAILED": [Status.BUS] * 2, "LOST": [0, 0 if second else Status.DONE],
                        "TIMED_OUT": [0, 0]}[first]


def test_nothing_answers(network):
    init, *runs = network.calls([layers()[0].samples()], fault=Fault.DEAD)
    assert init.result == STATUS["NO_ACCELERATOR"] and not runs


@pytest.mark.parametrize("altered", [0, 3])
def test_a_word_that_was_changed(network, altered):
    _, *runs = network.calls([layers()[0].samples()], altered=altered)
    assert [(run.result, run.status & 0xFF, run.index) for run in runs] == [
        (STATUS["FAILED"], Status.ILLEGAL, altered)] * 2


def test_a_board_of_another_machine(tmp_path):
    network = AxiNetwork(on(PAIRS, layers(3)[1]), tmp_path, TINY)
    init, *runs = network.calls([layers(3)[0].samples()])
    assert init.result == STATUS["OTHER_MACHINE"] and not runs
