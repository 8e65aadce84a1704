"""Steps of training that keep few activations, and compute the others a second time."""

from compiler.gradients.memory.steps import LittleMemory, with_little_memory

__all__ = ["LittleMemory", "with_little_memory"]
