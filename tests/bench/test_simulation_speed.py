"""A program that repeats another is legal and does the same."""

import numpy as np

from accel.mapping.target import AccelTarget
from accel.proof.legal import prove
from accel.sim.meaning import functional
from tests.support.networks import convolution_graph
from bench.simulators.exact import random_image, repeated, same
from tests.support.machines import TINY


def test_a_repeated_program_is_legal_and_does_the_same() -> None:
    program = AccelTarget(TINY).compile(convolution_graph(8, 8, 5)).program
    thrice = repeated(TINY, program, 3)
    assert thrice.count == 3 * (program.count - 1) + 1
    prove(TINY, thrice)
    (slot,) = program.outputs
    once, again = (functional.simulate(TINY, one, random_image(one)) for one in (program, thrice))
    np.testing.assert_array_equal(program.extract(once.memory, slot.name),
                                  thrice.extract(again.memory, slot.name))
    assert same([again, again]) and not same([again, again, once])
