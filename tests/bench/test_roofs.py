"""Products and beats of the bus, of which a layer takes at least the more."""

from dataclasses import replace

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from bench.support.roofs import roofs
from tests.support.networks import convolution_graph

PRODUCTS = 8 * 8 * 9 * 4 * 4        # pixels, taps, blocks of 16 channels each way
LOADED = 64 * 64 * 9 + 64 * 8 * 8 + 64 * 8      # weights, pixels, records


def roof(bus_bytes: int):
    machine = Machine(replace(preset("pynq-1x16x16"), bus_bytes=bus_bytes))
    one, = roofs(machine, AccelTarget(machine).compile(convolution_graph(64, 64, 8)))
    return one


def test_a_wide_bus_leaves_the_products() -> None:
    one = roof(16)
    assert one.products == one.cycles == PRODUCTS < one.row.cycles


def test_a_narrow_bus_takes_a_cycle_for_each_byte() -> None:
    one = roof(1)
    assert one.products == PRODUCTS and LOADED <= one.cycles < 1.1 * LOADED
    assert one.cycles < one.row.cycles
