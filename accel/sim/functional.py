"""The functional simulator: executing a program one instruction at a time is its meaning.

Values come straight from the declared bodies, by NumPy. There is no time: `cycles`, counters and
events of the `Run` stay empty.

An erroneous program ends with the status, unit and instruction of the hardware. Where a wait
meets an empty counter in stream order, the units are followed from there on with their queues, as
a Kahn network: its end does not depend on timing.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from accel import isa
from accel.access import Fault, Touch, require_ranges, touches
from accel.config import UNITS
from accel.machine import Machine
from accel.program import Instruction, Program
from accel.status import Run, Status
from accel.words import decode_words

from .units import Buffers, perform

__all__ = ["simulate"]

_FULL = 255


def simulate(machine: Machine, program: Program, memory: np.ndarray | None = None, *,
             inputs: Mapping[str, np.ndarray] | None = None) -> Run:
    """Execute a program that was compiled for `machine`.

    `memory` is the image before the start (uint8, segments at `program.bases`; it is not
    changed); without it, the program's own with `inputs`. Raises `ProgramError` if the program
    was compiled for another machine.
    """
    program.require(machine)
    image = program.image(inputs) if memory is None else np.array(memory, np.uint8)
    return _Execution(machine, program, image).run()


class _Stop(Exception):
    """The machine stops here."""

    def __init__(self, status: Status, unit: str, index: int,
                 waiting: Mapping[str, int] | None = None):
        super().__init__(status.text)
        self.run = (status, unit, index, waiting or {})


@dataclass
class _Unit:
    """A unit in the Kahn network: its queue, and the signals that it could not yet give."""

    queue: deque[int] = field(default_factory=deque)
    signals: tuple[str, ...] = ()
    index: int = 0              # of the instruction that wants to give them

    @property
    def idle(self) -> bool:
        return not self.queue and not self.signals


class _Execution:
    def __init__(self, machine: Machine, program: Program, memory: np.ndarray):
        self.machine = machine
        self.memory = memory
        self.bases = program.bases
        self.stream = decode_words(machine, program.words, program.provenance)
        self.buffers = Buffers(machine.config)
        self.counters = {(a, b): 0 for a in UNITS for b in UNITS}
        self.units = {unit: _Unit() for unit in UNITS}

    def run(self) -> Run:
        try:
            self._follow(self._in_order())
        except _Stop as stop:
            status, unit, index, waiting = stop.run
            return Run(status, unit, index, self.memory, waiting=waiting)

    def _in_order(self) -> int:
        """Execute in stream order; the position at which that meets a counter it cannot pass."""
        for index, instruction in enumerate(self.stream):
            if instruction.unit == "fetch":
                self._finish(index)
            self._require_opcode(index, instruction)
            if not self._take(instruction):
                return index
            self._perform(index, instruction)
            if not self._give(index, instruction):
                return index + 1
        return len(self.stream)

    def _follow(self, position: int) -> NoReturn:
        """The Kahn network of units and queues, from a state in which all queues are empty."""
        moved = True
        while moved:
            moved = False
            while position < len(self.stream) and self._fetch(position):
                position += 1
                moved = True
            for unit, state in self.units.items():
                moved |= self._advance(unit, state)
        self._deadlock()

    def _fetch(self, position: int) -> bool:
        instruction = self.stream[position]
        self._require_opcode(position, instruction)
        if instruction.unit == "fetch":
            if all(state.idle for state in self.units.values()):
                self._finish(position)
            return False
        queue = self.units[instruction.unit].queue
        if len(queue) == self.machine.config.queue_depth:
            return False
        queue.append(position)
        return True

    def _advance(self, unit: str, state: _Unit) -> bool:
        """One step of a unit: give signals that are due, else the next instruction."""
        if state.signals:
            return self._give(state.index, self.stream[state.index])
        if not state.queue or not self._take(self.stream[state.queue[0]]):
            return False
        index = state.queue.popleft()
        self._perform(index, self.stream[index])
        self._give(index, self.stream[index])
        return True

    def _take(self, instruction: Instruction) -> bool:
        pairs = [(source, instruction.unit) for source in instruction.waits]
        if not all(self.counters[pair] for pair in pairs):
            return False
        for pair in pairs:
            self.counters[pair] -= 1
        return True

    def _give(self, index: int, instruction: Instruction) -> bool:
        """Signal all targets at once, or remember that it is due."""
        pairs = [(instruction.unit, target) for target in instruction.signals]
        state = self.units[instruction.unit]
        if any(self.counters[pair] == _FULL for pair in pairs):
            state.signals, state.index = instruction.signals, index
            return False
        state.signals = ()
        for pair in pairs:
            self.counters[pair] += 1
        return True

    def _perform(self, index: int, instruction: Instruction) -> None:
        try:
            found = touches(self.machine, instruction)
            require_ranges(self.machine, instruction, found)
            self._require_memory(found)
        except Fault as fault:
            raise _Stop(fault.status, instruction.unit, index) from None
        perform(self.machine, self.buffers, self.memory, self.bases, instruction, found)

    def _require_memory(self, found: Sequence[Touch]) -> None:
        for touch in found:
            if touch.memory in isa.BASES and touch.walk.count:
                low, high = touch.walk.bounds
                base = self.bases[touch.memory]
                if (base + high) % (1 << 32) + touch.width > self.memory.size \
                        or (base + low) % (1 << 32) + touch.width > self.memory.size:
                    raise Fault(Status.BUS, f"{touch.operand} leaves the memory")

    def _require_opcode(self, index: int, instruction: Instruction) -> None:
        if instruction.unit == "illegal":
            raise _Stop(Status.ILLEGAL, "fetch", index)

    def _finish(self, index: int) -> None:
        left = any(self.counters.values())
        raise _Stop(Status.TOKENS_LEFT if left else Status.DONE, "fetch", index)

    def _deadlock(self) -> NoReturn:
        waiting = {unit: state.index if state.signals else state.queue[0]
                   for unit, state in self.units.items() if not state.idle}
        if not waiting:
            raise _Stop(Status.DEADLOCK, "fetch", len(self.stream))
        unit = min(waiting, key=waiting.__getitem__)
        raise _Stop(Status.DEADLOCK, unit, waiting[unit], waiting)
