"""The core: fetch, command queues, tokens, control and counters, around the units."""

from .core import Core, core_signature

__all__ = ["Core", "core_signature"]
