"""ArgMax and ArgMin over channels on machines that declare an instruction for them."""

import numpy as np
import pytest

from accel.machine.intrinsics import vector_op
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from compiler.graph import Graph, evaluate
from tests.support.integer_graphs import (Net, assert_right, assert_simulators_agree,
                                          run_program)
from tests.support.machines import MACHINES, SHORT, TINY, example

ARGMIN = vector_op("argmin", lambda a, bias: bias + (a << 16), a=("res",), lanes="min",
                   update="min")
LIKE = {name: example("argmax", machine) for name, machine in MACHINES.items()}


def graph(shape, op="qargmax", axis=1) -> Graph:
    net = Net()
    return net.graph(net.add_node(op, net.input(*shape), axis=axis))


def assert_places(machine: Machine, shape, op="qargmax"):
    subject, rng = graph(shape, op), np.random.default_rng(sum(shape))
    program = AccelTarget(machine).compile(subject).program
    samples = [{"x": rng.integers(low, high, shape, np.int8)}       # few values: many are equal
               for low, high in ((-128, 128), (-128, -126), (5, 6))]
    for given in samples:
        (found,), (wanted,) = (outputs.values() for outputs in (
            run_program(machine, program, given), evaluate(subject, given)))
        np.testing.assert_array_equal(found, wanted)
    return program, samples[1]


@pytest.mark.parametrize(("name", "shape"), [
    ("tiny-1x4x4", (1, 3, 4, 5)), ("tiny-1x4x4", (2, 4, 3, 1)), ("tiny-1x4x4", (1, 21, 5, 4)),
    ("2x8x8", (5, 37)), ("2x8x8", (2, 300)), ("1x32x16", (1, 21, 2, 3)),
    (SHORT.config.name, (1, 7, 6, 5))])
def test_the_first_of_the_greatest(name, shape) -> None:
    assert_places(LIKE[name], shape)


def test_the_first_of_the_least() -> None:
    machine = Machine(TINY.config, (*TINY.declarations, ARGMIN))
    assert_places(machine, (1, 21, 2, 3), "qargmin")
    assert AccelTarget(machine).refusal(graph((1, 5)), graph((1, 5)).nodes[0])


def test_channels_that_a_convolution_pads_are_never_the_greatest() -> None:
    """Their values are the zero point of the convolution, which may be more than all others."""
    net = Net()
    subject = net.graph(net.add_node("qargmax", net.conv(net.input(1, 3, 6, 6), 5), axis=1))
    assert_right(LIKE["tiny-1x4x4"], subject, net.samples())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny-1x4x4", "2x8x8"])
def test_the_simulators_agree(name) -> None:
    program, samples = assert_places(LIKE[name], (2, 21, 3, 2))
    assert_simulators_agree(LIKE[name], program, samples)


def test_what_the_accelerator_does_not_take_is_refused() -> None:
    def refusal(machine, subject):
        return AccelTarget(machine).refusal(subject, subject.nodes[0])

    assert refusal(LIKE["tiny-1x4x4"], graph((1, 5, 2, 2))) is None
    assert refusal(LIKE["tiny-1x4x4"], graph((1, 5, 2, 2), axis=2)) == (
        "it is along axis 2; the accelerator takes channels")
    assert refusal(TINY, graph((1, 5, 2, 2))) == (
        "no vector instructions compute its reduction over lanes")


def test_channels_that_do_not_fit_are_gathered_in_pieces() -> None:
    """75 blocks have 75 entries of numbers, where par holds 32."""
    for shape in ((1, 300), (2, 270, 2, 1)):
        assert_places(LIKE["tiny-1x4x4"], shape)


def test_the_note_names_the_own_instruction() -> None:
    segment = AccelTarget(LIKE["tiny-1x4x4"]).compile(graph((1, 5, 2, 2)))
    assert segment.layers[0].note == "by argmax on the accelerator; without: on the host"
