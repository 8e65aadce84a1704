"""Operators on operands in blocks, which only passes of targets emit."""
