"""SDR SDRAM chips: geometry and timing rules, from their data sheets.

Controller and chip model share one `Sdram`, the only place of the rules.
"""

from dataclasses import dataclass
from enum import IntEnum
from math import ceil


class Command(IntEnum):
    """Pins RAS#, CAS#, WE#, the first one the highest bit (JEDEC Standard 21-C, 3.11.5)."""

    MODE = 0b000
    REFRESH = 0b001
    PRECHARGE = 0b010
    ACTIVE = 0b011
    WRITE = 0b100
    READ = 0b101
    NOP = 0b111


@dataclass(frozen=True, slots=True)
class Sdram:
    """A chip of four banks, 16 bits wide. Times in nanoseconds.

    rcd, rp, ras, rc, rrd, rfc, wr, mrd : ACTIVE to READ or WRITE; PRECHARGE to ACTIVE; ACTIVE to
        PRECHARGE; ACTIVE to ACTIVE of a bank, and of different ones; REFRESH to anything; last
        written data to PRECHARGE; MODE to anything.
    refresh : mean time between two REFRESH.
    init : NOP before the first command.
    cas : triples (fastest clock in MHz, CAS latency, clock to data), slowest first.
    setup, hold : of its inputs before and after the clock's edge.
    data_hold : time that data stay after the edge that ends them.
    """

    name: str
    row_bits: int
    column_bits: int
    rcd: float
    rp: float
    ras: float
    rc: float
    rrd: float
    rfc: float
    wr: float
    mrd: float
    refresh: float
    init: float
    cas: tuple[tuple[float, int, float], ...]
    setup: float
    hold: float
    data_hold: float

    @property
    def size_bytes(self) -> int:
        return 2 * 4 << (self.row_bits + self.column_bits)

    def burst(self, bus_bytes: int) -> int:
        """The columns that a bus moves at once. Refuses a bus for which the chip has no such burst.
        """
        if bus_bytes not in (2, 4, 8, 16):      # bursts of 1, 2, 4 or 8
            raise ValueError(f"Bus before an SDRAM must be of 2, 4, 8 or 16 bytes, "
                             f"not {bus_bytes}")
        return bus_bytes // 2

    def read(self, clock_hz: float) -> tuple[int, float]:
        """The CAS latency, and nanoseconds from the clock to data. Refuses a clock that is too
        fast.
        """
        for mhz, latency, access in self.cas:
            if clock_hz <= mhz * 1e6:
                return latency, access
        raise ValueError(f"Clock of {self.name} must be at most {self.cas[-1][0]:g} MHz, "
                         f"not {clock_hz / 1e6:g}")

    def at(self, clock_hz: float) -> "SdramTiming":
        """The rules in cycles of a clock. Refuses a clock that is too fast for the chip."""
        latency, _ = self.read(clock_hz)

        def cycles(name: str) -> int:
            return ceil(getattr(self, name) * clock_hz / 1e9 - 1e-6)

        most = ("rcd", "rp", "ras", "rc", "rrd", "rfc", "init")
        # Some makers specify these two in cycles: two, at any clock.
        least = {name: max(cycles(name), 2) for name in ("wr", "mrd")}
        return SdramTiming(**{name: cycles(name) for name in most}, **least,
                           refresh=int(self.refresh * clock_hz / 1e9), cas=latency)


@dataclass(frozen=True, slots=True)
class SdramTiming:
    """The rules in cycles; `cas` is the latency."""

    rcd: int
    rp: int
    ras: int
    rc: int
    rrd: int
    rfc: int
    wr: int
    mrd: int
    refresh: int
    init: int
    cas: int


ULX3S = Sdram(
    "SDRAM of the ULX3S", row_bits=13, column_bits=9, rcd=21, rp=21, ras=45, rc=68, rrd=15, rfc=68,
    wr=15, mrd=15, refresh=64e6 / 8192, init=200_000, cas=((100, 2, 6.0), (133, 3, 5.4)),
    setup=1.5, hold=0.8, data_hold=2.5)
"""32 MiB. Boards carry chips of several makers. The times are those of Alliance's AS4C16M16SA-7
(data sheet, table 16) and, where they are longer, of PC133 modules' grade −75.
"""
