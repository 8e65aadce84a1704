"""Stores that a run moves to its position, and shorter streams for small positions."""
