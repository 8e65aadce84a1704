"""The accelerator's instructions, declared."""

from .declare import IMMEDIATES, TABLE, Declaration, immediates, vector_op
from .shipped import SHIPPED, gemm_op, instructions
