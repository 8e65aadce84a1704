"""The vector unit: `unit` puts `decode`, `hazards` and `operands` around the data path."""

from .unit import Vector, out_port
