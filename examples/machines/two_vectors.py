"""A machine with two units of vector, each of which takes four cycles for an entry.
docs/structure.md says more.

    lockstep check --machine examples/machines/two_vectors.py --count 20
    lockstep run digits --machine examples/machines/two_vectors.py
"""

from dataclasses import replace

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, also_on
from accel.machine.machine import Machine
from accel.machine.structure import SHIPPED_STRUCTURE

machine = Machine(
    replace(preset("tiny-1x4x4"), name="two-vectors", vector_beats=4,
            structure=SHIPPED_STRUCTURE.with_vector("vector2", "out2")),
    SHIPPED + also_on("vector2", SHIPPED))
