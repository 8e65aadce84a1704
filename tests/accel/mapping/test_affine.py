"""A factor and an offset for each channel: one instruction of vector, or two, and none of gemm."""

import numpy as np
import pytest

from accel.machine.intrinsics import instructions
from accel.machine.machine import Machine
from accel.machine.words import decode_words
from compiler.graph import Graph
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import LONG, MACHINES, TINY


SIGNED = (-128, 127)
FACTORS = pytest.mark.parametrize("factors", [None, SIGNED, (1, 127)])


def network(element: str, factors: tuple[int, int] | None, *shape: int, axis: int = 1
            ) -> tuple[Net, Graph]:
    net = Net(5, element=element)
    return net, net.graph(net.affine(net.input(*shape), axis, factors))


def names(machine: Machine, words: np.ndarray) -> list[str]:
    """The instructions of a program that compute, each once."""
    return [name for name in dict.fromkeys(one.name for one in decode_words(machine, words))
            if name not in ("load", "store", "finish")]


@pytest.mark.parametrize(("factors", "wanted"), [(None, ["requantize"]),
                                                 (SIGNED, ["mul", "requantize"])])
def test_images_on_every_simulator(factors: tuple[int, int] | None, wanted: list[str]) -> None:
    """Channels end within a block."""
    net, graph = network("int8", factors, 2, 9, 3, 5)
    program = assert_right(TINY, graph, net.samples())
    assert names(TINY, program.words) == wanted
    assert_simulators_agree(TINY, program, net.samples())


@pytest.mark.parametrize("name", ["2x8x8", "1x32x16"])
@FACTORS
def test_rows_of_matrices(name: str, factors: tuple[int, int] | None) -> None:
    net, graph = network("int8", factors, 2, 5, 21, axis=2)
    program = assert_right(MACHINES[name], graph, net.samples())
    assert "gemm" not in names(MACHINES[name], program.words)


@pytest.mark.one_in(3)
@FACTORS
def test_other_types(factors: tuple[int, int] | None) -> None:
    """Activations of 16 bits, and accumulators of 16 and 48."""
    net, graph = network("int16", factors, 1, 6, 4, 3)
    assert_right(LONG, graph, net.samples())
    for accumulator in ("int16", "int48"):
        machine = Machine(TINY.config, instructions(accumulator=accumulator))
        net, graph = network("int8", factors, 1, 6, 4, 3)
        program = assert_right(machine, graph, net.samples())
        assert "gemm" not in names(machine, program.words)


def test_it_stands_between_layers() -> None:
    """What is written for it lies where it reads, images in blocks."""
    net = Net(2)
    x = net.conv(net.input(1, 3, 8, 7), 10, pads=(1, 1, 1, 1))
    y = net.max_pool(net.affine(x))
    graph = net.graph(net.dense(net.flatten(net.affine(y, factors=SIGNED)), 5))
    assert_right(TINY, graph, net.samples())
