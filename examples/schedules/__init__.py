"""Algorithms and their schedules: each module has one of each, as a paragraph."""
