"""Figures of a run, as docs/machine.md defines them."""

import hashlib
import json

import numpy as np
import pytest

from accel.machine.config import UNITS
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.machine.status import ACTIVITIES, STALLS, Counters, Run, Status, Timeline
from accel.mapping.plans.work import block_products
from accel.mapping.target import AccelTarget
from accel.sim.meaning.functional import simulate
from compiler.graph import Graph
from runtime import Module, SimulatedDevice, compile_graph, report, simulator
from tests.support.integer_graphs import Net
from tests.support.machines import machine

MACHINE = machine("2x8x8")          # 128 multiply-accumulates a cycle, 8 bytes a cycle


def network() -> tuple[Net, Module]:
    """Three images of 5 channels and 6x6; 9 channels of 4x4; 9 channels of 2x2."""
    net = Net(1)
    y = net.max_pool(net.conv(net.input(3, 5, 6, 6), 9, (3, 3)))
    target = AccelTarget(MACHINE, threads=1)            # both at the same time would be one row
    module = compile_graph(net.graph(y), target, SimulatedDevice(MACHINE, simulate))
    for name, array in net.samples().items():
        module.set_input(name, array)
    return net, module


def figures() -> dict:
    _, module = network()
    made = report(module, module.run(), MACHINE, 1.5)
    return json.loads(json.dumps(made))


def test_a_run_without_cycles() -> None:
    made = figures()
    assert {key: made[key] for key in ("cycles", "utilization", "seconds", "wall_seconds",
                                       "machine_hash", "host")} == {
        "cycles": 0, "utilization": 0.0, "seconds": 0.0, "wall_seconds": 1.5,
        "machine_hash": MACHINE.hash, "host": {}}
    assert [(row["name"], row["op"], row["device"], row["cycles"], row["utilization"])
            for row in made["layers"]] == [("qconv2d_0", "qconv2d", "accel", 0, 0.0),
                                           ("qmaxpool_1", "qmaxpool", "accel", 0, 0.0)]


def test_useful_work_and_ideal_cycles() -> None:
    made = figures()
    conv, pool = made["layers"]
    assert conv["macs"] == 3 * 9 * 4 * 4 * 5 * 3 * 3 == made["macs"]
    # Two groups of images, two blocks of channels out and one in; padding of both is computed.
    products = 2 * 4 * 4 * 2 * 9 * 1
    read = 3 * 6 * 6 * 5 + 16 * 8 * 9 + 16 * 8
    written = 2 * 2 * 16 * 4 * 4
    assert conv["ideal_cycles"] == max(products, -(-(read + written) // 8))
    assert (pool["macs"], pool["ideal_cycles"]) == (0, (written + 2 * 2 * 16 * 2 * 2) // 8)


def test_products_bound_a_layer_of_many_channels() -> None:
    net = Net(2)
    y = net.conv(net.input(2, 64, 8, 8), 64, (3, 3), pads=(1, 1, 1, 1))
    (layer,) = AccelTarget(MACHINE).compile(net.graph(y)).layers
    assert block_products(layer) == 8 * 8 * 9 * 8 * 8


def test_bytes_are_those_that_instructions_move() -> None:
    """Padding is not read: five channels of eight. One thread computes one tile."""
    net = Net(3)
    target = AccelTarget(MACHINE, threads=1)
    module = compile_graph(net.graph(net.rescale(net.input(2, 5, 4, 4))), target,
                           SimulatedDevice(MACHINE, simulate))
    for name, array in net.samples().items():
        module.set_input(name, array)
    (row,) = report(module, module.run(), MACHINE, 0.0)["layers"]
    assert row["dram_bytes"] == 2 * 4 * 4 * 5 + 8 * 8 + 2 * 4 * 4 * 8


def test_cycles_of_layers_sum_to_those_of_the_run() -> None:
    _, module = network()
    (compiled,) = module.accelerated
    program = compiled.program
    (_, first), (_, last) = program.layers
    retire = np.arange(program.count, dtype=np.int64) * 10 + 100
    run = Run(Status.DONE, cycles=int(retire[-1]) + 7, retire=retire,
              counters=Counters({"load": {"busy": 5}}, {"load": 64}))
    module.run()
    made = report(module, (run,), MACHINE, 0.0)
    conv, pool, finish = made["layers"]
    assert conv["cycles"] == 100 + (first - 1) * 10
    assert pool["cycles"] == (last - first) * 10
    assert (finish["name"], finish["op"], finish["dram_bytes"]) == (
        "finish", "fetch", 64 * program.count)
    assert conv["cycles"] + pool["cycles"] + finish["cycles"] == run.cycles == made["cycles"]
    assert conv["utilization"] == conv["macs"] / (conv["cycles"] * 128)
    assert made["utilization"] == conv["macs"] / (run.cycles * 128)
    assert made["seconds"] == run.cycles / 100e6
    assert made["counters"] == [{"activity": {"load": {"busy": 5}}, "bytes": {"load": 64}}]


def test_busy_and_stalls_of_a_layer_sum_to_its_cycles() -> None:
    _, module = network()
    (compiled,) = module.accelerated
    program = compiled.program
    retire = np.arange(program.count, dtype=np.int64) * 10 + 100
    first, cycles = int(retire[program.layers[0][1] - 1]), int(retire[-1]) + 7
    kinds = [ACTIVITIES.index(name) for name in ("command", "busy", "memory")]
    spans = np.array([[0, kinds[0], -1], [50, kinds[1], 0], [first - 3, kinds[2], 1]], np.int64)
    run = Run(Status.DONE, cycles=cycles, retire=retire,
              timeline=Timeline(dict.fromkeys(UNITS, spans)))
    module.run()
    conv, pool, finish = report(module, (run,), MACHINE, 0.0)["layers"]
    assert (conv["carrier"], pool["carrier"], finish["carrier"]) == ("gemm", "vector", "")
    for row in (conv, pool, finish):
        for unit in UNITS:
            assert list(row["stalls"][unit]) == list(STALLS)
            assert row["busy"][unit] + sum(row["stalls"][unit].values()) == row["cycles"]
    assert (conv["busy"]["gemm"], conv["stalls"]["gemm"]["memory"]) == (first - 53, 3)
    assert pool["stalls"]["load"]["memory"] == pool["cycles"]


def pools_and_sums(net: Net) -> Graph:
    """A residual network with every operator that is no product, of two images."""
    x = net.input(2, 8, 6, 6)
    y = net.add(net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1)), x)
    return net.graph(net.average(net.max_pool(net.rescale(y))))


def host_between(net: Net) -> Graph:
    """Two accelerated segments, and the host in between."""
    x = net.input(2, 3, 6, 6, dtype="float32")
    for _ in range(2):
        x = net.conv(net.add_node("quantize", x, scale=1.0, zp=3), 3, (3, 3), pads=(1, 1, 1, 1))
        x = net.add_node("relu", net.add_node("dequantize", x, scale=0.5, zp=-4))
    return net.graph(x)


def large(net: Net) -> Graph:
    """Many tiles, of many channels."""
    return net.graph(net.conv(net.input(2, 32, 12, 12), 48, (3, 3), strides=(2, 2)))


@pytest.mark.parametrize("latency", [0, 200])
@pytest.mark.parametrize("build", [pools_and_sums, host_between, large])
def test_timing_is_explained(build, latency: int) -> None:
    """What a unit did in a layer adds up to the layer's cycles; all of it adds up to the run's."""
    net = Net(5)
    device = SimulatedDevice(MACHINE, simulator("cycle", timeline=True, latency=latency))
    module = compile_graph(build(net), AccelTarget(MACHINE), device)
    for name, array in net.samples().items():
        module.set_input(name, array)
    runs = module.run()
    rows = report(module, runs, MACHINE, 0.0)["layers"]
    assert sum(row["cycles"] for row in rows) == sum(run.cycles for run in runs)
    for unit in UNITS:
        for row in rows:
            assert row["busy"][unit] + sum(row["stalls"][unit].values()) == row["cycles"] >= 0
        whole = {cause: sum(row["stalls"][unit][cause] for row in rows) for cause in STALLS}
        whole["busy"] = sum(row["busy"][unit] for row in rows)
        assert whole == {what: sum(run.counters.activity[unit][what] for run in runs)
                         for what in ACTIVITIES}
    assert any(row["stalls"][row["carrier"]]["load"] for row in rows if row["carrier"])


def test_own_instructions_that_no_layer_uses() -> None:
    own = Machine(MACHINE.config, (*SHIPPED, vector_op("twice", lambda a: a + a)))
    net = Net(2)
    module = compile_graph(net.graph(net.rescale(net.input(1, 4, 2, 2))), AccelTarget(own),
                           SimulatedDevice(own, simulate))
    for name, array in net.samples().items():
        module.set_input(name, array)
    made = report(module, module.run(), own, 0.1)
    (row,) = (row for row in made["instructions"] if row["name"] == "twice")
    assert row | {"reason": "", "luts": 0} == {
        "name": "twice", "unit": "vector", "own": True, "executed": 0, "layers": (), "reason": "",
        "luts": 0}
    assert row["reason"].startswith("no layer computes a + a; nearest is qrescale_0 (qrescale), ")
    assert made["notes"] == [f"never executed: twice ({row['luts']:,} LUTs for nothing, "
                             f"estimated): {row['reason']}"]
    (used,) = (row for row in made["instructions"] if row["name"] == "requantize")
    assert (used["executed"], used["layers"], used["reason"]) == (1, ("qrescale_0",), "")
    assert figures()["notes"] == []


def test_outputs_are_hashed() -> None:
    _, module = network()
    made = report(module, module.run(), MACHINE, 0.0)
    (output,) = made["outputs"]
    array = module.get_output("qmaxpool_1.out")
    assert output == {"name": "qmaxpool_1.out", "shape": [3, 9, 2, 2], "dtype": "int8",
                      "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
