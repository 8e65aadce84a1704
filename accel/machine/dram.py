"""The memory behind the core: options of the model that every simulator with time has.

`accel/sim/dram.h` is that model; docs/machine.md, "Memory port", says what it does. A machine has
such a memory as the default of its simulations (`AccelConfig.memory`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from compiler.errors import Error

__all__ = ["ALIGNMENT", "DRAM", "RATE_ONE", "Dram", "DramError"]

ALIGNMENT = 64
"""Bytes of the longest burst: segments of programs, and the memory, begin at multiples of it."""

RATE_ONE = 1 << 16
"""Fractions of a byte a cycle that rates are rounded to."""

_CYCLES = 1 << 20
_LARGEST = {"latency": _CYCLES, "outstanding": 1 << 20, "stall_seed": (1 << 64) - 1,
            "row_bytes": 1 << 30, "row_miss": _CYCLES, "banks": 1 << 16,
            "origin": (1 << 32) - ALIGNMENT, "row_closed": _CYCLES, "beat_cycles": _CYCLES,
            "refresh_interval": 1 << 30, "refresh_cycles": _CYCLES}
_SMALLEST = {"outstanding": 1, "row_bytes": 64, "banks": 1, "beat_cycles": 1,
             "refresh_interval": 1}


class DramError(Error, ValueError):
    """Impossible options of the memory: names the option, the value and the rule."""


@dataclass(frozen=True)
class Dram:
    """The behaviour of a memory in time. Raises DramError for a memory that cannot be.

    Parameters
    ----------
    latency : cycles, beyond the one that every answer takes.
    outstanding : bursts in flight; in order, requests that are not performed yet.
    stall_seed : of random stalls; 0: none.
    bytes_per_cycle : average rate of the bus, at most its width; None: its width.
    row_bytes : bytes of a row, a power of two; None: there are no rows.
    row_miss : cycles for which a request keeps its bank busy if its row is not the open one.
    banks : banks, each with one open row; rows are in turn in each of them.
    origin : address of its first byte, a multiple of 64; base registers count from here, modulo
        2^32.
    row_closed : cycles for which it does if its bank has no open row; None: `row_miss`.
    in_order : requests are performed one after another, reads and writes in the order of
        acceptance.
    beat_cycles : in order, least cycles from a beat to the next, unless both are of one read.
    refresh_interval : cycles from one refresh to the next, which closes all rows; None: there is
        none.
    refresh_cycles : cycles of a refresh, in which no beat begins; fewer than the interval.
    """

    latency: int = 64
    outstanding: int = 64
    stall_seed: int = 0
    bytes_per_cycle: float | None = None
    row_bytes: int | None = None
    row_miss: int = 20
    banks: int = 8
    origin: int = 0
    row_closed: int | None = None
    in_order: bool = False
    beat_cycles: int = 1
    refresh_interval: int | None = None
    refresh_cycles: int = 0

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if field.name == "bytes_per_cycle":
                holds = isinstance(value, int | float) and value >= 1 / RATE_ONE
                self._require(field.name, holds, f"a number of at least 1/{RATE_ONE}")
                continue
            if field.type is bool:
                self._require(field.name, isinstance(value, bool), "true or false")
                continue
            low, high = _SMALLEST.get(field.name, 0), _LARGEST[field.name]
            holds = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
            self._require(field.name, holds, f"an integer from {low} to {high}")
        self._require("row_bytes", self.row_bytes is None
                      or self.row_bytes & (self.row_bytes - 1) == 0, "a power of two")
        self._require("origin", self.origin % ALIGNMENT == 0, f"a multiple of {ALIGNMENT}")
        self._require("beat_cycles", self.in_order or self.beat_cycles == 1,
                      "1 where requests are not performed in order")
        self._require("refresh_cycles", self.refresh_interval is None
                      or self.refresh_cycles < self.refresh_interval,
                      f"less than its refresh_interval of {self.refresh_interval}")

    def _require(self, name: str, holds: bool, rule: str):
        if not holds:
            raise DramError(f"{name} of the memory must be {rule}, not {getattr(self, name)!r}")

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "Dram":
        """The memory of a table of fields, the others by default; the opposite of `options`."""
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(table) - set(known)):
            raise DramError(f"memory must have fields among {', '.join(known)}, not "
                            f"{', '.join(unknown)}")
        return cls(**table)

    @property
    def options(self) -> dict[str, Any]:
        """The fields that do not have their default."""
        return {field.name: value for field in fields(self)
                if (value := getattr(self, field.name)) != field.default}

    def require_bus(self, bus_bytes: int, name: str) -> None:
        """Refuses a rate above the width of the bus of the machine `name`."""
        self._require("bytes_per_cycle", self.bytes_per_cycle is None
                      or self.bytes_per_cycle <= bus_bytes,
                      f"at most the {bus_bytes} bytes of the bus of {name}")


DRAM = Dram()
"""The memory of a machine that does not say what it has."""
