"""The accelerator in the logic of a Zynq that runs PYNQ, as a device.

The driver is that of every board (`fpga.device`). Here the processor itself reads and writes
registers, and memory is a buffer that processor and accelerator share.
"""

from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from accel.machine.isa import BASES
from accel.machine.machine import Machine
from fpga.device import BoardDevice
from fpga.link.host import LinkError
from fpga.link.registers import ADDRESSES, WORD_BITS
from fpga.zynq.export import NAME

CORE = f"{NAME}_0"          # in the block design
BASE_WORDS = {ADDRESSES[f"base_{name}"] for name in BASES}


def open_board(machine: Machine, bitstream: Path) -> BoardDevice:
    """Loads a bitstream (``.bit``, with its ``.hwh`` beside it) and opens its accelerator.

    Raises LinkError, and BoardRefused if the bitstream is of another machine.
    """
    return BoardDevice(machine, PynqLink(bitstream))


class PynqLink:
    """Memory and registers as a `fpga.device.BoardAccess`, like `fpga.link.host.HostLink`.

    Memory is a buffer somewhere in the processor's memory; addresses count from its start, which is
    added to the registers that hold addresses.
    """

    repeated = dropped = 0          # nothing is lost in transit
    faults = ""

    def __init__(self, bitstream: Path):
        try:
            self._pynq: Any = import_module("pynq")
        except ModuleNotFoundError:
            raise LinkError("Package pynq must be there: run this on a board with PYNQ's image, in "
                            "its Python") from None
        self.name = str(bitstream)
        for path in (bitstream, bitstream.with_suffix(".hwh")):
            if not path.is_file():
                raise LinkError(f"File {path} is not there; make it as docs/fpga.md says")
        overlay = self._pynq.Overlay(str(bitstream))
        if CORE not in overlay.ip_dict:
            raise LinkError(f"Bitstream {bitstream} has no {CORE}; make it as docs/fpga.md says")
        self._mmio = getattr(overlay, CORE).mmio

    @property
    def line(self) -> "PynqLink":
        """The name of the board in messages."""
        return self

    @cached_property
    def _buffer(self) -> Any:
        size, = self.registers(ADDRESSES["memory_bytes"], 1)
        try:
            return self._pynq.allocate(shape=(size,), dtype=np.uint8)
        except RuntimeError:
            raise LinkError(f"Board of {self.name} has no {size} bytes of memory in one piece; "
                            f"free other buffers or restart it") from None

    def registers(self, first: int, words: int) -> list[int]:
        """Read words from word address `first` on."""
        return [self._mmio.read(4 * at) for at in range(first, first + words)]

    def set_register(self, address: int, value: int) -> None:
        if address in BASE_WORDS:
            value = (value + self._buffer.physical_address) % (1 << WORD_BITS)
        self._mmio.write(4 * address, value)

    def read(self, address: int, size_bytes: int) -> bytes:
        self._buffer.invalidate()       # the processor's caches hold older data
        return self._buffer[address:address + size_bytes].tobytes()

    def write(self, address: int, data: bytes) -> None:
        self._buffer[address:address + len(data)] = np.frombuffer(data, np.uint8)
        self._buffer.flush()
