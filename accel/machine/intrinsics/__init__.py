"""The accelerator's instructions, declared."""

from .declare import (IMMEDIATES, TABLE, Declaration, address_field, immediate_fields,
                      kinds_of, known_immediates, operand_field, vector_op)
from .shipped import SHIPPED, gemm_op, instructions
