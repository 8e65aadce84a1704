"""Where the time of one inference goes, operator by operator."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from accel.machine import Machine
from accel.status import Run
from compiler.cpu_gpu_backends.cpu import HostSegment
from runtime.module import AccelSegment, Module, Step
from runtime.report import layer_rows

__all__ = ["profile"]

Rows = list[dict[str, Any]]


def profile(module: Module, inputs: Mapping[str, np.ndarray]) -> Rows:
    """A row for each group of operators that is computed together, in order of execution:
    `name` and `op` of its operators, `device` (host or accel), `seconds`, `cycles`.

    On the host seconds were measured, in this call: what is run for the first time may take longer
    than later. On the accelerator they are its cycles at the machine's clock, both 0 where the
    device counts none; there is a row more for each segment, what follows its last layer.
    """
    rows: Rows = []

    def perform(step: Step, given: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        if isinstance(step.execute, HostSegment):
            return _host(step.execute, given, rows)
        assert isinstance(step.execute, AccelSegment)
        made, run = step.execute(given)
        rows.extend(_accelerated(step.execute, step.execute.device.machine, run))
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


def _accelerated(segment: AccelSegment, machine: Machine, run: Run) -> Rows:
    return [{"name": row["name"], "op": row["op"], "device": "accel",
             "seconds": row["cycles"] / (machine.config.clock_mhz * 1e6), "cycles": row["cycles"]}
            for row in layer_rows(machine, segment.program, segment.work, run)]
