"""Accelerator segments that run on a device."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accel.figures.layers import LayerRow, layer_rows
from accel.machine.device import Device, DeviceError
from accel.machine.program import AccelProgram, ProgramError, TensorSlot
from accel.machine.status import Run
from accel.figures.work import Work
from accel.mapping.memory.borders import is_converted
from accel.mapping.memory.layout import from_memory, to_memory
from accel.mapping.positions.prefixes import PrefixStream
from accel.mapping.positions.puts import PlacePut, moved
from compiler.graph.division.protocols import HOST, Outcome, Row, Values

LINE = 64                           # bytes that are copied together


class AccelSegment:
    """A compiled segment on a device: constants are copied once, activations at every run.

    `work` has the work of each of the program's layers; layers computed at the same time are one
    entry; `address` is where the program lies in the device's memory. Inputs that are kept lie
    there from one run to the next: only lines of them that have changed are copied. `puts` are
    stores that the driver moves to the place that a run says, and `prefixes` streams for positions
    below some count of places, of which the shortest that serves is run.
    """

    def __init__(self, program: AccelProgram, work: tuple[tuple[Work, ...], ...], device: Device,
                 puts: Sequence[PlacePut] = (), prefixes: Sequence[PrefixStream] = ()):
        self.program, self.work, self.device, self.puts = program, work, device, puts
        self.prefixes = prefixes
        self._chosen = _Chosen(program, puts)
        with device.exclusive:
            self.address = device.allocate(program.memory_bytes)
            device.copy_in(self.address, program.image())
        self._kept: dict[str, np.ndarray] = {}
        self._words = program.words.reshape(-1)         # in the device's memory

    def keep(self, names: Collection[str]) -> None:
        """Keeps these inputs, if they are some of the segment."""
        self._kept |= {slot.name: np.zeros(0, np.uint8) for slot in self.program.inputs
                       if slot.name in names}

    def __call__(self, values: Values) -> Outcome:
        with self.device.exclusive:
            return self._run(values)

    def rows(self, run: Run) -> list[Row]:
        return [row.plain for row in self._rows(run)]

    def _rows(self, run: Run) -> list[LayerRow]:
        prefix = next((one for one in self.prefixes if one.places == run.places), None)
        program, work = (self.program, self.work) if prefix is None else (
            prefix.program(self.program), prefix.all_work(self.work))
        return layer_rows(self.device.machine, program, work, run)

    def profile(self, values: Values) -> tuple[Outcome, list[Row]]:
        """Run once and give a row for each layer, and one for what follows the last layer.

        Seconds are cycles at the machine's clock; both are 0 where the device counts none. A value
        whose layout changes while it is copied has a row of the host, `op` relayout.
        """
        outcome, clock = self(values), self.device.machine.config.clock_mhz * 1e6
        layers = [{"name": row.name, "op": row.op, "seconds": row.cycles / clock,
                   "cycles": row.cycles} for row in self._rows(outcome.run)]
        before = [_converted(slot, lambda slot=slot: to_memory(values[slot.name], slot.layout))
                  for slot in self.program.inputs if is_converted(slot)]
        after = [_converted(slot, lambda slot=slot: from_memory(
            np.zeros(slot.shape, slot.numpy_dtype), slot.layout, slot.logical))
            for slot in self.program.outputs if is_converted(slot)]
        return outcome, [*before, *layers, *after]

    def _run(self, values: Values) -> Outcome:
        for slot in self.program.inputs:
            raw = to_memory(values[slot.name], slot.layout).reshape(-1).view(np.uint8)
            for begin, end in self._changed(slot.name, raw):
                self.device.copy_in(self.place(slot) + begin, raw[begin:end])
        program, places = self._placed(values)
        self.device.launch(program, self.address)
        run = replace(self.device.wait(), places=places)
        if not run.ok:
            label = program.labels[run.index] if run.index < len(program.labels) else ""
            raise DeviceError(f"{run.describe()} {label}".strip(), run)
        return Outcome({slot.name: self._fetch(slot) for slot in program.outputs}, run)

    def note(self, name: str, array: np.ndarray) -> None:
        """Notes what a program whose stores are moved has left of a kept input, so that it need not
        be copied. Other programs change no input.
        """
        slot = next((slot for slot in self.program.inputs if slot.name == name), None)
        if self.puts and slot is not None and name in self._kept:
            self._kept[name] = to_memory(array, slot.layout).reshape(-1).view(np.uint8).copy()

    def _placed(self, values: Values) -> tuple[AccelProgram, int]:
        """The program for this run's positions, whose words are in the device's memory, too; and
        how many places of caches it reads, 0 for all.
        """
        if not self.puts:
            return self.program, 0
        program, places = self.at({put.position: int(values[put.position].item())
                                   for put in self.puts})
        base, raw = self.address + self.program.bases["program"], program.words.reshape(-1)
        before, self._words = self._words, raw[:0]      # unknown, if a copy fails
        for begin, end in _different(before, raw):
            self.device.copy_in(base + begin, raw[begin:end])
        self._words = raw
        return program, places

    def at(self, positions: Mapping[str, int]) -> tuple[AccelProgram, int]:
        """The program for these positions, and how many places of caches it reads, 0 for all."""
        for put in self.puts:
            if not 0 <= positions[put.position] < put.places:
                raise ProgramError(f"{put.position} must be 0 to {put.places - 1}, not "
                                   f"{positions[put.position]}")
        chosen = self._serving(max(positions.values()))
        words = chosen.program.words.copy()
        for index, word in moved(words, chosen.puts, positions).items():
            words[index] = word
        return replace(chosen.program, words=words), chosen.places

    def _serving(self, position: int) -> "_Chosen":
        """The shortest stream that reads the places up to a position."""
        prefix = next((one for one in self.prefixes if position < one.places), None)
        places = prefix.places if prefix else 0
        if self._chosen.places != places:
            self._chosen = _Chosen(self.program, self.puts) if prefix is None else _Chosen(
                prefix.program(self.program), prefix.puts, places)
        return self._chosen

    def _changed(self, name: str, raw: np.ndarray) -> Iterator[tuple[int, int]]:
        """The runs of bytes of an input that are not in the device's memory."""
        before = self._kept.get(name, raw[:0])
        if name in self._kept:
            self._kept[name] = raw.copy()
        return _different(before, raw)

    def place(self, slot: TensorSlot) -> int:
        """The address of a tensor in the device's memory."""
        return self.address + self.program.bases[slot.base] + slot.offset

    def _fetch(self, slot: TensorSlot) -> np.ndarray:
        raw = self.device.copy_out(self.place(slot), slot.size_bytes).view(slot.numpy_dtype)
        return from_memory(raw.reshape(slot.shape), slot.layout, slot.logical)


@dataclass(frozen=True)
class _Chosen:
    """A stream of a segment, which reads so many `places` of caches; 0: all."""

    program: AccelProgram
    puts: Sequence[PlacePut]
    places: int = 0


def _different(before: np.ndarray, after: np.ndarray) -> Iterator[tuple[int, int]]:
    """The runs of bytes, in whole lines, in which an array differs from the one before it."""
    count = min(before.size, after.size)
    lines = np.unique(np.flatnonzero(before[:count] != after[:count]) // LINE)
    lines = np.concatenate((lines, np.arange(count // LINE, -(-after.size // LINE))))
    for run in np.split(lines, np.flatnonzero(np.diff(lines) > 1) + 1):
        if run.size:
            yield int(run[0]) * LINE, min(after.size, (int(run[-1]) + 1) * LINE)


def _converted(slot: TensorSlot, convert: Callable[[], object]) -> dict[str, Any]:
    """Repeats a conversion to measure it, and gives its row."""
    begin = time.perf_counter()
    convert()
    return {"name": slot.name, "op": "relayout", "device": HOST,
            "seconds": time.perf_counter() - begin, "cycles": 0}
