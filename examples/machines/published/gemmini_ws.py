"""Gemmini, 16 x 16, with weights that stay in the array.

Published by Genc et al., "Gemmini: Enabling Systematic Deep-Learning Architecture Evaluation via
Full-Stack Integration" (DAC 2021, arXiv 1911.09925), and in ucb-bar/gemmini: a systolic array of 16
x 16 elements of int8 with sums of int32 (`block_in`, `block_out`, `dataflow`), a scratchpad of 256
KiB for inputs and weights (here 128 KiB each: `inp_bytes`, `wgt_bytes`), an accumulator of 64 KiB
(`acc_bytes`), DMA of 128 bits a cycle (`bus_bytes`), 1 GHz.

res, par and out are ours, and small: Gemmini loads residuals and biases into its accumulator, and
scales and stores from there.

Not said by ours:

- one scratchpad for inputs and weights, divided anew by each layer
- results that go from the array back into the scratchpad, and are the next product's inputs without
  a load
- loads of residuals and biases into the accumulator, and stores that scale, pool and activate on
  their way out of it
- a scale in float32 for the whole tensor; ours are integers, for each channel
- an L2 cache between DMA and DRAM, virtual addresses, a TLB and its misses
- a host core that issues every instruction, and instructions for whole loops that a state machine
  unrolls
"""

from accel.machine.config import WEIGHT_STATIONARY, AccelConfig
from accel.machine.machine import Machine

machine = Machine(AccelConfig(
    name="gemmini-ws", batch=1, block_in=16, block_out=16, dataflow=WEIGHT_STATIONARY,
    inp_bytes=128 << 10, wgt_bytes=128 << 10, acc_bytes=64 << 10, out_bytes=8 << 10,
    res_bytes=8 << 10, par_bytes=4 << 10, bus_bytes=16, clock_mhz=1000))
