"""The GeMM core of OpenGeMM, or SNAX: 8 x 8 x 8 products a cycle. docs/published.md says more.

Published (Yi et al.: OpenGeMM, ASP-DAC 2025, arXiv 2411.09543): 81.89 to 99.34 % of the core are
used, over networks of convolutions and transformers; 4.68 TOPS/W. Its cluster's configuration
(github.com/KULeuven-MICAS/snax_cluster, snax_KUL_cluster.hjson) has 8 rows, 8 columns and a depth
of 8, a scratchpad of 128 KiB in 32 banks, and a DMA of 512 bits.

What follows it: batch, block_in and block_out; the bus, of 64 bytes; an adder tree for each sum;
and buffers that have 128 KiB in all, of which the scratchpad has as much for whatever it holds.

What is not said: one scratchpad in banks, from which streamers read operands at six strides, with
transposes; pixels of one image as the rows of a block product (here these are images, or rows of a
matrix); a core of RISC-V that does what the GeMM core does not; sums in memory with 32 bits.
"""

import lockstep
from accel.machine.config import AccelConfig
from accel.machine.dram import Dram
from accel.machine.timing import CoreTiming

KIB = 1024

machine = lockstep.Machine(AccelConfig(
    "snax", batch=8, block_in=8, block_out=8, inp_bytes=40 * KIB, wgt_bytes=20 * KIB,
    res_bytes=14 * KIB, par_bytes=2 * KIB, acc_bytes=36 * KIB, out_bytes=14 * KIB,
    tab_bytes=2 * KIB, bus_bytes=64, clock_mhz=200,
    memory=Dram(outstanding=256), timing=CoreTiming(bursts=256)))
