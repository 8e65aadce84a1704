"""Ranges of values from samples, and the scales that follow."""
