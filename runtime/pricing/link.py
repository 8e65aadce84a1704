"""Assumptions about the link between the host and a target with its own memory."""

from dataclasses import dataclass
from typing import Any

from compiler.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Link:
    """The assumed link between host and accelerator.

    Parameters
    ----------
    bytes_per_second : of a copy. A processor that writes to memory which its caches do not hold,
        as drivers of boards with common memory do, reaches about the default.
    latency_seconds : of a copy, whatever its size.
    start_seconds : from the host's decision to start a program until the host knows that it has
        ended, without the cycles in between.
    """

    bytes_per_second: float = 400e6
    latency_seconds: float = 5e-6
    start_seconds: float = 20e-6

    def __post_init__(self):
        if not self.bytes_per_second > 0:
            raise ArgumentError(f"bytes_per_second must be positive, not {self.bytes_per_second!r}")
        for name in ("latency_seconds", "start_seconds"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name} must be at least 0, not {getattr(self, name)!r}")

    def copy_seconds(self, size_bytes: int) -> float:
        return self.latency_seconds + size_bytes / self.bytes_per_second

    def assumptions(self) -> dict[str, dict[str, Any]]:
        """The assumptions as reports show them."""
        units = {"bytes_per_second": "B/s", "latency_seconds": "s", "start_seconds": "s"}
        return {f"link.{name}": {"value": getattr(self, name), "unit": unit}
                for name, unit in units.items()}


LINK = Link()
