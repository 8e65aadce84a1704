"""The machine of int16 activations with accumulators of 48 bits.

Sums of products of int16 and int8 never wrap in 48 bits, so layers of any depth stay on the
accelerator; weights may have 16 bits as well, as those of `DEEP16` do.
"""

from accel.machine.config import preset
from accel.machine.intrinsics import instructions
from accel.machine.machine import Machine

DEEP = instructions(inp="int16", wgt="int8", stored="int16", accumulator="int48")
DEEP16 = instructions(inp="int16", wgt="int16", stored="int16", accumulator="int48")

machine = Machine(preset("tiny-1x4x4"), DEEP)
