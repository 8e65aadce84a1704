"""Gemmini, 16 x 16, with sums that stay in the array.

The array of `gemmini_ws.py` in its other dataflow (`dataflow`): each of 16 x 16 elements has one
multiplier and one sum. A cycle takes a column of 16 inputs and a row of 16 weights, an outer
product, so here `batch` is 16, `block_in` 1 and `block_out` 16. Gemmini scales a row of 16 sums a
cycle, so vector takes 16 cycles for an entry (`vector_beats`). Buffers, port and clock are those of
`gemmini_ws.py`.

Gemmini's 16 rows are pixels. Ours are images, so a network runs with 16 of them, and one alone
would leave 15 of 16 rows idle.

Not said by ours:

- rows of a block product that are pixels, or rows of a matrix, of one image
- both dataflows in one array, of which every instruction chooses one
- a transposer before the array; ours loads inputs as the array takes them
- shifts of sums as they leave the array, into the scratchpad
"""

from accel.machine.config import OUTPUT_STATIONARY, AccelConfig
from accel.machine.machine import Machine

machine = Machine(AccelConfig(
    name="gemmini-os", batch=16, block_in=1, block_out=16, dataflow=OUTPUT_STATIONARY,
    inp_bytes=128 << 10, wgt_bytes=128 << 10, acc_bytes=64 << 10, out_bytes=8 << 10,
    res_bytes=8 << 10, par_bytes=4 << 10, bus_bytes=16, vector_beats=16, clock_mhz=1000))
