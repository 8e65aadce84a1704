"""Arithmetic of integers that stand for reals: multipliers, shifts, text."""
