"""A systolic array of 128 x 128 whose weights stay, with a unified buffer: half a TPU each way.
docs/published.md says more.

Published (Jouppi et al., ISCA 2017, tables 1 to 3): the TPU has 256 x 256 multipliers at 700 MHz,
24 MiB of unified buffer, 4,096 rows of accumulators, and weights at 34 GB/s. Its counters find the
array active in 78.2 % of the cycles of CNN0 (16 convolutions, batch 8), in 46.2 % of those of CNN1
(72 convolutions, batch 32), half of whose products meet useless weights.

What follows it: weights that stay, 4,096 rows of accumulators, paths as wide as the array, and a
quarter of its bytes on chip for a quarter of its multipliers: 7 MiB.

What is not said: a FIFO of weights, so that a block of them is read while another one is used,
whatever layer it is of; activations that the array takes from the unified buffer without a copy;
two memories, one for weights and one for the host; weights or activations of 16 bits.
"""

import lockstep
from accel.machine.config import AccelConfig
from accel.machine.dram import Dram
from accel.machine.timing import CoreTiming

KIB = 1024

machine = lockstep.Machine(AccelConfig(
    "array_128", batch=1, block_in=128, block_out=128, dataflow="weight_stationary",
    inp_bytes=256 * KIB, wgt_bytes=1024 * KIB, res_bytes=128 * KIB, par_bytes=64 * KIB,
    acc_bytes=2048 * KIB, out_bytes=128 * KIB, shared_bytes=4096 * KIB, bus_bytes=128,
    clock_mhz=700, memory=Dram(outstanding=256), timing=CoreTiming(bursts=256)))
