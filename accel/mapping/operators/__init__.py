"""Tensor expressions of the accelerator's operators, on blocks of channels."""
