"""Toggles of a Verilated core: how many bits of registers changed, and when memories were enabled.

A core that traces its registers and the enables of its memories runs a program and writes the
waveforms (VCD) into a pipe, which is read here as they come; nothing of them is kept. Every cycle
counts once: glitches within it are not seen. A run takes about a second for 10,000 cycles of
`tiny-1x4x4`, building the core one to three minutes.
"""

import os
import re
import select
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Thread
from typing import IO

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram

from .verilated import VerilatedCore, build_object, emitted, pyverilator_view

FLAGS = ("--trace-depth", "99")
LAST = 1 << 40

_ON, _OFF = "/*verilator tracing_on*/", "/*verilator tracing_off*/"
_ESCAPE = "\\"
_MODULE = re.compile(r"^(?=module )", re.MULTILINE)
_HEAD = re.compile(r"module \\?(\S+?)[ (]")
_DECLARATION = re.compile(
    r"^  (?:reg|wire|input|output)(?: \[\d+:\d+\])? (\\\S+|\w+)(?: +=.*| *);$", re.MULTILINE)
_ASSIGNED = re.compile(r"^ +(\\\S+|\w+)(?: ?\[[^\]]*\])* +<= ", re.MULTILINE)
_ENABLES = ("read__en", "write__en")


@dataclass(frozen=True)
class Toggles:
    """The toggles of a run, by module of the core (``core.gemm.datapath``) and interval of the run.

    Parameters
    ----------
    toggles : bits of registers that changed (int64, one for each interval).
    enabled : cycles in which a memory's port was enabled: ``core.inp.slice0.read__en``.
    register_bits : bits of the registers.
    """

    toggles: Mapping[str, np.ndarray]
    enabled: Mapping[str, np.ndarray]
    register_bits: Mapping[str, int]

    def of(self, *modules: str) -> np.ndarray:
        """The toggles of some modules together."""
        return np.sum([self.toggles[name] for name in modules], axis=0)


def toggles(machine: Machine, program: AccelProgram, ends: Sequence[int],
            memory: np.ndarray | None = None) -> Toggles:
    """Runs a program on RTL with the machine's memory and counts toggles.

    Parameters
    ----------
    ends : the cycles in which intervals end, ascending, the last of them that of the run.
    memory : the image before the start (uint8; it is not changed); without it, the program's own.
    """
    core, registers = _traced(machine)
    memory = program.image() if memory is None else np.array(memory, np.uint8)
    handle = core.probe(pyverilator_view(core.path), program, memory, machine.config.memory)
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.path.join(folder, "waves")
        os.mkfifo(pipe)

        def play() -> None:
            try:
                handle.trace(pipe)
                handle.run(LAST)
            finally:
                handle.close()
                os.close(os.open(pipe, os.O_RDWR))      # lets go of a reader that still waits

        counter, player = _Counter(registers, ends), Thread(target=play)
        with _reader(pipe) as waves:
            player.start()
            _wait(waves)
            counter.read(waves)
        player.join()
    return counter.result()


def _reader(pipe: str) -> IO[bytes]:
    """A reader that is there before the writer, who would not wait for one."""
    number = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(number, True)
    return open(number, "rb")


def _wait(waves: IO[bytes]) -> None:
    """Waits for the writer: before it comes, a pipe reads as if it had ended."""
    poll = select.poll()
    poll.register(waves, select.POLLIN)
    poll.poll()


@cache
def _traced(machine: Machine) -> tuple[VerilatedCore, frozenset[str]]:
    """A core that traces every signal, and the full names of its registers."""
    text, ports = emitted(machine)
    registers: set[str] = set()
    modules = [_watched(module, registers) for module in _MODULE.split(text)]
    path = build_object(machine, "".join(modules), ports, options=FLAGS)
    return VerilatedCore(machine, path), frozenset(registers)


def _watched(module: str, registers: set[str]) -> str:
    """A module that traces its registers and enables only. Adds the full names of its registers:
    what is assigned where the clock rises, behind the name of the module, which is its path in the
    core. Memories are among them; they are not traced."""
    head = _HEAD.match(module)
    if not head:
        return module
    assigned = set(_ASSIGNED.findall(module))
    registers.update(f"{head[1]}.{name.removeprefix(_ESCAPE)}" for name in assigned)

    def declaration(match: re.Match[str]) -> str:
        name = match[1]
        watched = name in assigned or name.removeprefix(_ESCAPE) in _ENABLES
        return match[0] if watched else f"{_OFF}\n{match[0]}\n{_ON}"

    return _DECLARATION.sub(declaration, module)


@dataclass
class _Signal:
    """A signal that is watched: a register, or an enable (`since`: it is what it is)."""

    name: str
    module: str
    is_register: bool
    counts: list[int]
    value: int | None = None
    since: int = 0


@dataclass
class _Counter:
    """Reads a VCD as it comes. A cycle has ten units of time; in its middle the clock rises, and
    registers change."""

    registers: frozenset[str]
    ends: Sequence[int]
    signals: dict[bytes, list[_Signal]] = field(default_factory=dict)
    bits: dict[str, int] = field(default_factory=dict)

    def read(self, waves: IO[bytes]) -> None:
        self._header(waves)
        time = interval = 0
        watched = self.signals
        for line in waves:
            first = line[0]
            if first == 35:                                     # "#": a time
                time = int(line[1:])
                interval = self._interval(time // 10)
                continue
            if first == 98:                                     # "b": a vector
                text, code = line[1:].split()
                signals, value = watched.get(code, ()), int(text, 2)
            else:
                signals, value = watched.get(line[1:-1], ()), first - 48
            for signal in signals:
                if signal.value is not None and signal.is_register:
                    signal.counts[interval] += (signal.value ^ value).bit_count()
                elif not signal.is_register:        # what it is from the next edge on, or from now
                    self._enabled(signal, (time + 5) // 10)
                signal.value = value
        for signal in self._all():
            if not signal.is_register:
                self._enabled(signal, self.ends[-1] + 1)

    def _all(self) -> list[_Signal]:
        return [signal for signals in self.signals.values() for signal in signals]

    def _header(self, waves: IO[bytes]) -> None:
        scopes: list[str] = []
        for line in waves:
            match line.split():
                case [b"$scope", b"module", name, _]: scopes.append(name.decode())
                case [b"$upscope", *_]: scopes.pop()
                case [b"$var", _, width, code, name, *_]:
                    self._declare(".".join(scopes[1:]), name.decode(), code, int(width))
                case [b"$enddefinitions", *_]: return

    def _declare(self, module: str, name: str, code: bytes, width: int) -> None:
        full = f"{module}.{name}"
        is_register = full in self.registers
        if is_register or name in _ENABLES:     # which may be one net
            counts = [0] * len(self.ends)
            self.signals.setdefault(code, []).append(_Signal(full, module, is_register, counts))
        if is_register:
            self.bits[module] = self.bits.get(module, 0) + width

    def _interval(self, cycle: int) -> int:
        """The number of a cycle's interval; the last one has what comes behind."""
        return min(int(np.searchsorted(self.ends, cycle, "right")), len(self.ends) - 1)

    def _enabled(self, signal: _Signal, cycle: int) -> None:
        """Counts the cycles up to this one."""
        if signal.value:
            for number in range(self._interval(signal.since), self._interval(cycle) + 1):
                begin = self.ends[number - 1] if number else 0
                end = self.ends[number] if number + 1 < len(self.ends) else cycle
                signal.counts[number] += max(min(cycle, end) - max(signal.since, begin), 0)
        signal.since = cycle

    def result(self) -> Toggles:
        modules: dict[str, np.ndarray] = {}
        for signal in self._all():
            if signal.is_register:
                modules[signal.module] = (modules.get(signal.module, 0)
                                          + np.array(signal.counts, np.int64))
        enabled = {signal.name: np.array(signal.counts, np.int64) for signal in self._all()
                   if not signal.is_register}
        return Toggles(modules, enabled, self.bits)
