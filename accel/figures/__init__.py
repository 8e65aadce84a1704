"""Figures of runs and programs: whose cycles, bytes moved, how full the buffers are."""
