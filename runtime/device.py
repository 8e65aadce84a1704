"""Devices: whatever executes a program, behind one small protocol.

A device has memory, which a host fills and reads, and runs one program at a time. Nothing above
this module knows which device it has; simulators and boards differ in nothing but speed, nor do
OpenCL, CUDA and the emulation of CUDA on the host.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from accel.machine import Machine
from accel.program import Program
from accel.status import Run
from compiler.cpu_gpu_backends.simt.code import Code
from compiler.errors import Error
from compiler.processes import OwnLock

__all__ = ["SIMULATORS", "Device", "DeviceError", "DeviceMissing", "KernelDevice", "Memory",
           "SimulatedDevice", "simulator"]

ALIGNMENT = 64


class DeviceError(Error, RuntimeError):
    """A run that ended in an error; `run` has the status, the unit and the instruction."""

    exit_status = 1

    def __init__(self, message: str, run: Run):
        super().__init__(message)
        self.run = run


class DeviceMissing(Error, RuntimeError):
    """A device that this machine does not have, or not the libraries for it: what to install."""


class Memory(Protocol):
    """What every device has. Addresses count bytes of the device's memory."""

    def allocate(self, size_bytes: int) -> int:
        """Address of fresh memory, aligned to the longest burst."""
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

    def launch(self, program: Program, address: int) -> None:
        """Start a program whose memory image begins at `address`."""
        ...

    def wait(self) -> Run:
        """The end of what was launched."""
        ...


class KernelDevice(Memory, Protocol):
    """A device that executes kernels: of the dialect that it speaks, on memory of its own."""

    @property
    def name(self) -> str:
        """As its maker calls it."""
        ...

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""
        ...

    def launch(self, code: Code, *addresses: int) -> None:
        """Start the kernels of `code`, in order; addresses of inputs, outputs, temporaries."""
        ...

    def wait(self) -> None:
        """The end of all that was launched."""
        ...


Simulate = Callable[[Machine, Program, np.ndarray], Run]
"""A simulator: runs a program on a memory image (uint8); the run holds the image afterwards."""


class SimulatedDevice:
    """A simulator as a device."""

    def __init__(self, machine: Machine, simulate: Simulate):
        self._machine = machine
        self._simulate = simulate
        self._memory = np.zeros(0, np.uint8)
        self._run: Run | None = None
        self._exclusive = OwnLock()

    @property
    def machine(self) -> Machine:
        return self._machine

    @property
    def exclusive(self) -> OwnLock:
        return self._exclusive

    def allocate(self, size_bytes: int) -> int:
        address = len(self._memory)
        rounded = -(-size_bytes // ALIGNMENT) * ALIGNMENT
        self._memory = np.concatenate([self._memory, np.zeros(rounded, np.uint8)])
        return address

    def copy_in(self, address: int, data: np.ndarray) -> None:
        self._memory[address:address + data.size] = data

    def copy_out(self, address: int, size_bytes: int) -> np.ndarray:
        return self._memory[address:address + size_bytes].copy()

    def launch(self, program: Program, address: int) -> None:
        program.require(self._machine)
        end = address + program.memory_bytes
        self._run = self._simulate(self._machine, program, self._memory[address:end])
        self._memory[address:end] = self._run.memory

    def wait(self) -> Run:
        if self._run is None:
            raise ValueError("A device must be launched before it is waited for")
        run, self._run = self._run, None
        return run


SIMULATORS = ("functional", "cycle", "verilator")
"""Names of simulators: values only; cycles, fast; the RTL."""


def simulator(name: str, **options: Any) -> Simulate:
    """The simulator `name` of `SIMULATORS`.

    `options` are those of its ``simulate``: cycle and verilator take `dram`, or single options of
    it, cycle also `values` and `timeline`; functional takes none.
    """
    if name not in SIMULATORS:
        raise ValueError(f"Simulator must be one of {', '.join(SIMULATORS)}, not {name!r}")
    module = "verilated" if name == "verilator" else name
    simulate = import_module(f"accel.sim.{module}").simulate
    return lambda machine, program, memory: simulate(machine, program, memory, **options)
