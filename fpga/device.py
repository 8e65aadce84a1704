"""A board as a device: programs for a simulator run on it unchanged."""

import os
import time
from threading import Lock
from typing import Protocol

import numpy as np

from accel.machine.config import UNITS
from accel.machine.isa import BASES
from accel.machine.machine import Machine, MachineRecord
from accel.machine.program import AccelProgram
from accel.machine.status import REPORTERS, Counters, Run, Status
from compiler.errors import Error
from fpga.link.identity import decoded
from fpga.link.frames import GRAIN
from fpga.link.host import LinkError
from fpga.link.registers import ADDRESSES, MAGIC, RECORD, REGISTERS, REPORT, VERSION

POLL = 0.002
"""The first interval in seconds between polls for the end of a run; intervals grow with its time.
"""

RUN_SECONDS = 600.0
"""Seconds after which the driver gives up a run."""


class BoardRefused(Error, RuntimeError):
    """A board other than the requested one. One line: what differs, and what to do."""


class Named(Protocol):
    @property
    def name(self) -> str: ...


class BoardAccess(Protocol):
    """Access to a board's memory and registers; `fpga.link.host.HostLink` provides it over a serial
    line.

    ``line`` has the name of the board in messages.
    """

    @property
    def line(self) -> Named: ...

    @property
    def repeated(self) -> int:
        """The number of requests that were repeated."""
        ...

    @property
    def dropped(self) -> int:
        """The number of answers that arrived corrupted."""
        ...

    @property
    def faults(self) -> str:
        """The faults of the line, and what helps; "" where nothing was lost."""
        ...

    def read(self, address: int, size_bytes: int) -> bytes:
        """Read memory; address and size are multiples of `GRAIN`."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Write memory; address and size are multiples of `GRAIN`."""
        ...

    def registers(self, first: int, words: int) -> list[int]:
        """Read words from word address `first` on."""
        ...

    def set_register(self, address: int, value: int) -> None: ...


class BoardDevice:
    """The accelerator behind a link; implements `runtime.devices.device.Device`.

    Raises `BoardRefused` if what answers is no accelerator, or one of another machine.
    """

    def __init__(self, machine: Machine, link: BoardAccess, run_seconds: float = RUN_SECONDS):
        self._machine, self.link, self._run_seconds = machine, link, run_seconds
        self._exclusive, self._process, self._top = Lock(), os.getpid(), 0
        known = read_registers(link, ["memory_bytes", "clock_hz", "run"])
        self._run_number, self._count = known["run"], 0
        self.memory_bytes, self.clock_hz = known["memory_bytes"], known["clock_hz"]
        if _machine_hash(link) != machine.hash:
            held = held_machine(link)
            raise BoardRefused(f"Board at {link.line.name} holds machine {held}, not "
                               f"{machine.record}: {held.difference(machine.record)}; program it "
                               f"with the bitstream of that configuration")

    @property
    def machine(self) -> Machine:
        return self._machine

    @property
    def exclusive(self) -> Lock:
        """Raises BoardRefused in a forked child: the line is its parent's."""
        if self._process != os.getpid():
            raise BoardRefused(f"Board at {self.link.line.name} is in use by process "
                               f"{self._process}, from which this one was forked; open it after "
                               f"the fork")
        return self._exclusive

    def allocate(self, size_bytes: int) -> int:
        address = self._top
        self._top += -(-size_bytes // GRAIN) * GRAIN
        if self._top > self.memory_bytes:
            raise BoardRefused(f"Board at {self.link.line.name} has {self.memory_bytes} bytes of "
                               f"memory, not the {self._top} that are needed; take a smaller "
                               f"network")
        return address

    def copy_in(self, address: int, data: np.ndarray) -> None:
        begin, end = address // GRAIN * GRAIN, -(-(address + data.size) // GRAIN) * GRAIN
        block = bytearray(end - begin)
        for edge in {begin, end - GRAIN} if data.size else ():
            if edge < address or address + data.size < edge + GRAIN:    # keeps the bytes of others
                block[edge - begin:edge - begin + GRAIN] = self.link.read(edge, GRAIN)
        block[address - begin:address - begin + data.size] = data.tobytes()
        self.link.write(begin, bytes(block))

    def copy_out(self, address: int, size_bytes: int) -> np.ndarray:
        begin, end = address // GRAIN * GRAIN, -(-(address + size_bytes) // GRAIN) * GRAIN
        raw = np.frombuffer(self.link.read(begin, end - begin), np.uint8)
        return raw[address - begin:address - begin + size_bytes].copy()

    def launch(self, program: AccelProgram, address: int) -> None:
        program.require(self._machine)
        self._count = program.count
        self.link.set_register(ADDRESSES["count"], program.count)
        for name in BASES:
            self.link.set_register(ADDRESSES[f"base_{name}"], address + program.bases[name])
        self._require_no_reset("before a run")
        self._run_number = self._run_number % 0xFFFFFFFF + 1
        self.link.set_register(ADDRESSES["run"], self._run_number)

    def wait(self) -> Run:
        begin, pause = time.monotonic(), POLL
        while True:
            registers = self._require_no_reset("in the middle of a run")
            if registers["done"] == self._run_number:
                return self._result()
            taken = time.monotonic() - begin
            if taken > self._run_seconds:
                raise LinkError(f"Board at {self.link.line.name} has not ended its run in "
                                f"{taken:.0f} s; reset it")
            time.sleep(min(pause, 0.5))
            pause = max(POLL, taken / 4)

    def _require_no_reset(self, when: str) -> dict[str, int]:
        """Read run, count and done. After a reset the first two are zero."""
        registers = read_registers(self.link, ["run", "count", "done"])
        if (registers["run"], registers["count"]) != (self._run_number, self._count):
            self._run_number = registers["run"]
            raise LinkError(f"Board at {self.link.line.name} was reset {when}; load the network "
                            f"again")
        return registers

    def _result(self) -> Run:
        registers = read_registers(self.link, REPORT)
        status = Status(registers["status"] & 0xFF)
        counters = Counters.of(registers)
        waiting = {unit: registers[f"waiting_{unit}"] for bit, unit in enumerate(UNITS)
                   if registers["waiting"] >> bit & 1}
        return Run(status, REPORTERS[registers["status"] >> 8 & 0xFF], registers["index"],
                   cycles=sum(counters.activity["load"].values()), counters=counters,
                   waiting=waiting if status is Status.DEADLOCK else {})


def held_machine(link: BoardAccess) -> MachineRecord:
    """The machine that a board holds. Raises BoardRefused where no accelerator answers."""
    wanted = _machine_hash(link)
    packed = read_registers(link, [RECORD.name])[RECORD.name]
    try:
        held = decoded(packed.to_bytes(RECORD.bits // 8, "little"))
    except ValueError:
        held = None
    if held is None or held.hash != wanted:
        raise BoardRefused(f"Board at {link.line.name} holds machine {wanted[:12]} and no record "
                           f"of it; build its bitstream again")
    return held


def _machine_hash(link: BoardAccess) -> str:
    known, name = read_registers(link, ["magic", "version", "machine"]), link.line.name
    if known["magic"] != MAGIC:
        raise BoardRefused(f"Board at {name} is no accelerator: magic number "
                           f"{known['magic']:#010x}, not {MAGIC:#010x}; program it first")
    if known["version"] != VERSION:
        raise BoardRefused(f"Board at {name} has registers of version {known['version']}, not "
                           f"{VERSION}; build its bitstream again")
    return f"{known['machine']:064x}"


def read_registers(link: BoardAccess, names: list[str]) -> dict[str, int]:
    """Reads registers by name, with all registers between the first and the last of them."""
    words = {register.name: register.words for register in REGISTERS}
    first = min(ADDRESSES[name] for name in names)
    last = max(ADDRESSES[name] + words[name] for name in names)
    raw = link.registers(first, last - first)
    return {name: sum(word << 32 * at for at, word in enumerate(
        raw[ADDRESSES[name] - first:ADDRESSES[name] - first + words[name]])) for name in names}
