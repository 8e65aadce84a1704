"""The accelerator's instructions, declared."""

from .declare import IMMEDIATES, Declaration, vector_op
from .shipped import SHIPPED
