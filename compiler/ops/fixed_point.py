"""`compiler.ops.integers.fixed_point`, where machine files of version 0.1 look for it."""

from compiler.ops.integers.fixed_point import add_multipliers, quantize_multiplier, requantize

__all__ = ["add_multipliers", "quantize_multiplier", "requantize"]
