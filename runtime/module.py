"""Compiled networks: segments on their devices, and the executor that runs them in order.

>>> import numpy as np
>>> from runtime import compile
>>> module = compile("examples/digits/digits-int8.onnx", "accel:tiny-1x4x4", sim="functional")
>>> module.set_input("image", np.zeros((1, 1, 8, 8), np.float32))
>>> runs = module.run()
>>> module.get_output("logits").shape
(1, 10)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accel.config import load as load_config
from accel.layout import from_blocked, to_plain
from accel.machine import Machine
from accel.status import Run
from accel.target import AccelTarget, CompiledSegment
from compiler.cpu_gpu_backends.cpu import CpuTarget
from compiler.frontend.onnx_import import load as load_model
from compiler.graph.graph import Graph
from compiler.graph.partition import ACCEL, Partition, Segment, partition, subgraph
from compiler.graph.pipeline import AfterPass, optimize, standard_passes
from runtime.device import Device, DeviceError, SimulatedDevice, simulator

__all__ = ["InputError", "Module", "TargetError", "compile", "compile_graph"]

Values = dict[str, np.ndarray]


class InputError(ValueError):
    """An input of a name, shape or type that the network does not take."""


class TargetError(ValueError):
    """A target that does not exist."""


class AccelSegment:
    """A compiled segment on a device: constants are copied once, activations at every run."""

    def __init__(self, compiled: CompiledSegment, device: Device):
        self.compiled, self.device = compiled, device
        program = compiled.program
        self._address = device.allocate(program.memory_bytes)
        device.copy_in(self._address, program.image())

    def __call__(self, values: Mapping[str, np.ndarray]) -> tuple[Values, Run]:
        program = self.compiled.program
        for slot in program.inputs:
            raw = to_plain(values[slot.name]).reshape(-1).view(np.uint8)
            self.device.copy_in(self._place(slot), raw)
        self.device.launch(program, self._address)
        run = self.device.wait()
        if not run.ok:
            label = program.labels[run.index] if run.index < len(program.labels) else ""
            raise DeviceError(f"{run.describe()} {label}".strip(), run)
        return {slot.name: self._fetch(slot) for slot in program.outputs}, run

    def _place(self, slot) -> int:
        return self._address + self.compiled.program.bases[slot.base] + slot.offset

    def _fetch(self, slot) -> np.ndarray:
        raw = self.device.copy_out(self._place(slot), slot.size_bytes).view(np.int8)
        stored = raw.reshape(slot.shape)
        if slot.layout == "NHWC":
            return np.ascontiguousarray(stored.transpose(0, 3, 1, 2)).reshape(slot.logical)
        return from_blocked(stored, slot.logical)


HostCall = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Step:
    """A segment of the partition and what executes it."""

    segment: Segment
    execute: AccelSegment | HostCall


class Module:
    """A compiled network.

    `run` executes the segments in order and returns the run of each accelerator segment. Values
    are those of the network: logical shapes, the types of its own inputs and outputs.
    """

    def __init__(self, graph: Graph, partition: Partition, steps: tuple[Step, ...]):
        self.graph, self.partition, self.steps = graph, partition, steps
        self._inputs: Values = {}
        self._outputs: Values = {}

    @property
    def accelerated(self) -> tuple[CompiledSegment, ...]:
        return tuple(step.execute.compiled for step in self.steps
                     if isinstance(step.execute, AccelSegment))

    def set_input(self, name: str, array: np.ndarray) -> None:
        """Refuses another name, shape or type than the network's."""
        if name not in self.graph.inputs:
            raise InputError(f"Input must be one of {', '.join(self.graph.inputs)}, not {name!r}")
        wanted = self.graph.values[name]
        if tuple(array.shape) != wanted.shape or array.dtype != np.dtype(wanted.dtype):
            raise InputError(f"Input {name} must be {wanted.dtype} of shape {wanted.shape}, not "
                             f"{array.dtype} of shape {tuple(array.shape)}")
        self._inputs[name] = np.ascontiguousarray(array)

    def run(self) -> tuple[Run, ...]:
        missing = [name for name in self.graph.inputs if name not in self._inputs]
        if missing:
            raise InputError(f"Input {missing[0]} must be set before the network runs")
        values, runs = dict(self._inputs), []
        for step in self.steps:
            given = {name: values[name] for name in step.segment.inputs}
            if isinstance(step.execute, AccelSegment):
                made, run = step.execute(given)
                runs.append(run)
            else:
                made = step.execute(given)
            values.update(made)
        known = {**self.graph.constants, **values}
        self._outputs = {name: known[name] for name in self.graph.outputs}
        return tuple(runs)

    def get_output(self, name: str) -> np.ndarray:
        if name not in self._outputs:
            raise InputError(f"Output must be one of {', '.join(self.graph.outputs)}, and the "
                             f"network must have run, not {name!r}")
        return self._outputs[name]


def compile(model: str | Path | Graph, target: str = "accel:pynq-1x16x16", *,       # noqa: A001
            sim: str = "functional", integerize: bool = True, threads: int = 2,
            shapes: Mapping[str, int] | None = None, after: AfterPass | None = None,
            **options) -> Module:
    """Compile a network.

    Parameters
    ----------
    model : an ONNX file, or an imported graph.
    target : ``accel:PRESET``, ``accel:FILE.toml`` or ``cpu``.
    sim : the device behind an accelerator, with its `options`: see `runtime.simulator`.
    integerize : replace dequantize → operator → quantize by integer operators.
    threads : virtual threads of the accelerator's schedules.
    shapes : values of the model's symbolic dimensions.
    after : called with the graph after every pass.
    """
    graph = model if isinstance(model, Graph) else load_model(model, dict(shapes or {}) or None)
    graph = optimize(graph, standard_passes(integerize=integerize), after)
    kind, _, where = target.partition(":")
    if kind == "cpu" and not where:
        return compile_graph(graph, None)
    if kind != "accel" or not where:
        raise TargetError(f"Target must be accel:PRESET, accel:FILE.toml or cpu, not {target!r}")
    machine = Machine(load_config(where))
    return compile_graph(graph, AccelTarget(machine, threads),
                         SimulatedDevice(machine, simulator(sim, **options)))


def compile_graph(graph: Graph, accel: AccelTarget | None, device: Device | None = None) -> Module:
    """Compile an optimized graph for the host, and an accelerator if there is one."""
    host = CpuTarget()
    parts = partition(graph, lambda node: accel.refusal(graph, node) if accel
                      else "the target is the host")
    steps = []
    for segment in parts.segments:
        part = subgraph(graph, segment)
        if accel and device and segment.target == ACCEL:
            steps.append(Step(segment, AccelSegment(accel.compile(part), device)))
        else:
            steps.append(Step(segment, host.compile(part)))
    return Module(graph, parts, tuple(steps))
