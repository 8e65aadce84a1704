"""Windows of few channels whose neighbours share entries."""

from dataclasses import replace

import pytest

from accel.machine.config import AccelConfig, preset
from accel.machine.machine import Machine
from accel.mapping.operators.blocked import Activation, Window
from accel.mapping.operators.windows import sharings
from accel.mapping.memory.layout import blocks_of
from accel.mapping.target import AccelTarget
from examples.machines.published.array_128 import machine as ARRAY
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree

WIDE = Machine(AccelConfig(
    "wide", 1, 32, 32, inp_bytes=1 << 14, wgt_bytes=1 << 16, res_bytes=1 << 14, par_bytes=1 << 13,
    acc_bytes=1 << 16, out_bytes=1 << 14, bus_bytes=64))
SMALL = Machine(replace(preset("ecp5-1x8x8"), name="small", block_in=16, bus_bytes=16))


def notes(machine: Machine, net: Net, *outputs: str) -> list[str]:
    compiled = AccelTarget(machine).compile(net.graph(*outputs))
    return [layer.note for group in compiled.way.layers for layer in group]


@pytest.mark.parametrize("size, kernel, strides, pads, pixels", [
    ((16, 16), (3, 3), (2, 2), (1, 1, 1, 1), "1 x 4"),
    ((13, 16), (5, 5), (1, 1), (2, 2, 2, 2), "1 x 2"),
    ((12, 9), (3, 3), (1, 1), (1, 1, 1, 1), "3 x 3"),
    ((17, 14), (3, 2), (2, 2), (1, 0, 0, 0), "4 x 1"),
    ((15, 14), (3, 2), (2, 2), (1, 0, 0, 0), "")])
def test_values(size, kernel, strides, pads, pixels: str) -> None:
    """With a pool behind it, which reads rows of pixels and not of positions."""
    net = Net(7)
    x = net.conv(net.input(2, 1, *size), 9, kernel, strides, pads, pad_value=5)
    y = net.max_pool(x, (3, 3), (2, 2), (1, 1, 1, 1))
    said = notes(WIDE, net, x, y)[0]
    assert said == (f"{pixels} windows share entries" if pixels else "")
    assert_right(WIDE, net.graph(x, y), net.samples())


def test_which_windows_share() -> None:
    blocks, stem = blocks_of(ARRAY.config), Window((7, 7), (2, 2), (3, 3, 3, 3))
    image = Activation(1, 3, 224, 224, plain=True)
    assert [*sharings(image, 64, stem, 128, blocks)] == [(1, 2), (2, 1), (2, 2)]
    assert not [*sharings(image, 64, stem, 64, blocks)]             # half an entry in a cycle
    assert not [*sharings(image, 256, stem, 128, blocks)]           # gemm takes as long as load
    assert not [*sharings(Activation(1, 3, 224, 224), 64, stem, 128, blocks)]
    for name in ("pynq-1x16x16", "tiny-1x4x4", "ecp5-1x8x8"):
        config = preset(name)
        for each in (stem, Window((3, 3), pads=(1, 1, 1, 1))):
            assert not [*sharings(image, 64, each, config.bus_bytes, blocks_of(config))]


@pytest.mark.slow
def test_in_rtl() -> None:
    net = Net(8)
    x = net.conv(net.input(1, 1, 8, 8), 8, (7, 1), (1, 1), (3, 0, 3, 0), pad_value=5)
    assert notes(SMALL, net, x) == ["2 x 2 windows share entries"]
    program = assert_right(SMALL, net.graph(x), net.samples())
    assert_simulators_agree(SMALL, program, net.samples())
