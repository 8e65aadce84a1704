"""The functional simulator: executing a program one instruction at a time is its meaning.

Values come straight from the declared bodies, by NumPy. There is no time: `cycles`, counters and
events of the `Run` stay empty.

An erroneous program ends with the status, unit and instruction of the hardware. An instruction
with an error touches nothing and goes its way; of all errors, that of the lowest instruction is
reported in the end. Where a wait meets an empty counter in stream order, or a signal a full one,
the units are followed from there on with their queues, as a Kahn network: its end does not depend
on timing.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from accel.datapath.plan import open_instructions
from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction
from accel.machine.status import Run, Status
from accel.machine.structure import FETCH
from accel.machine.words import decode_words
from accel.proof.access import Fault, Touch, require_ranges, touches

from .units import Buffers, perform


def simulate(machine: Machine, program: AccelProgram, memory: np.ndarray | None = None, *,
             inputs: Mapping[str, np.ndarray] | None = None) -> Run:
    """Execute a program that was compiled for `machine`.

    `memory` is the image before the start (uint8, segments at `program.bases`; it is not
    changed); without it, the program's own with `inputs`. Raises `ProgramError` if the program
    was compiled for another machine.
    """
    program.require(machine)
    image = program.image(inputs) if memory is None else np.array(memory, np.uint8)
    shared = program.shared_bytes(machine)
    before = image[shared].copy()
    run = _Execution(machine, program, image).run()
    run.memory[shared] = before
    return run


class _Stop(Exception):
    """The machine stops here, if no instruction had an error before."""

    def __init__(self, status: Status, unit: str, index: int,
                 waiting: Mapping[str, int] | None = None):
        super().__init__(status.text)
        self.run = (status, unit, index, waiting or {})


_Error = tuple[int, Status, str]
"""Instruction, status and unit: the lowest is the one that counts."""


@dataclass
class _Unit:
    """A unit in the Kahn network: its queue, and what it has started and not retired."""

    queue: deque[int] = field(default_factory=deque)
    open: deque[int] = field(default_factory=deque)

    @property
    def idle(self) -> bool:
        return not self.queue and not self.open


class _Execution:
    def __init__(self, machine: Machine, program: AccelProgram, memory: np.ndarray):
        self.machine = machine
        self.memory = memory
        self.bases = program.bases
        self.stream = decode_words(machine, program.words, program.origins)
        self.buffers = Buffers(machine.config)
        names = machine.structure.names
        self.counters = {(a, b): 0 for a in names for b in names}
        self.units = {unit: _Unit() for unit in names}
        self.errors: list[_Error] = []
        self.bus_errors: set[int] = set()       # of open instructions

    def run(self) -> Run:
        try:
            self._follow(self._in_order())
        except _Stop as stop:
            status, unit, index, waiting = stop.run
            if self.errors:
                index, status, unit = min(self.errors)
                waiting = {}
            return Run(status, unit, index, self.memory, waiting=waiting)

    def _in_order(self) -> int:
        """Executes in stream order; returns the position of the first counter that it cannot pass.
        """
        for index, instruction in enumerate(self.stream):
            if instruction.unit == FETCH:
                self._finish(index)
            if instruction.unit == "illegal" or not self._start(index):
                return index
            if not self._retire(instruction.unit):
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
            for unit in self.units:
                moved |= self._advance(unit)
        if position < len(self.stream) and self.stream[position].unit == "illegal":
            self.errors.append((position, Status.ILLEGAL, FETCH))
        self._deadlock()

    def _fetch(self, position: int) -> bool:
        """Hands the instruction to its queue and returns True; an illegal one stays."""
        instruction = self.stream[position]
        if instruction.unit == FETCH and all(state.idle for state in self.units.values()):
            self._finish(position)
        if instruction.unit not in self.units:
            return False
        queue = self.units[instruction.unit].queue
        if len(queue) == self.machine.config.queue_depth:
            return False
        queue.append(position)
        return True

    def _advance(self, unit: str) -> bool:
        """Advances a unit by one step: retires the oldest instruction, else starts the next."""
        state = self.units[unit]
        if state.open and self._retire(unit):
            return True
        if not state.queue or len(state.open) == open_instructions(self.machine, unit) \
                or not self._start(state.queue[0]):
            return False
        state.queue.popleft()
        return True

    def _start(self, index: int) -> bool:
        """Perform an instruction, if its tokens are there."""
        instruction = self.stream[index]
        if not self._take(instruction):
            return False
        self._perform(index, instruction)
        self.units[instruction.unit].open.append(index)
        return True

    def _retire(self, unit: str) -> bool:
        """The oldest open instruction of a unit signals, if it can. If memory has answered it with
        an error, that is known now."""
        state = self.units[unit]
        index = state.open[0]
        if index in self.bus_errors:
            self.errors.append((index, Status.BUS, unit))
            self.bus_errors.remove(index)
        if not self._give(self.stream[index]):
            return False
        state.open.popleft()
        return True

    def _take(self, instruction: Instruction) -> bool:
        pairs = [(source, instruction.unit) for source in instruction.waits]
        if not all(self.counters[pair] for pair in pairs):
            return False
        for pair in pairs:
            self.counters[pair] -= 1
        return True

    def _give(self, instruction: Instruction) -> bool:
        """Signal all targets at once, if none of their counters is full."""
        pairs = [(instruction.unit, target) for target in instruction.signals]
        if any(self.counters[pair] == self.machine.config.timing.tokens for pair in pairs):
            return False
        for pair in pairs:
            self.counters[pair] += 1
        return True

    def _perform(self, index: int, instruction: Instruction) -> None:
        try:
            touched = touches(self.machine, instruction)
            require_ranges(self.machine, instruction, touched)
        except Fault as fault:
            self.errors.append((index, fault.status, instruction.unit))
            return
        if self._outside_memory(touched):
            self.bus_errors.add(index)
        else:
            perform(self.machine, self.buffers, self.memory, self.bases, instruction, touched)

    def _outside_memory(self, touched: Sequence[Touch]) -> bool:
        for touch in touched:
            if touch.memory in isa.BASES and touch.walk.count:
                low, high = touch.walk.bounds
                base = self.bases[touch.memory]
                if (base + high) % (1 << 32) + touch.width > self.memory.size \
                        or (base + low) % (1 << 32) + touch.width > self.memory.size:
                    return True
        return False

    def _finish(self, index: int) -> NoReturn:
        left = any(self.counters.values())
        raise _Stop(Status.TOKENS_LEFT if left else Status.DONE, FETCH, index)

    def _deadlock(self) -> NoReturn:
        waiting = {unit: state.open[0] if state.open else state.queue[0]
                   for unit, state in self.units.items() if not state.idle}
        if not waiting:
            raise _Stop(Status.DEADLOCK, FETCH, len(self.stream))
        unit = min(waiting, key=waiting.__getitem__)
        raise _Stop(Status.DEADLOCK, unit, waiting[unit], waiting)
