"""Where the time of one inference goes, operator by operator."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import TensorSlot
from accel.machine.status import Run
from accel.mapping.borders import is_converted
from accel.mapping.layout import from_memory, to_memory
from compiler.cpu_gpu_backends.cpu.target import HostSegment
from runtime.module import AccelSegment, Module, Step
from runtime.report import layer_rows

__all__ = ["profile"]

Rows = list[dict[str, Any]]


def profile(module: Module, inputs: Mapping[str, np.ndarray]) -> Rows:
    """A row for each group of operators that is computed together, in order of execution:
    `name` and `op` of its operators, `device` (host or accel), `seconds`, `cycles`.

    On the host seconds were measured, in this call: what is run for the first time may take longer
    than later. On the accelerator they are its cycles at the machine's clock, both 0 where the
    device counts none; there is a row more for each segment, what follows its last layer. A value
    whose layout changes while it is copied has a row of the host, `op` relayout.
    """
    rows: Rows = []

    def perform(step: Step, given: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        if isinstance(step.execute, HostSegment):
            return _host(step.execute, given, rows)
        assert isinstance(step.execute, AccelSegment)
        made, run = step.execute(given)
        program = step.execute.program
        rows.extend(_converted(slot, lambda slot=slot: to_memory(given[slot.name], slot.layout))
                    for slot in program.inputs if is_converted(slot))
        rows.extend(_accelerated(step.execute, step.execute.device.machine, run))
        rows.extend(_converted(slot, lambda slot=slot: from_memory(
            np.zeros(slot.shape, np.int8), slot.layout, slot.logical))
            for slot in program.outputs if is_converted(slot))
        return made

    module.perform(inputs, perform)
    return rows


def _host(segment: HostSegment, given: Mapping[str, np.ndarray],
          rows: Rows) -> Mapping[str, np.ndarray]:
    moments = [time.perf_counter()]
    made = segment(given, after=lambda number: moments.append(time.perf_counter()))
    for step, begin, end in zip(segment.steps, moments, moments[1:], strict=False):
        rows.append({"name": " + ".join(node.name for node in step.group.nodes),
                     "op": step.group.name.replace("+", " + "), "device": "host",
                     "seconds": end - begin, "cycles": 0})
    return made


def _converted(slot: TensorSlot, convert: Callable[[], object]) -> dict[str, Any]:
    """Done once more, to be measured."""
    begin = time.perf_counter()
    convert()
    return {"name": slot.name, "op": "relayout", "device": "host",
            "seconds": time.perf_counter() - begin, "cycles": 0}


def _accelerated(segment: AccelSegment, machine: Machine, run: Run) -> Rows:
    return [{"name": row["name"], "op": row["op"], "device": "accel",
             "seconds": row["cycles"] / (machine.config.clock_mhz * 1e6), "cycles": row["cycles"]}
            for row in layer_rows(machine, segment.program, segment.work, run)]
