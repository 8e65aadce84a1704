"""VTA, the Versatile Tensor Accelerator, as it was built for PYNQ boards.

Published by Moreau et al., "A Hardware-Software Blueprint for Flexible Deep Learning
Specialization" (arXiv 1807.04188, IEEE Micro 2019), and in apache/tvm-vta: 1 x 16 x 16 products of
int8 a cycle (`batch`, `block_in`, `block_out`), buffers of 32 KiB for inputs, 256 KiB for weights,
128 KiB for sums of int32 and 32 KiB for results (`inp_bytes`, `wgt_bytes`, `acc_bytes`,
`out_bytes`), a port of 64 bits (`bus_bytes`) and 100 MHz. Load, compute and store run at the same
time and hand tokens to each other, as ours do.

res and par are ours: VTA loads residuals and biases into its sums, as int32. Instructions are the
shipped ones, so that requantization is one pass of vector, with a multiplier for each channel. VTA
takes one pass of its ALU for each addition, shift, minimum and maximum, and its scales are powers
of two.

Micro-code. VTA's GEMM instruction has two loops around a sequence of micro-operations, 4 bytes
each, which name an entry of inp, wgt and acc; a buffer of 32 KiB holds them, and a kernel that it
does not hold is loaded before it runs. Our words have six loops (five in vector) and 64 bytes, so
there is nothing to load, and no kernel is too long.

Not said by ours:

- a buffer of micro-operations: any order of entries, not only loop nests; its loads, and the
  kernels that do not fit
- gemm and vector in turn: one unit of VTA executes both, so that requantization stops the products
- vector instructions that compute in place in acc only, and loads of int32 into acc
- loads of micro-operations and of acc by the unit that computes, while its own products wait
"""

from accel.machine.config import AccelConfig
from accel.machine.machine import Machine

machine = Machine(AccelConfig(
    name="vta", batch=1, block_in=16, block_out=16,
    inp_bytes=32 << 10, wgt_bytes=256 << 10, acc_bytes=128 << 10, out_bytes=32 << 10,
    res_bytes=32 << 10, par_bytes=8 << 10, bus_bytes=8, clock_mhz=100))
