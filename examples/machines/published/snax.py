"""SNAX with the GeMM core of OpenGeMM, 8 x 8 x 8.

Published by Yi et al., "OpenGeMM: A High-Utilization GeMM Accelerator Generator with Lightweight
RISC-V Control and Tight Memory Coupling" (ASP-DAC 2025, arXiv 2411.09543), and in
KULeuven-MICAS/snax_cluster (`snax-streamer-gemm.hjson`): 8 x 8 sums of int32, each of 8 products of
int8 a cycle (`batch`, `block_in`, `block_out`), a scratchpad of 128 KiB in 32 banks, streamers of
512 bits for both operands, and a DMA of 512 bits (`bus_bytes`). The clock is of reports alone.

Our buffers have as many bytes as the scratchpad together. acc, res, par and out have parts of it
that the core has no use for: its sums of int32 go back to the scratchpad, and a core of RISC-V, or
a SIMD unit beside it, requantizes them.

The 8 rows of a block product are pixels there. Ours are images, or rows of a matrix, so ResNet-50
runs with 8 images, and a transformer with one.

Not said by ours:

- one scratchpad in banks, which streamers read at six strides, and whose conflicts cost cycles
- rows of a block product that are pixels of one image
- operands that are transposed on their way into the core
- sums of int32 as results in memory
- a core of RISC-V that sets up an instruction while the one before runs, and does all but products
"""

from accel.machine.config import AccelConfig
from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.machine.timing import CoreTiming

machine = Machine(AccelConfig(
    name="snax", batch=8, block_in=8, block_out=8, inp_bytes=40 << 10, wgt_bytes=20 << 10,
    res_bytes=14 << 10, par_bytes=2 << 10, acc_bytes=36 << 10, out_bytes=14 << 10,
    tab_bytes=2 << 10, bus_bytes=64, clock_mhz=200, memory=Dram(outstanding=256),
    timing=CoreTiming(bursts=256)))
