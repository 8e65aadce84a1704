"""An NPU of 256 multipliers with a softmax unit and a table for activations.

Published of NVDLA (nvdla.org, in nvdla/doc: primer, and scalability parameters of nv_small_256): 32
input channels by 8 kernels (`block_in`, `block_out`), a convolution buffer of 256 KiB (here half
for each of `inp_bytes` and `wgt_bytes`), a port of 64 bits behind which memory gives 5 GB/s after
50 cycles (`bus_bytes`, `memory`), and tables of functions in its single data processor. We take its
figures as those of 1 GHz.

Ethos-U85 of Arm has as many multipliers in the build of an Alif E8, at 400 MHz (256 products a
cycle, 204 GOPS), a table in its output unit, and published figures of a transformer, so it stands
beside ours, too.

Every lane of vector has a table of 256 bytes. The softmax unit is that of
`examples/machines/softmax.py`: it takes a row of scores in one instruction. NVDLA has none, and
Ethos-U85 computes a softmax by its tables and sums.

Not said by ours:

- weights that are compressed in memory, and expanded on their way into the array
- Winograd's form of 3 x 3 convolutions
- one buffer for inputs and weights, divided anew by each layer
- pools and sums of residuals that follow a convolution without memory in between
- tables of 16 bits with interpolation; activations of 16 bits in single layers
- two memories, one on the chip and one beside it, each with a port of its own
"""

from pathlib import Path

from accel.machine.config import AccelConfig
from accel.machine.dram import Dram
from accel.machine.loading import load_machine
from accel.machine.machine import Machine

SOFTMAX = load_machine(Path(__file__).parents[1] / "softmax.py")

machine = Machine(AccelConfig(
    name="npu", batch=1, block_in=32, block_out=8, inp_bytes=128 << 10, wgt_bytes=128 << 10,
    res_bytes=32 << 10, par_bytes=8 << 10, acc_bytes=128 << 10, out_bytes=32 << 10, bus_bytes=8,
    clock_mhz=1000, memory=Dram(latency=50, bytes_per_cycle=5),
    structure=SOFTMAX.config.structure), SOFTMAX.declarations)
