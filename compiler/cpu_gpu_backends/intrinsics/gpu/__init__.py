"""Instructions of GPUs: dot products of bytes, and the matrix products of tensor cores.

`dp4a` adds a dot product of four bytes to one number of a thread. `mma` multiplies tiles in shared
memory and adds them to a fragment, which a warp holds together; `mma_fill` and `mma_store` begin
and end the life of one. Where a dialect lacks them the loop nest itself is run.
"""

from .dot import dp4a
from .tensor_cores import MMA, mma, mma_fill, mma_store
