"""Floats of few bits: what scales a sum before it is stored."""

from compiler.te import record

AFFINE = record("affine", scale="float32", offset="float32")
"""What vector makes a sum of a channel with: ``sum * scale + offset``, in this order, in float32.
"""
