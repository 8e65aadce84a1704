"""A stream unit that computes one of several functions of rows that follow each other."""

import pytest

from accel.mapping.target import AccelTarget
from accel.sim.checking.check import check
from accel.sim.checking.geometries import quick_simulators
from tests.accel.mapping.test_stream_layers import executed, rows
from tests.support.integer_graphs import assert_right, assert_simulators_agree
from tests.support.partial_streams import below_of
from tests.support.softmax_graphs import softmax_graph


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [
    (24, 40), pytest.param((3, 8), marks=pytest.mark.slow), (5, 2, 9)], ids=str)
def test_vector_goes_on_from_what_the_unit_has_stored(rng, shape):
    machine = below_of()
    program = assert_right(machine, softmax_graph(shape), {"x": rows(rng, shape)})
    assert "below_max" in executed(machine, program) and len(executed(machine, program)) > 1


def test_a_slow_unit_is_not_taken(rng):
    machine, shape = below_of(lambda n: 10_000 * n), (24, 40)
    program = assert_right(machine, softmax_graph(shape), {"x": rows(rng, shape)})
    assert "below_max" not in executed(machine, program)


@pytest.mark.slow
def test_rtl_and_its_slice(rng):
    machine, shape = below_of(), (24, 40)
    program = AccelTarget(machine).compile(softmax_graph(shape)).program
    assert_simulators_agree(machine, program, {"x": rows(rng, shape)})
    assert check(machine, 10, 0, quick_simulators(machine)).ok
