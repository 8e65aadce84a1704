"""Accelerator segments that run on a device."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from accel.figures.layers import layer_rows
from accel.machine.device import Device, DeviceError
from accel.machine.program import AccelProgram, ProgramError, TensorSlot
from accel.machine.status import Run
from accel.machine.work import Work
from accel.mapping.borders import is_converted
from accel.mapping.layout import from_memory, to_memory
from accel.mapping.puts import PlacePut, moved
from compiler.target import HOST, Outcome, Row, Values

__all__ = ["AccelSegment"]

LINE = 64                           # bytes that are copied together


class AccelSegment:
    """A compiled segment on a device: constants are copied once, activations at every run.

    `work` has the work of each of the program's layers; layers computed at the same time are one
    entry; `address` is where the program lies in the device's memory. Inputs that are kept lie
    there from one run to the next: only lines of them that have changed are copied. `puts` are
    stores that the driver moves to the place that a run says.
    """

    def __init__(self, program: AccelProgram, work: tuple[tuple[Work, ...], ...], device: Device,
                 puts: Sequence[PlacePut] = ()):
        self.program, self.work, self.device, self.puts = program, work, device, puts
        with device.exclusive:
            self.address = device.allocate(program.memory_bytes)
            device.copy_in(self.address, program.image())
        self._kept: dict[str, np.ndarray] = {}

    def keep(self, names: Collection[str]) -> None:
        """Keeps these inputs, if they are some of the segment."""
        self._kept |= {slot.name: np.zeros(0, np.uint8) for slot in self.program.inputs
                       if slot.name in names}

    def __call__(self, values: Values) -> Outcome:
        with self.device.exclusive:
            return self._run(values)

    def rows(self, run: Run) -> list[Row]:
        return layer_rows(self.device.machine, self.program, self.work, run)

    def profile(self, values: Values) -> tuple[Outcome, list[Row]]:
        """Run once and give a row for each layer, and one for what follows the last layer.

        Seconds are cycles at the machine's clock; both are 0 where the device counts none. A value
        whose layout changes while it is copied has a row of the host, `op` relayout.
        """
        outcome, clock = self(values), self.device.machine.config.clock_mhz * 1e6
        layers = [{"name": row["name"], "op": row["op"], "seconds": row["cycles"] / clock,
                   "cycles": row["cycles"]} for row in self.rows(outcome.run)]
        before = [_converted(slot, lambda slot=slot: to_memory(values[slot.name], slot.layout))
                  for slot in self.program.inputs if is_converted(slot)]
        after = [_converted(slot, lambda slot=slot: from_memory(
            np.zeros(slot.shape, slot.numpy_dtype), slot.layout, slot.logical))
            for slot in self.program.outputs if is_converted(slot)]
        return outcome, [*before, *layers, *after]

    def _run(self, values: Values) -> Outcome:
        program = self.program
        for slot in program.inputs:
            raw = to_memory(values[slot.name], slot.layout).reshape(-1).view(np.uint8)
            for begin, end in self._changed(slot.name, raw):
                self.device.copy_in(self.place(slot) + begin, raw[begin:end])
        program = self._placed(values)
        self.device.launch(program, self.address)
        run = self.device.wait()
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

    def _placed(self, values: Values) -> AccelProgram:
        """The program whose stores put rows where this run's positions say; its words are in the
        device's memory, too.
        """
        if not self.puts:
            return self.program
        places = {put.position: int(values[put.position].item()) for put in self.puts}
        for put in self.puts:
            if not 0 <= places[put.position] < put.places:
                raise ProgramError(f"{put.position} must be 0 to {put.places - 1}, not "
                                   f"{places[put.position]}")
        words, base = self.program.words.copy(), self.address + self.program.bases["program"]
        for index, word in moved(self.program.words, self.puts, places).items():
            words[index] = word
            self.device.copy_in(base + index * word.size, word)
        return replace(self.program, words=words)

    def _changed(self, name: str, raw: np.ndarray) -> Iterator[tuple[int, int]]:
        """The runs of bytes of an input that are not in the device's memory."""
        if name not in self._kept:
            yield 0, raw.size
            return
        before, self._kept[name] = self._kept[name], raw.copy()
        if before.size != raw.size:
            yield 0, raw.size
            return
        lines = np.unique(np.flatnonzero(before != raw) // LINE)
        for run in np.split(lines, np.flatnonzero(np.diff(lines) > 1) + 1):
            if run.size:
                yield int(run[0]) * LINE, min(raw.size, (int(run[-1]) + 1) * LINE)

    def place(self, slot: TensorSlot) -> int:
        """The address of a tensor in the device's memory."""
        return self.address + self.program.bases[slot.base] + slot.offset

    def _fetch(self, slot: TensorSlot) -> np.ndarray:
        raw = self.device.copy_out(self.place(slot), slot.size_bytes).view(slot.numpy_dtype)
        return from_memory(raw.reshape(slot.shape), slot.layout, slot.logical)


def _converted(slot: TensorSlot, convert: Callable[[], object]) -> dict[str, Any]:
    """Repeats a conversion to measure it, and gives its row."""
    begin = time.perf_counter()
    convert()
    return {"name": slot.name, "op": "relayout", "device": HOST,
            "seconds": time.perf_counter() - begin, "cycles": 0}
