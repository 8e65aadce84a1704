"""Instructions of stream units: a row of entries in, a row of entries out, by a component."""

from accel.machine.streams.shape import StreamShape

__all__ = ["StreamShape"]
