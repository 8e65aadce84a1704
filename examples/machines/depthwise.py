"""A machine whose vector unit multiplies and accumulates: a tap of a convolution in a cycle.

`mac` adds to each lane of acc the product of an element of res and of a weight of its channel,
which is the bias of a record in par. A depthwise convolution has one input channel for each output,
so the array of gemm multiplies mostly by zeros, which it has to load first.
"""

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine

MAC = vector_op("mac", lambda a, b: a * b.astype("int8").astype("int32"), update="sum",
                a=("res",), b=("par",))

machine = Machine(preset("pynq-1x16x16"), (*SHIPPED, MAC))
