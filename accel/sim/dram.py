"""Options of the memory behind the core, for every simulator that has time.

The model itself is native (`dram.h`); docs/machine.md, "Memory port", says what it does.
"""

import ctypes
from dataclasses import dataclass, fields

from accel.machine import isa
from accel.machine.config import AccelConfig
from accel.machine.program import ALIGNMENT, AccelProgram
from compiler.errors import Error

__all__ = ["DRAM", "Dram", "DramError", "DramTiming"]

RATE_ONE = 1 << 16
"""Fractions of a byte a cycle that rates are rounded to."""

_LARGEST = {"latency": 1 << 20, "outstanding": 1 << 20, "stall_seed": (1 << 64) - 1,
            "row_bytes": 1 << 30, "row_miss": 1 << 20, "banks": 1 << 16,
            "origin": (1 << 32) - ALIGNMENT}
_SMALLEST = {"outstanding": 1, "row_bytes": 64, "banks": 1}


class DramError(Error, ValueError):
    """Impossible options of the memory: names the option, the value and the rule."""


class DramTiming(ctypes.Structure):
    """The parameters of `dram.h`."""

    _fields_ = [("bus_bytes", ctypes.c_uint32), ("latency", ctypes.c_uint32),
                ("outstanding", ctypes.c_uint32), ("seed", ctypes.c_uint64),
                ("rate", ctypes.c_uint64), ("row_bytes", ctypes.c_uint32),
                ("row_miss", ctypes.c_uint32), ("banks", ctypes.c_uint32),
                ("origin", ctypes.c_uint32)]


@dataclass(frozen=True)
class Dram:
    """How the memory behaves. Raises DramError for what cannot be.

    Parameters
    ----------
    latency : cycles, beyond the one that every answer takes.
    outstanding : bursts in flight.
    stall_seed : of random stalls; 0: none.
    bytes_per_cycle : average rate of the bus, at most its width; None: its width.
    row_bytes : bytes of a row, a power of two; None: there are no rows.
    row_miss : cycles for which a request keeps its bank busy if its row is not the open one.
    banks : banks, each with one open row; rows are in turn in each of them.
    origin : address of its first byte, a multiple of 64; base registers count from here, modulo
        2^32.
    """

    latency: int = 64
    outstanding: int = 64
    stall_seed: int = 0
    bytes_per_cycle: float | None = None
    row_bytes: int | None = None
    row_miss: int = 20
    banks: int = 8
    origin: int = 0

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if field.name == "bytes_per_cycle":
                holds = isinstance(value, int | float) and value >= 1 / RATE_ONE
                self._require(field.name, holds, f"a number of at least 1/{RATE_ONE}")
                continue
            low, high = _SMALLEST.get(field.name, 0), _LARGEST[field.name]
            holds = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
            self._require(field.name, holds, f"an integer from {low} to {high}")
        self._require("row_bytes", self.row_bytes is None
                      or self.row_bytes & (self.row_bytes - 1) == 0, "a power of two")
        self._require("origin", self.origin % ALIGNMENT == 0, f"a multiple of {ALIGNMENT}")

    def _require(self, name: str, holds: bool, rule: str):
        if not holds:
            raise DramError(f"{name} of the memory must be {rule}, not {getattr(self, name)!r}")

    def timing(self, config: AccelConfig) -> DramTiming:
        """The timing for the bus of a machine, which `bytes_per_cycle` must not exceed."""
        rate = self.bytes_per_cycle
        self._require("bytes_per_cycle", rate is None or rate <= config.bus_bytes,
                      f"at most the {config.bus_bytes} bytes of the bus of {config.name}")
        return DramTiming(config.bus_bytes, self.latency, self.outstanding, self.stall_seed,
                          0 if rate is None else round(rate * RATE_ONE), self.row_bytes or 0,
                          self.row_miss, self.banks, self.origin)

    def bases(self, program: AccelProgram) -> tuple[int, ...]:
        """Base registers for a program whose memory begins here, in the order of `isa.BASES`."""
        return tuple((program.bases[name] + self.origin) % (1 << 32) for name in isa.BASES)

    def patience(self, config: AccelConfig) -> int:
        """Cycles within which something that is under way moves, many times over."""
        beat = config.bus_bytes / (self.bytes_per_cycle or config.bus_bytes)
        misses = self.row_miss * self.outstanding if self.row_bytes else 0
        return round(4 * (self.latency + misses + beat))


DRAM = Dram()
"""The default memory behind the core."""
