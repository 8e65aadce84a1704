"""An NPU of 256 multipliers with a softmax unit and a table for activations. docs/published.md says
more.

Published: NVDLA with 256 multipliers, a convolution buffer of 256 KiB and 5 GB/s computes 46 images
of ResNet-50 a second (its primer, nvdla.org, 2018: an estimate, at 1 GHz). nv_small_256 is 32 input
channels by 8 kernels, behind a memory of 50 cycles (its scalability parameters). Arm's Ethos-U85
with 256 multipliers, on an Alif E8 (204 GOPS: 400 MHz), takes 110.20 ms for ResNet-50 and 81.59 ms
for DeiT-Tiny (Arm's pages of these models on Hugging Face; the medians).

What follows them: the array, the convolution buffer (half of it for weights), 5 bytes a cycle, and
a table in every lane, as NVDLA's single data processor and Ethos-U have one.

What is not said: compressed weights, Winograd convolutions, and one buffer that data and weights
share as they need it; tables of 16 bits; pools beside a convolution without memory in between;
activations of 16 bits for single layers. A unit for softmax is ours: NVDLA has none, and Ethos-U
computes it by tables and sums.
"""

from pathlib import Path

import lockstep
from accel.machine.config import AccelConfig
from accel.machine.dram import Dram
from accel.machine.loading import load_machine

KIB = 1024
SOFTMAX = load_machine(Path(__file__).parents[1] / "softmax.py")

machine = lockstep.Machine(AccelConfig(
    "npu", batch=1, block_in=32, block_out=8, inp_bytes=128 * KIB, wgt_bytes=128 * KIB,
    res_bytes=32 * KIB, par_bytes=8 * KIB, acc_bytes=128 * KIB, out_bytes=32 * KIB, bus_bytes=8,
    clock_mhz=1000, memory=Dram(latency=50, bytes_per_cycle=5),
    structure=SOFTMAX.config.structure), SOFTMAX.declarations)
