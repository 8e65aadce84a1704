"""Declared tensor intrinsics of processors and GPUs."""
