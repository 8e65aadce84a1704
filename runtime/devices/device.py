"""Devices: whatever executes a program, behind one small protocol.

A device has memory, which a host fills and reads, and runs one program at a time. Nothing above
this module knows which device it has; simulators and boards differ in nothing but speed, nor do
OpenCL, CUDA and the emulation of CUDA on the host.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, replace
from importlib import import_module
from inspect import signature
from typing import Any, Protocol

import numpy as np

from accel.machine.device import Device, DeviceError, Memory
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.machine.dram import DRAM, Dram
from compiler.cpu_gpu_backends.simt.code import Code
from compiler.errors import ArgumentError, Error, require_names
from compiler.processes import OwnLock
from runtime.arguments import require_kind

__all__ = ["SIMULATORS", "AbsentDevice", "Device", "DeviceError", "DeviceMissing", "KernelDevice",
           "Memory", "SimulatedDevice", "require_options", "simulator"]

ALIGNMENT = 64


class DeviceMissing(Error, RuntimeError):
    """A device that this machine does not have, or not the libraries for it: what to install."""


class AbsentDevice:
    """A device that this machine does not have, for what is compiled here and run elsewhere. Any
    use of it raises `error`.
    """

    def __init__(self, error: DeviceMissing):
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


class KernelDevice(Memory, Protocol):
    """A device that executes kernels of the dialect that it speaks, on memory of its own."""

    @property
    def name(self) -> str:
        """The name that its maker gave the device."""
        ...

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""
        ...

    def record(self, code: Code, *addresses: int) -> Callable[[], None]:
        """A function that starts the kernels of `code`, in order; addresses of inputs, outputs,
        temporaries.
        """
        ...

    def address_of(self, array: Any) -> int | None:
        """The address at which kernels read the array; None if it must be copied in."""
        ...

    def result(self, size_bytes: int, foreign: bool) -> tuple[Any, int] | None:
        """New memory for a result that its owner keeps, and its address; None where results are
        copied out. `foreign`: inputs were arrays of the device.
        """
        ...

    def array(self, result: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """The memory of a `result` as an array, which has ``__dlpack__``."""
        ...

    def captured(self, starts: Sequence[Callable[..., None]]) -> Callable[[], None]:
        """A function that does what these, which `record` returned, do one after the other."""
        ...

    def wait(self) -> None:
        """Wait until all that was launched has ended."""
        ...


Simulate = Callable[[Machine, AccelProgram, np.ndarray], Run]
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

    def launch(self, program: AccelProgram, address: int) -> None:
        program.require(self._machine)
        end = address + program.memory_bytes
        self._run = self._simulate(self._machine, program, self._memory[address:end])
        self._memory[address:end] = self._run.memory

    def wait(self) -> Run:
        if self._run is None:
            raise ValueError("A device must be launched before it is waited for")
        run, self._run = self._run, None
        return run


SIMULATORS = {"functional": "meaning.functional", "cycle": "timed.cycle",
              "slice": "slice.simulator", "verilator": "rtl.verilated"}
"""Modules of `accel.sim` by the names of simulators: values only; cycles, fast; the cycles of the
RTL, cut down to what time depends on; the RTL.
"""


def simulator(name: str, **options: Any) -> Simulate:
    """The simulator `name` of `SIMULATORS`.

    `options` are those of its ``simulate``: all but functional take `dram`, or single options of
    it, and `max_cycles`, cycle and slice also `values` and `timeline`; functional takes none.
    Raises ArgumentError and DramError for what they do not take.
    """
    simulate = _simulate(name)
    require_options(f"Simulator {name}", name, options)
    if "dram" in options:
        require_kind("dram", options["dram"], Dram, "an accel.machine.dram.Dram")
    for option in {"values", "timeline"} & options.keys():
        require_kind(option, options[option], bool, "True or False")
    if type(options.get("max_cycles", 1)) is not int or options.get("max_cycles", 1) < 1:
        raise ArgumentError(f"max_cycles must be an integer of at least 1, not "
                            f"{options['max_cycles']!r}")
    memory_options = {field.name for field in fields(Dram)} & options.keys()
    if memory_options:                  # what cannot be is refused now, not when it runs
        replace(options.get("dram", DRAM), **{option: options[option] for option in memory_options})
    return lambda machine, program, memory: simulate(machine, program, memory, **options)


def require_options(function: str, name: str, given: Collection[str],
                    others: Collection[str] = ()) -> None:
    """Raise ArgumentError for an option of `function` that is not among `others` and that the
    simulator `name` does not take.
    """
    known = {*others, *_options(name)}
    for option in given:
        takers = [simulator for simulator in SIMULATORS
                  if option not in known and option in _options(simulator)]
        if takers:
            raise ArgumentError(f"{option} must come with the simulator {' or '.join(takers)}, "
                                f"not {name}")
    require_names(function, given, known)


def _options(name: str) -> set[str]:
    """The names of a simulator's options."""
    own = signature(_simulate(name)).parameters.values()
    named = {parameter.name for parameter in own
             if parameter.kind == parameter.KEYWORD_ONLY} - {"inputs"}
    of_memory = any(parameter.kind == parameter.VAR_KEYWORD for parameter in own)
    return named | ({field.name for field in fields(Dram)} if of_memory else set())


def _simulate(name: str) -> Callable[..., Run]:
    if not isinstance(name, str) or name not in SIMULATORS:
        raise ArgumentError(f"Simulator must be one of {', '.join(SIMULATORS)}, not {name!r}")
    return import_module(f"accel.sim.{SIMULATORS[name]}").simulate
