"""A machine that finds the greatest of all channels of a pixel: see docs/argmax.md.

    lockstep check --machine examples/machines/argmax.py --count 300

The value of a channel stands above its number, which the compiler keeps as the channel's bias: the
least of all, over the lanes of a row and over blocks of channels, has the number of the first of
the greatest in its low 16 bits.
"""

import lockstep
from accel.machine.intrinsics import SHIPPED

argmax = lockstep.vector_op("argmax", lambda a, bias: bias - (a << 16), a=("res",), lanes="min",
                            update="min")

machine = lockstep.Machine(lockstep.preset("tiny-1x4x4"), (*SHIPPED, argmax))
