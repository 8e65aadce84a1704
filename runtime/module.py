"""Compiled networks: segments on their devices, and the executor that runs them in order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from os import PathLike
from typing import Any

import numpy as np

from accel.machine.machine import Machine
from accel.machine.status import Run
from compiler.cpu_gpu_backends.gpu.segment import GpuSegment
from compiler.dlpack import shared
from compiler import notebook
from compiler.errors import ArgumentError, Error
from compiler.graph.graph import Graph
from compiler.graph.division.partition import Partition, Segment
from compiler.graph.division.protocols import Compiled, Executable, Outcome, Row
from compiler.te import numpy_dtype
from runtime.artifact import save
from runtime.executor import overlaps, run_all
from runtime.exporting.export import ExportedFiles, export
from runtime.exporting.scales import Scales, scales_of
from runtime.exporting.ports import NetworkPort, inputs_of, outputs_of, random_inputs
from runtime.pricing.timing import Spread, spread

DLPACK_CPU = 1              # a type of device
_NONE = object()            # no argument

Values = dict[str, np.ndarray]
Settings = Mapping[str, int | bool]
"""The options that a network was compiled with, by name."""


class InputError(Error, ValueError):
    """An input whose name, shape or type the network does not take."""


@dataclass(frozen=True)
class Step:
    """A segment of the partition, its compiled form, and that form on its device."""

    segment: Segment
    compiled: Compiled
    execute: Executable


Perform = Callable[[Step, Values], Outcome]
"""Executes a step on its inputs."""


class Module:
    """A compiled network.

    A call takes inputs and returns outputs by name; several threads may call at once. `run` does
    the same with the inputs that were set, keeps the outputs, and returns the run of each segment
    of the accelerator in order. Segments of host and accelerator run at the same time where the
    data allow. Values are those of the network: logical shapes, the types of its own inputs and
    outputs. `auto` has the figures by which the target `auto` decided, as plain data
    (`runtime.driver.auto.Choice.figures`); it is None for other targets. `layout` has those of the
    layout pass (`compiler.graph.division.layout.Layout.figures`), whose graph and partition these
    are.
    `scales` are those that inputs and outputs had when the network was imported; by default those
    that the graph still tells.
    """

    def __init__(self, graph: Graph, partition: Partition, steps: tuple[Step, ...],
                 settings: Settings | None = None, auto: Mapping[str, Any] | None = None,
                 layout: Mapping[str, Any] | None = None, scales: Scales | None = None):
        self.graph, self.partition, self.steps = graph, partition, steps
        self.settings, self.auto, self.layout = dict(settings or {}), auto, layout
        self.scales = scales_of(graph) if scales is None else scales
        self._inputs: Values = {}
        self._outputs: Values = {}

    def __repr__(self) -> str:
        ends = (", ".join(str(port).partition(", scale")[0] for port in ports)
                for ports in (self.inputs, self.outputs))
        on: dict[str, int] = {}
        for segment in self.partition.segments:
            on[segment.target] = on.get(segment.target, 0) + len(segment.nodes)
        where = ", ".join(f"{count} operators on {target}" for target, count in on.items())
        return f"<Module {' -> '.join(ends)}; {where or 'no operators'}>"

    def _repr_html_(self) -> str:
        """The inputs and outputs, and the segments in order, as tables."""
        ports = [(kind, str(port)) for kind, ports in (("input", self.inputs),
                                                       ("output", self.outputs))
                 for port in ports]
        segments = [(step.segment.target, len(step.segment.nodes),
                     program.count if (program := step.execute.program) is not None else 0,
                     ", ".join(dict.fromkeys(node.op for node in step.segment.nodes)))
                    for step in self.steps]
        return notebook.table("Module", ["", "value"], ports) + notebook.table(
            "Segments", ["target", "operators", "instructions", "kinds"], segments)

    @property
    def inputs(self) -> tuple[NetworkPort, ...]:
        """The network's inputs, in order: name, shape, type, and scale where it is quantized."""
        return inputs_of(self.graph)

    @property
    def outputs(self) -> tuple[NetworkPort, ...]:
        """The network's outputs, in order."""
        return outputs_of(self.graph)

    @property
    def accelerated(self) -> tuple[Executable, ...]:
        """The segments that are programs, in order of execution."""
        return tuple(step.execute for step in self.steps if step.execute.program is not None)

    @property
    def machine(self) -> Machine | None:
        """The machine of the (first) accelerator; None where the host computes everything."""
        return next((segment.device.machine for segment in self.accelerated), None)

    @property
    def device_bytes(self) -> dict[str, int]:
        """The bytes that the segments of each GPU take of its memory, by target: weights, inputs,
        outputs, and a block for what is computed on the way. They take it by their first call.
        """
        total: dict[str, int] = {}
        for step in self.steps:
            if isinstance(step.compiled, GpuSegment):
                target = step.segment.target
                total[target] = total.get(target, 0) + step.compiled.device_bytes
        return total

    @property
    def host_weight_bytes(self) -> int:
        """The bytes of constants as kernels read them, of segments that say so: `weight_bytes`."""
        return sum(getattr(step.compiled, "weight_bytes", 0) for step in self.steps)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the module as one file, which `runtime.load` reads: see `runtime.artifact`. Raises
        FileError where it cannot be written.
        """
        save(self, path)

    def export(self, folder: str | PathLike[str], name: str | None = None,
               **options: Any) -> ExportedFiles:
        """Writes the network as a library for C: see `runtime.exporting.export.export`, also for
        the `options`. Raises ExportError where the processor does not compute all of it.
        """
        return export(self, folder, name, **options)

    def use_stream(self, handle: int) -> None:
        """Puts all that the module does on its GPU on an existing stream of CUDA's, by its handle
        (``torch.cuda.Stream.cuda_stream``); the stream must live as long as the module. A call
        still returns when its results are there.
        """
        devices = {id(device): device for step in self.steps
                   if hasattr(device := step.execute.device, "use_stream")}
        if not devices:
            raise ArgumentError("use_stream must be called of a module with a segment on cuda")
        for device in devices.values():
            device.use_stream(handle)

    def set_input(self, name: Any = _NONE, array: Any = None, /, **arrays: Any) -> None:
        """Sets an input to a copy of the array, or several by their names:
        ``set_input("image", array)``, ``set_input(image=array)``. Refuses another name, shape or
        type than the network's, and then sets none.
        """
        if name is _NONE and arrays.keys() == {"name", "array"} and isinstance(arrays["name"], str):
            name, array, arrays = arrays["name"], arrays["array"], {}
        if name is not _NONE:
            self.require_input(name)
            if array is None:                           # set_input("image", array=...)
                array = arrays.pop("array", None)
            if array is None:
                raise InputError(f"set_input must be given an array for {name}")
        given = arrays if name is _NONE else {name: array, **arrays}
        if not given:
            raise InputError("set_input must be given an array for an input")
        self._inputs.update({one: np.array(self._on_host(one, value))
                             for one, value in given.items()})

    def _checked(self, name: str, array: Any) -> Any:
        """`_on_host`; an array of another library on the GPU that has the whole network is a view
        of it there.
        """
        if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack_device__") or (
                int(array.__dlpack_device__()[0]) == DLPACK_CPU):
            return self._on_host(name, array)
        self.require_input(name)
        device = self.steps[0].execute.device if len(self.steps) == 1 else None
        if device is None or not hasattr(device, "imported"):
            raise InputError(f"Input {name} must be an array in the host's memory, unless the "
                             f"whole network is one segment on cuda")
        try:
            view = device.imported(array)
        except ValueError as error:
            raise InputError(f"Input {name} cannot be taken as it is: {error}") from None
        self.require_input(name, view.shape, view.dtype)
        if device.address_of(view) is None:
            raise InputError(f"Input {name} must begin at a multiple of 16 bytes")
        return view

    def _on_host(self, name: str, array: Any) -> np.ndarray:
        """The array itself, or memory that another library shares through DLPack, if it is dense;
        else a copy.
        """
        if type(array) is not np.ndarray:
            self.require_input(name)
            try:
                foreign = hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray)
                array = np.from_dlpack(array) if foreign else np.asarray(array)
            except (BufferError, RuntimeError, ValueError) as error:
                raise InputError(f"Input {name} must be an array in the host's memory: "
                                 f"{error}") from None
        self.require_input(name, array.shape, array.dtype)
        if array.dtype.type is np.void:
            array = array.view(numpy_dtype(self.graph.values[name].dtype))
        return array if array.flags.c_contiguous else np.require(array, requirements="C")

    def require_input(self, name: str, shape: Sequence[int] | None = None,
                      dtype: np.dtype | None = None) -> None:
        """Refuses what `set_input` refuses, without the array; a part that is None is not checked.
        """
        if name not in self.graph.inputs:
            raise InputError(f"Input must be one of {', '.join(self.graph.inputs)}, not {name!r}")
        wanted = self.graph.values[name]
        if shape is None or dtype is None:
            return
        fits = dtype == numpy_dtype(wanted.dtype) or _is_nameless(dtype, numpy_dtype(wanted.dtype))
        if tuple(shape) != wanted.shape or not fits:
            raise InputError(f"Input {name} must be {wanted.dtype} of shape {wanted.shape}, not "
                             f"{dtype} of shape {tuple(shape)}")

    def __call__(self, inputs: Mapping[str, Any]) -> Values:
        """Runs one inference and returns its outputs by name; copies no input. Refuses what
        `set_input` does, and missing inputs. Arrays of other libraries on the GPU are taken as they
        are where the whole network is one segment on cuda, and then the outputs stay there: objects
        with ``__dlpack__``.
        """
        return self.run_many([inputs])[0]

    def profile(self, inputs: Mapping[str, Any]) -> list[Row]:
        """Profiles one inference: a row for each group of operators computed together, in order of
        execution: `name` and `op` of its operators, `device` (the target), `seconds`, `cycles`.

        On the host, seconds are measured in this call; a first run may take longer than later ones.
        On the accelerator they are its cycles at the machine's clock, both 0 where the device
        counts none. Each of its segments has one more row, for the time after its last layer. A
        value whose layout changes while it is copied has a row of the host, with `op` relayout.
        """
        rows: list[Row] = []

        def perform(step: Step, given: Values) -> Outcome:
            outcome, step_rows = step.execute.profile(given)
            rows.extend({"device": step.segment.target, **row} for row in step_rows)
            return outcome

        self.perform(inputs, perform)
        return rows

    def run_many(self, inputs: Sequence[Mapping[str, Any]]) -> list[Values]:
        """Runs many inferences; returns the outputs by name for each of the inputs, in order. While
        the accelerator computes one inference, the host computes another.
        """
        if isinstance(inputs, Mapping) or not isinstance(inputs, Sequence):
            raise InputError(f"Inputs of many runs must be a list of mappings, not "
                             f"{type(inputs).__name__}")
        return [outputs for outputs, _ in self._execute(inputs)]

    def run(self) -> tuple[Run, ...]:
        ((self._outputs, runs),) = self._execute([self._inputs])
        return runs

    def perform(self, inputs: Mapping[str, Any], perform: Perform) -> Values:
        """The outputs of an inference in which `perform` executes each step, one after the other.
        """
        values = self._complete(inputs)
        for step in self.steps:
            given = {name: values[name] for name in step.segment.inputs}
            values.update(perform(step, given).values)
        return self._made(values)

    def _complete(self, inputs: Mapping[str, Any]) -> Values:
        if not isinstance(inputs, Mapping):
            raise InputError(f"Inputs must be a mapping of names to arrays, not "
                             f"{type(inputs).__name__}")
        values = {name: self._checked(name, array) for name, array in inputs.items()}
        missing = [name for name in self.graph.inputs if name not in inputs]
        if missing:
            raise InputError(f"Input {missing[0]} must be set before the network runs")
        return values

    def _made(self, values: Values) -> Values:
        return {name: values[name] if name in values else self.graph.constants[name]
                for name in self.graph.outputs}

    def _execute(self, inputs: Sequence[Mapping[str, Any]]) -> list[tuple[Values, tuple[Run, ...]]]:
        """Returns the outputs, and the accelerator's runs, for each of the inputs."""
        segments = [step.segment for step in self.steps]
        if len(inputs) > 1 or len(segments) > 1 and overlaps(segments):
            inferences = run_all(segments, self._performed,
                                 [self._complete(values) for values in inputs],
                                 self.graph.outputs)
            return [(self._made(inference.values),
                     tuple(run for _, run in sorted(inference.rows.items()) if run is not None))
                    for inference in inferences]
        return [self._in_order(values) for values in inputs]

    def _performed(self, place: int, given: Mapping[str, np.ndarray]
                   ) -> tuple[Mapping[str, np.ndarray], Any]:
        outcome = self.steps[place].execute(given)
        return outcome.values, outcome.run

    def _in_order(self, inputs: Mapping[str, Any]) -> tuple[Values, tuple[Run, ...]]:
        runs: list[Run] = []

        def perform(step: Step, given: Values) -> Outcome:
            outcome = step.execute(given)
            runs.extend([] if outcome.run is None else [outcome.run])
            return outcome

        return self.perform(inputs, perform), tuple(runs)

    def get_output(self, name: str | int, out: Any = None) -> np.ndarray:
        """An output of the last `run`, by name or by its place in `outputs`.

        With `out` its elements are copied into that array, of NumPy or of a library that shares its
        memory through DLPack, and the array is returned. Refuses another shape or type.
        """
        if not isinstance(name, str):
            name = self._output_at(name)
        if name not in self._outputs:
            raise InputError(f"Output must be one of {', '.join(self.graph.outputs)}, and the "
                             f"network must have run, not {name!r}")
        value = self._outputs[name]
        if out is None:
            return value
        try:
            place = shared("out", out)
        except ValueError as error:
            raise InputError(f"Output {name} cannot be copied: {error}") from None
        if place.shape != value.shape or place.dtype != value.dtype:
            raise InputError(f"Output {name} must be copied into {value.dtype} of shape "
                             f"{value.shape}, not {place.dtype} of shape {place.shape}")
        if not place.flags.writeable:
            raise InputError(f"Output {name} must be copied into an array that is writeable")
        np.copyto(place, value)
        return out

    def _output_at(self, place: Any) -> str:
        count = len(self.graph.outputs)
        try:
            number = index(place)
        except TypeError:
            number = -1
        if isinstance(place, bool) or not 0 <= number < count:
            raise InputError(f"Output must be a name or 0 to {count - 1}, not {place!r}")
        return self.graph.outputs[number]

    def time(self, inputs: Mapping[str, Any] | None = None, *, runs: int = 20, seed: int = 0
             ) -> Spread:
        """Times inferences of the whole module: median and quartiles, wall-clock seconds each.

        `inputs` are those of a call; without them they are random, of the same seed the same. Calls
        come before the `runs` that are counted, so that code and data are in the caches; very short
        inferences are repeated within a run. A simulated accelerator takes the time of its
        simulator: `profile` has its own. Raises InputError, and ArgumentError for other numbers.
        """
        for name, value, least in (("runs", runs, 1), ("seed", seed, 0)):
            if type(value) is not int or value < least:
                raise ArgumentError(f"{name} must be an integer of {least} or more, not {value!r}")
        given = random_inputs(self.graph, seed) if inputs is None else inputs
        return spread(lambda: self(given), runs)


def _is_nameless(dtype: np.dtype, wanted: np.dtype) -> bool:
    """True for bytes of a type of ml_dtypes that were read from a file, which names no such."""
    return (dtype.type is np.void and dtype.names is None and wanted.isbuiltin == 2
            and dtype.itemsize == wanted.itemsize)
