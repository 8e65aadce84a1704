"""A systolic array of 128 x 128 with a unified buffer: half a TPU in each direction.

Published by Jouppi et al., "In-Datacenter Performance Analysis of a Tensor Processing Unit" (ISCA
2017): 256 x 256 multipliers of int8 at 700 MHz in which weights stay, 4,096 rows of 256 sums, paths
of 256 bytes, a unified buffer of 24 MiB for activations, weights from a memory of 34 GB/s.

Here the array has 128 each way (`block_in`, `block_out`, `dataflow`); the 4,096 rows of sums
(`acc_bytes`) and the paths of 256 bytes (`bus_bytes`) are theirs, and there is a quarter of the
bytes on the chip for a quarter of the multipliers: 4 MiB of unified buffer (`shared_bytes`), 2 MiB
of sums, and 1.6 MiB of all other buffers. The memory gives 256 bytes in every cycle, 179 GB/s. The
TPU reads 49 bytes a cycle for four times as many multipliers, but weights alone.

One instruction is declared beside the shipped ones: requantize_add takes sums to int8 and adds a
residual, so that neither leaves the core in between. A TPU's activation unit, too, reads sums.

Not said by ours:

- a FIFO of weights, four blocks deep, that is filled ahead of whatever comes next
- an array that takes activations from the unified buffer, and units that write results there, at
  the same time and without a buffer and an instruction of load or store in between
- pixels of several images that meet one block of weights
- two memories, one for weights and one of the host
- weights or activations of 16 bits at half or a quarter of the speed
"""

import lockstep
from accel.machine.config import WEIGHT_STATIONARY, AccelConfig
from accel.machine.dram import Dram
from accel.machine.intrinsics import SHIPPED
from accel.machine.timing import CoreTiming
from compiler import te
from compiler.ops.integers.arithmetic import add_scaled, requantize

RECORD = te.record("requantized_sums", bias_of="int32", factor="uint16", down="uint8", zero="int8")
"""Numbers of a channel; `zero` is the zero point of what is added."""


def _requantize_add(a, b, bias_of, factor, down, zero, ma, mb, imm, s, zp, lo, hi):
    """int8 of sums, then its sum with a residual: what requantize and add_scaled compute."""
    product = requantize(a, bias_of, factor, down, zero, -128, 127)
    return add_scaled(product, b, ma, mb, imm, s, zp, lo, hi).astype(a.dtype)


requantize_add = lockstep.vector_op("requantize_add", _requantize_add, record=RECORD, a=("acc",),
                                    b=("res",))

machine = lockstep.Machine(AccelConfig(
    name="array-128", batch=1, block_in=128, block_out=128, dataflow=WEIGHT_STATIONARY,
    inp_bytes=256 << 10, wgt_bytes=1 << 20, res_bytes=128 << 10, par_bytes=64 << 10,
    acc_bytes=2 << 20, out_bytes=128 << 10, shared_bytes=4 << 20, bus_bytes=256, clock_mhz=700,
    memory=Dram(outstanding=256), timing=CoreTiming(bursts=256)),
    (*SHIPPED, requantize_add))
