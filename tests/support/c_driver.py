"""The driver of boards as a library in this process, and a board in Python for it: registers, and
memory that processor and accelerator share, with a cache between them or without.
"""

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accel.machine.machine import Machine
from compiler.errors import Error
from fpga.driver.board import board_files
from fpga.link.registers import ADDRESSES
from tests.support.axi_board import WARNINGS
from tests.support.board_model import BoardModel

__all__ = ["LINE", "Board", "PythonBoard", "Tensor", "shared_library"]

LINE = 64

_RANGE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_WAIT = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Board(ctypes.Structure):
    """``lockstep_board``."""

    _fields_ = [("registers", ctypes.c_void_p), ("memory", ctypes.c_void_p),
                ("address", ctypes.c_uint64), ("clean", _RANGE), ("invalidate", _RANGE),
                ("wait", _WAIT), ("context", ctypes.c_void_p),
                *((name, ctypes.c_uint32) for name in ("polls", "status", "index", "waiting"))]


class Tensor(ctypes.Structure):
    """``lockstep_tensor``."""

    _fields_ = [(name, ctypes.c_uint32) for name in (
        "offset", "bytes", "images", "batch", "pixels", "channels", "padded", "last", "element")]


def shared_library(folder: Path, sources: Sequence[Path] = ()) -> ctypes.CDLL:
    """The driver, and networks in C, as a library."""
    for name, text in board_files().items():
        (folder / name).write_text(text)
    path = folder / "driver.so"
    subprocess.run(["gcc", *WARNINGS, "-O1", "-shared", "-fPIC", str(folder / "lockstep_board.c"),
                    *map(str, sources), "-lm", "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


class PythonBoard:
    """A board whose accelerator is a simulator.

    Registers are an array, as the driver sees memory, so what the driver has written there is
    noticed when it waits: then a run is executed. `calls` has what was called since the beginning:
    ``clean`` and ``invalidate`` with the range in the memory, ``run`` and ``wait``.

    Parameters
    ----------
    cached : whether a cache is between processor and memory. It writes back lines that the
        processor has changed at the worst moment, the end of a run.

    Attributes
    ----------
    struct : the ``lockstep_board``.
    seen : the memory of the network as the processor sees it (uint8).
    behind : the same as the accelerator sees it.
    stuck : whether runs do not end.
    interrupts : the register of this name at each wait.
    """

    def __init__(self, machine: Machine, size_bytes: int, address: int = 1 << 16,
                 cached: bool = True):
        rng = np.random.default_rng(size_bytes)
        self.calls: list[tuple[str, int, int]] = []
        self.errors: list[Exception] = []
        self.stuck = False
        self.interrupts: list[int] = []
        self.model = BoardModel(machine, address + size_bytes)
        self.model.memory[:] = rng.integers(0, 256, address + size_bytes)
        self.before = self.model.memory[:address].copy()
        self.registers = np.array(self.model.words, np.uint32)
        self.behind = self.model.memory[address:]
        room = rng.integers(0, 256, size_bytes + LINE).astype(np.uint8)
        begin = -room.ctypes.data % LINE
        self.seen = room[begin:begin + size_bytes]
        self.synced = self.behind.copy()
        if not cached:
            self._share(address)
        self.struct = Board(
            registers=self.registers.ctypes.data, memory=self.seen.ctypes.data, address=address,
            wait=_WAIT(self._wait), polls=10,
            **({"clean": _RANGE(self._clean), "invalidate": _RANGE(self._invalidate)}
               if cached else {}))

    @property
    def outside_is_untouched(self) -> bool:
        """Whether memory in front of the network's is as it was."""
        return np.array_equal(self.model.memory[:self.before.size], self.before)

    def _share(self, address: int) -> None:
        room = np.zeros(self.model.memory.size + LINE, np.uint8)
        begin = -(room.ctypes.data + address) % LINE
        whole = room[begin:begin + self.model.memory.size]
        whole[:] = self.model.memory
        self.model.memory, self.seen = whole, whole[address:]
        self.behind = self.seen

    def _clean(self, context: int, begin: int, size_bytes: int) -> None:
        at = self._noted("clean", begin, size_bytes)
        self._write_back(at, at + size_bytes)

    def _invalidate(self, context: int, begin: int, size_bytes: int) -> None:
        at = self._noted("invalidate", begin, size_bytes)
        for view in (self.seen, self.synced):
            view[at:at + size_bytes] = self.behind[at:at + size_bytes]

    def _noted(self, name: str, begin: int, size_bytes: int) -> int:
        at = begin - self.seen.ctypes.data
        self.calls.append((name, at, size_bytes))
        if at % LINE or size_bytes % LINE or not 0 <= at <= at + size_bytes <= self.seen.size:
            self.errors.append(ValueError(f"{name} of {size_bytes} bytes at {at}"))
        return at

    def _write_back(self, begin: int, end: int) -> None:
        """Writes back lines that the processor has changed."""
        lines = slice(begin, end)
        changed = self.seen[lines].reshape(-1, LINE) != self.synced[lines].reshape(-1, LINE)
        dirty = np.repeat(changed.any(axis=1), LINE)
        for view in (self.behind, self.synced):
            view[lines][dirty] = self.seen[lines][dirty]

    def _wait(self, context: int) -> None:
        self.calls.append(("wait", 0, 0))
        self.interrupts.append(int(self.registers[ADDRESSES["interrupt"]]))
        run, done = (int(self.registers[ADDRESSES[name]]) for name in ("run", "done"))
        if run == done or self.stuck:
            return
        self.calls.append(("run", 0, 0))
        try:
            self.model.words[:] = self.registers.tolist()
            self.model._start(run)
            self.registers[:] = self.model.words
        except (AssertionError, Error) as error:
            self.errors.append(error)
        if self.seen is not self.behind:
            self._write_back(0, self.seen.size)
