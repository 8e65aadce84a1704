"""Networks on systolic arrays: results as ever, loops in the order that weights want."""

from dataclasses import replace

import pytest

from accel.figures.accesses import AccessProfile
from accel.machine.config import DATAFLOWS, OUTPUT_STATIONARY, WEIGHT_STATIONARY
from accel.machine.machine import Machine
from accel.mapping.bounds import bound_of
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from tests.accel.mapping.bounds.test_bounds import layer_of
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import MACHINES


def of(dataflow: str, name: str = "tiny-1x4x4") -> Machine:
    return Machine(replace(MACHINES[name].config, dataflow=dataflow))


@pytest.mark.parametrize("dataflow", DATAFLOWS[1:])
def test_results_are_those_of_the_network(dataflow: str) -> None:
    """Kernels, strides, groups, phases of a transposed convolution, products of two tensors."""
    net = Net(4)
    x = net.input(2, 6, 7, 6)
    y = net.conv(x, 12, (3, 3), (2, 1), (1, 1, 1, 1), pad_value=3)
    y = net.conv_transpose(net.conv(y, 8, (1, 1)), 8)
    y = net.conv(y, 8, (3, 3), group=4)
    product = net.matmul(net.input(2, 9, 8, name="a"), net.input(2, 8, 6, name="b"))
    assert_right(of(dataflow, "2x8x8"), net.graph(y, product), net.samples())


def test_weights_are_read_once_for_all_pixels_of_a_tile() -> None:
    """Each block of weights meets the 8 pixels of a tile before the next, so that none waits."""
    runs, profiles = {}, {}
    for dataflow in DATAFLOWS:
        net, machine = Net(1), of(dataflow)
        graph = net.graph(net.conv(net.input(1, 8, 8, 8), 8, (3, 3), pads=(1, 1, 1, 1)))
        program = AccelTarget(machine).compile(graph).program
        runs[dataflow] = run = cycle.simulate(machine, program, values=False)
        profiles[dataflow] = AccessProfile.of(machine, program, run).totals()
    tree, weights, sums = (profiles[dataflow] for dataflow in DATAFLOWS)
    assert tree["wgt.read"] == sums["wgt.read"] == 64 * 36
    assert weights["wgt.read"] == 4 * 64 * 36 // 8          # in columns of four
    assert sums["acc.gemm_write"] == 64 * 2 and "acc.gemm_read" not in sums
    most = 1.05 * runs[DATAFLOWS[0]].cycles
    assert runs[WEIGHT_STATIONARY].cycles < most and runs[OUTPUT_STATIONARY].cycles < most


def test_a_product_of_one_row_waits_for_each_block_of_weights() -> None:
    """No order helps where each block meets one pixel; cost and bound say so."""
    net = Net(1)
    machine, result = of(WEIGHT_STATIONARY), net.dense(net.input(1, 64), 32)
    layer, _ = layer_of(machine, net, result)
    program = AccelTarget(machine).compile(net.graph(result)).program
    run = cycle.simulate(machine, program, values=False)
    blocks = 64 * 32 // 16
    assert 4 * blocks <= bound_of(machine, layer, 2).cycles <= run.cycles
    with_tree = of(DATAFLOWS[0])
    assert cycle.simulate(with_tree, AccelTarget(with_tree).compile(net.graph(result)).program,
                          values=False).cycles < run.cycles
