"""The memory behind the core as the native model (`dram.h`) takes it."""

import ctypes

from accel.machine import isa
from accel.machine.config import AccelConfig
from accel.machine.dram import RATE_ONE, Dram
from accel.machine.program import AccelProgram


class DramTiming(ctypes.Structure):
    """The parameters of `dram.h`."""

    _fields_ = [("bus_bytes", ctypes.c_uint32), ("latency", ctypes.c_uint32),
                ("outstanding", ctypes.c_uint32), ("seed", ctypes.c_uint64),
                ("rate", ctypes.c_uint64), ("row_bytes", ctypes.c_uint32),
                ("row_miss", ctypes.c_uint32), ("banks", ctypes.c_uint32),
                ("origin", ctypes.c_uint32), ("row_closed", ctypes.c_uint32),
                ("in_order", ctypes.c_uint32), ("beat_cycles", ctypes.c_uint32),
                ("refresh_interval", ctypes.c_uint32), ("refresh_cycles", ctypes.c_uint32),
                ("channels", ctypes.c_uint32), ("block_bytes", ctypes.c_uint32)]


def timing(dram: Dram, config: AccelConfig) -> DramTiming:
    """The timing for each channel of a machine. Raises DramError for a rate beyond its width."""
    dram.require_bus(config.bus_bytes, config.name)
    rate, closed = dram.bytes_per_cycle, dram.row_closed
    return DramTiming(config.bus_bytes, dram.latency, dram.outstanding, dram.stall_seed,
                      0 if rate is None else round(rate * RATE_ONE), dram.row_bytes or 0,
                      dram.row_miss, dram.banks, dram.origin,
                      dram.row_miss if closed is None else closed, dram.in_order,
                      dram.beat_cycles, dram.refresh_interval or 0, dram.refresh_cycles,
                      config.channels, config.block_bytes)


def bases(dram: Dram, program: AccelProgram) -> tuple[int, ...]:
    """Base registers for a program whose memory is `dram`, in the order of `isa.BASES`."""
    return tuple((program.bases[name] + dram.origin) % (1 << 32) for name in isa.BASES)


def patience(dram: Dram, config: AccelConfig) -> int:
    """Cycles within which something that is under way moves, many times over."""
    beat = max(config.bus_bytes / (dram.bytes_per_cycle or config.bus_bytes), dram.beat_cycles)
    misses = max(dram.row_miss, dram.row_closed or 0) * dram.outstanding if dram.row_bytes else 0
    refreshes = dram.refresh_cycles if dram.refresh_interval else 0
    return round(4 * (dram.latency + misses + beat + refreshes))
