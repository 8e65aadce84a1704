"""Operators between quantizations become operators on integers."""
