"""Accelerator segments that run on a device."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from accel.figures.layers import layer_rows
from accel.machine.device import Device, DeviceError
from accel.machine.program import AccelProgram, TensorSlot
from accel.machine.status import Run
from accel.machine.work import Work
from accel.mapping.borders import is_converted
from accel.mapping.layout import from_memory, to_memory
from compiler.target import HOST, Outcome, Row, Values

__all__ = ["AccelSegment"]


class AccelSegment:
    """A compiled segment on a device: constants are copied once, activations at every run.

    `work` has the work of each of the program's layers; layers computed at the same time are one
    entry.
    """

    def __init__(self, program: AccelProgram, work: tuple[tuple[Work, ...], ...], device: Device):
        self.program, self.work, self.device = program, work, device
        with device.exclusive:
            self._address = device.allocate(program.memory_bytes)
            device.copy_in(self._address, program.image())

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
            self.device.copy_in(self._place(slot), raw)
        self.device.launch(program, self._address)
        run = self.device.wait()
        if not run.ok:
            label = program.labels[run.index] if run.index < len(program.labels) else ""
            raise DeviceError(f"{run.describe()} {label}".strip(), run)
        return Outcome({slot.name: self._fetch(slot) for slot in program.outputs}, run)

    def _place(self, slot: TensorSlot) -> int:
        return self._address + self.program.bases[slot.base] + slot.offset

    def _fetch(self, slot: TensorSlot) -> np.ndarray:
        raw = self.device.copy_out(self._place(slot), slot.size_bytes).view(slot.numpy_dtype)
        return from_memory(raw.reshape(slot.shape), slot.layout, slot.logical)


def _converted(slot: TensorSlot, convert: Callable[[], object]) -> dict[str, Any]:
    """Repeats a conversion to measure it, and gives its row."""
    begin = time.perf_counter()
    convert()
    return {"name": slot.name, "op": "relayout", "device": HOST,
            "seconds": time.perf_counter() - begin, "cycles": 0}
