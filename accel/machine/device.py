"""The protocol of devices that execute programs: simulators and boards."""

from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from compiler.errors import Error


class DeviceError(Error, RuntimeError):
    """A run that ended in an error; `run` has the status, the unit and the instruction."""

    exit_status = 1

    def __init__(self, message: str, run: Run):
        super().__init__(message)
        self.run = run


class Memory(Protocol):
    """The memory that every device has. Addresses count its bytes."""

    def allocate(self, size_bytes: int) -> int:
        """Reserve memory and return its address, aligned to the longest burst."""
        ...

    def copy_in(self, address: int, data: np.ndarray) -> None:
        """Write the bytes of `data` (uint8)."""
        ...

    def copy_out(self, address: int, size_bytes: int) -> np.ndarray:
        """Read bytes (uint8)."""
        ...


class Device(Memory, Protocol):
    """A device that executes programs of the accelerator.

    `exclusive` is held by the thread that uses it, from writing inputs to reading outputs. In a
    forked child nobody holds it.
    """

    @property
    def machine(self) -> Machine: ...

    @property
    def exclusive(self) -> AbstractContextManager[object]: ...

    def launch(self, program: AccelProgram, address: int) -> None:
        """Start a program whose memory image begins at `address`."""
        ...

    def wait(self) -> Run:
        """Wait until the launched program ends, and return its run."""
        ...
