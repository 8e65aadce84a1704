"""The accelerator's instructions, declared."""

from .declare import IMMEDIATES, TABLE, Declaration, vector_op
from .shipped import SHIPPED
