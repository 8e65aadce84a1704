"""The memory behind the core: options of the model that every simulator with time has.

`accel/sim/dram.h` is that model; docs/machine.md, "Memory port", says what it does. A machine has
such a memory as the default of its simulations (`AccelConfig.memory`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from accel.machine.limits import limited, limits_of
from compiler.errors import Error

ALIGNMENT = 64
"""Bytes of the longest burst: segments of programs, and the memory, begin at multiples of it."""

RATE_ONE = 1 << 16
"""Fractions of a byte a cycle that rates are rounded to."""

_CYCLES = 1 << 20


class DramError(Error, ValueError):
    """Impossible options of the memory: names the option, the value and the rule."""


@dataclass(frozen=True)
class Dram:
    """The behaviour of a memory in time. Raises DramError for a memory that cannot be.

    Fields say themselves what they mean and may be (`accel.machine.limits`).
    """

    latency: int = limited(
        "cycles of an answer, beyond the one that every answer takes", "cycles",
        "time of loads that nothing hides", default=64, least=0, most=_CYCLES)
    outstanding: int = limited(
        "bursts in flight; in order, requests that are not performed yet", "bursts",
        "fewer hide less latency", default=64, most=1 << 20)
    stall_seed: int = limited(
        "seed of random stalls; 0: none", "", "the cycles of the stalls", default=0, least=0,
        most=(1 << 64) - 1)
    bytes_per_cycle: float | None = limited(
        "average rate of the bus; none: its width", "bytes a cycle",
        "less makes every transfer longer", default=None,
        rule=f"a number from 1/{RATE_ONE} to bus_bytes")
    row_bytes: int | None = limited(
        "bytes of a row; none: there are no rows", "bytes", "smaller rows are opened more often",
        default=None, least=64, most=1 << 30, is_power_of_two=True)
    row_miss: int = limited(
        "how long a request keeps its bank busy if its row is not the open one", "cycles",
        "these cycles for each such request", default=20, least=0, most=_CYCLES)
    banks: int = limited(
        "banks, each with one open row; rows are in turn in each of them", "banks",
        "fewer open rows more often", default=8, most=1 << 16)
    origin: int = limited(
        "address of the first byte; base registers count from here, modulo 2^32", "bytes",
        "nothing", default=0, least=0, most=(1 << 32) - ALIGNMENT,
        rule=f"a multiple of {ALIGNMENT}")
    row_closed: int | None = limited(
        "how long a request keeps its bank busy if that has no open row; none: row_miss",
        "cycles", "these cycles for each such request", default=None, least=0, most=_CYCLES)
    in_order: bool = limited(
        "requests are performed one after another, reads and writes in the order of acceptance",
        "", "no request hides the latency of another", default=False)
    beat_cycles: int = limited(
        "in order, least cycles from a beat to the next, unless both are of one read", "cycles",
        "writes, and reads of one beat, take as long", default=1, most=_CYCLES,
        rule="1 where requests are not performed in order")
    refresh_interval: int | None = limited(
        "cycles from one refresh to the next, which closes all rows; none: there is none",
        "cycles", "shorter intervals lose more cycles", default=None, most=1 << 30)
    refresh_cycles: int = limited(
        "cycles of a refresh, in which no beat begins", "cycles",
        "these cycles in every interval", default=0, least=0, most=_CYCLES,
        rule="fewer than the interval")

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
            limits = limits_of(field)
            holds = (isinstance(value, int) and not isinstance(value, bool)
                     and limits.least <= value <= (limits.most or 0))
            self._require(field.name, holds, f"an integer from {limits.least} to {limits.most}")
            if isinstance(value, int) and (rule := limits.broken(value)):
                self._require(field.name, False, rule)
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
        """Refuses a rate above the width of the bus of the machine `name`, and an origin within a
        beat of it."""
        self._require("origin", self.origin % bus_bytes == 0,
                      f"a multiple of the {bus_bytes} bytes of the bus of {name}")
        self._require("bytes_per_cycle", self.bytes_per_cycle is None
                      or self.bytes_per_cycle <= bus_bytes,
                      f"at most the {bus_bytes} bytes of the bus of {name}")


DRAM = Dram()
"""The memory of a machine that does not say what it has."""
