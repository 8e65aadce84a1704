"""Inference from several threads on one module gives what one thread gives."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from accel.machine.machine import Machine
from accel.machine.status import Run
from accel.mapping.target import AccelTarget
from compiler.graph import Graph
from runtime import InputError, Module, SimulatedDevice, compile_graph, simulator
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

THREADS, EACH = 4, 8


def network() -> Graph:
    """The host, the accelerator, the host, twice."""
    net = Net(1)
    x = net.input(1, 3, 6, 6, dtype="float32")
    for _ in range(2):
        x = net.conv(net.add_node("quantize", x, scale=1.0, zp=3), 3, (3, 3), pads=(1, 1, 1, 1))
        x = net.add_node("dequantize", x, scale=0.5, zp=-4)
    return net.graph(x)


def module_of(machine: Machine | None, sim: str) -> Module:
    """Its simulator lets other threads do something before it begins."""
    if machine is None:
        return compile_graph(network(), None)
    simulate = simulator(sim)

    def yielding(*args) -> Run:
        time.sleep(0.002)
        return simulate(*args)

    return compile_graph(network(), AccelTarget(machine), SimulatedDevice(machine, yielding))


@pytest.mark.parametrize(("machine", "sim"), [(None, ""), (TINY, "functional"), (TINY, "cycle")])
def test_threads_do_not_meet(machine: Machine | None, sim: str) -> None:
    module = module_of(machine, sim)
    rng = np.random.default_rng(1)
    inputs = [{"x": rng.normal(0, 50, (1, 3, 6, 6)).astype(np.float32)}
              for _ in range(THREADS * EACH)]
    wanted = [module(one) for one in inputs]
    name, = module.graph.outputs
    assert len({one[name].tobytes() for one in wanted}) == len(wanted)
    with ThreadPoolExecutor(THREADS) as pool:
        for made, right in zip(pool.map(module, inputs), wanted, strict=True):
            np.testing.assert_array_equal(made[name], right[name])


def test_a_call_leaves_what_was_set() -> None:
    module = module_of(TINY, "functional")
    ones, twos = (np.full((1, 3, 6, 6), value, np.float32) for value in (1, 20))
    name, = module.graph.outputs
    module.set_input("x", ones)
    module.run()
    before = module.get_output(name)
    assert not np.array_equal(module({"x": twos})[name], before)
    assert module.get_output(name) is before
    module.run()
    np.testing.assert_array_equal(module.get_output(name), before)


def test_wrong_inputs_of_a_call() -> None:
    module = module_of(None, "")
    with pytest.raises(InputError, match="^Input x must be set before the network runs$"):
        module({})
    with pytest.raises(InputError, match="^Input must be one of x, not 'y'$"):
        module({"y": np.zeros(1)})
