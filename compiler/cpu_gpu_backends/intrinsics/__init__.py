"""Declared tensor intrinsics of processors."""
