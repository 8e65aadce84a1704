"""A machine of int16 activations and int8 weights.

The shipped instructions, declared for other types: gemm multiplies int16 by int8 and adds up in
int32; vector reads residuals and writes results of int16. Entries of inp, res and out are twice as
wide; buffers, words, loads, datapaths and simulators follow from the declarations.
"""

from accel.machine.config import preset
from accel.machine.intrinsics import instructions
from accel.machine.machine import Machine

INT16 = instructions(inp="int16", wgt="int8", stored="int16")

machine = Machine(preset("tiny-1x4x4"), INT16)
