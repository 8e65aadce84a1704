"""The vector unit: `unit` puts `decode`, `hazards` and `operands` around the data path."""

from .unit import ISSUE_CYCLES, Vector, out_port
