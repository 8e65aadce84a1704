"""Instructions of GPUs: dot products of bytes, and the matrix products of tensor cores.

`dp4a` adds a dot product of four bytes to one number of a thread. `load_fragment` takes operands
from shared memory to fragments, which a warp holds together; `mma` multiplies these and adds to a
fragment of sums, which `mma_fill` begins. `turn_bytes` brings bytes to shared memory as
`load_fragment` needs them. `wgmma` multiplies what `tile_copy` brought to shared memory, by four
warps together. Where a dialect lacks them the loop nest itself is run.
"""

from .dot import dp4a
from .tensor_cores import MMA, TENSOR_CORES, load_fragment, mma, mma_fill, turn_bytes
from .warp_groups import (COLUMNS_OF_GROUPS, GROUP_KINDS, ROW_BYTES, TILE_ROWS, WARP_GROUPS,
                          tile_copy, wgmma)
