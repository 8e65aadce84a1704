"""ONNX's own backend interface, on this computer's processor or GPU, with ONNX's float semantics.

>>> import numpy as np
>>> from onnx import helper
>>> from runtime.driver import onnx_backend
>>> x, y = (helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
>>> graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
>>> model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
>>> onnx_backend.prepare(model, "CPU").run([np.array([-1, 2], np.float32)])[0].tolist()
[0.0, 2.0]

A model becomes a graph, then native code, for the types of its inputs. An input whose elements
determine the graph (the shape of a Reshape, the trip count of a Loop) is *bound*: the code is valid
for these elements, and is compiled again for others. Where computed elements determine it, the
graph is cut: the part before is run to build the part after.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend.building.values import Value, dtype_name
from compiler.frontend.onnx.importing import ImportRefused, check_model
from compiler.frontend.onnx.nodes.importer import Importer, Item
from compiler.graph.division.protocols import HOST
from compiler.graph.graph import DTYPES, Graph, TensorType
from compiler.graph.passes.pipeline import optimize, standard_passes
from runtime.driver.compilation import compile_on
from runtime.devices.device import DeviceMissing
from runtime.driver.targets import TargetError, Targets, request

Inputs = Mapping[str, Any]


def supports_device(device: str) -> bool:
    """CPU, and where this machine has them CUDA and OPENCL; :N behind a name is a GPU's number, and
    CUDA:EMULATED is CUDA on the processor.
    """
    try:
        return _target(device) is not None
    except (DeviceMissing, TargetError):
        return False


def _target(device: str) -> Targets | None:
    """The target of a device, before the processor, which computes what the device cannot; None for
    a name that is no device.
    """
    kind, _, where = device.partition(":")
    if kind.upper() == "CPU":
        return Targets([])
    if kind.upper() not in ("CUDA", "OPENCL"):
        return None
    text = f"{kind.lower()}:{where}" if where else kind.lower()
    return request(f"{text.lower()},cpu").placed(lambda machine: None)


def is_compatible(model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
    """True if `prepare` accepts the model; problems that depend on inputs appear when it is run."""
    try:
        prepare(model, device)
    except ImportRefused:
        return False
    return True


def prepare(model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> "Prepared":
    """Prepares a model to be run. Raises ImportRefused, which says what is wrong with it."""
    targets = _target(device)
    if targets is None:
        raise ImportRefused(f"device must be CPU, CUDA or OPENCL, not {device}")
    check_model(model, model.graph.name or "model")
    return Prepared(model, targets)


def run_model(model: onnx.ModelProto, inputs: Sequence[Any], device: str = "CPU",
              **kwargs: Any) -> tuple[Any, ...]:
    return prepare(model, device).run(inputs)


@dataclass(frozen=True, slots=True)
class _Specialized:
    """Code for inputs of these types and, where they are bound, these elements. `results` are names
    of the segment's outputs, arrays, lists of those, or None. `feeds` are the segment's inputs that
    the bound elements determine.
    """

    types: Mapping[str, Any]
    bound: Mapping[str, np.ndarray]
    segment: "_Code | None"
    feeds: Mapping[str, np.ndarray]
    results: tuple[Any, ...]

    def fits(self, inputs: Inputs) -> bool:
        return self.types == _types(inputs) and all(
            _same(array, _flat(inputs)[name]) for name, array in self.bound.items())

    def __call__(self, inputs: Inputs) -> tuple[Any, ...]:
        known = {**self.feeds, **_flat(inputs)}
        computed = {} if self.segment is None else self.segment(
            {name: known[name] for name in self.segment.graph.inputs})
        return tuple(_filled(result, computed) for result in self.results)


class Prepared:
    """A model that can run any number of times. Inputs and results are in the model's order."""

    def __init__(self, model: onnx.ModelProto, targets: Targets):
        self.model, self.targets = model, targets
        known = {tensor.name for tensor in model.graph.initializer}
        self.names = [value.name for value in model.graph.input if value.name not in known]
        self._made: list[_Specialized] = []

    def run(self, inputs: Sequence[Any] | Inputs, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model on arrays and returns arrays; a sequence is a list of arrays, an empty
        optional None.
        """
        if not isinstance(inputs, Mapping):
            if len(inputs) > len(self.names):
                raise ImportRefused(f"inputs must be {len(self.names)}, not {len(inputs)}")
            inputs = dict(zip(self.names, inputs, strict=False))
        given = {name: _array(inputs.get(name)) for name in self.names}
        known = next((specialized for specialized in self._made if specialized.fits(given)), None)
        if known is not None:
            return known(given)
        specialized, lasting = self._specialize(given)
        if lasting:
            self._made.append(specialized)
        return specialized(given)

    def _specialize(self, inputs: Inputs) -> tuple[_Specialized, bool]:
        """Compiles code for these inputs; also returns whether it is valid for others of the same
        types.
        """
        importer = Importer(self.model, self.model.graph.name or "model", self._run)
        importer.define_initializers(self.model.graph)
        for name, given in inputs.items():
            importer.names[name] = _item(importer, name, given)
        for index, proto in enumerate(self.model.graph.node):
            importer.add(proto, index)
            if importer.refusals:
                raise ImportRefused(f"{importer.builder.name}: cannot run "
                                    f"{'; '.join(importer.refusals)}")
        outputs: dict[str, None] = {}
        results = tuple(_result(importer, importer.names[value.name], outputs)
                        for value in self.model.graph.output)
        segment = None
        if outputs:
            graph = optimize(importer.builder.finish(outputs), standard_passes(integerize=False))
            segment = self._compiled(graph)
        given = _flat(inputs)
        feeds = {name: array for name, array in importer.feeds.items() if name not in given}
        return (_Specialized(_types(inputs), importer.bound, segment, feeds, results),
                not importer.staged)

    def _run(self, graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(self._compiled(graph)(feeds))

    def _compiled(self, graph: Graph) -> "_Code":
        if self.targets.names == (HOST,):
            return CpuTarget().compile(graph)
        return compile_on(graph, self.targets, integerize=False, cache=False)


class _Code(Protocol):
    """A graph, ready to be computed."""

    @property
    def graph(self) -> Graph: ...

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]: ...


def _array(given: Any) -> Any:
    if given is None or isinstance(given, list | tuple):
        return None if given is None else [_array(element) for element in given]
    array = np.asarray(given)
    return array.astype(object) if array.dtype.kind in "SU" else array


def _item(importer: Importer, name: str, given: Any) -> Item:
    """The importer's item for an input; tensors without elements, and those of types that no
    processor has, are bound.
    """
    if given is None:
        return None
    if isinstance(given, list):
        return [_item(importer, f"{name}.{place}", element) for place, element in enumerate(given)]
    if given.size and dtype_name(given.dtype) in DTYPES:
        return importer.input(name, TensorType.of(given), given)
    importer.bound[name] = given
    return importer.constant(given, name, given=True)


def _result(importer: Importer, item: Item, outputs: dict[str, None]) -> Any:
    if isinstance(item, list):
        return [_result(importer, element, outputs) for element in item]
    if not isinstance(item, Value):
        return None
    if item.array is not None:
        return item.array
    outputs[item.name or ""] = None
    return item.name


def _filled(result: Any, computed: Mapping[str, np.ndarray]) -> Any:
    if isinstance(result, list):
        return [_filled(element, computed) for element in result]
    return computed[result] if isinstance(result, str) else result


def _flat(inputs: Inputs) -> dict[str, np.ndarray]:
    """Arrays by the names that `_item` gives them."""
    flat: dict[str, np.ndarray] = {}
    for name, given in inputs.items():
        if isinstance(given, list):
            flat |= _flat({f"{name}.{place}": element for place, element in enumerate(given)})
        elif given is not None:
            flat[name] = given
    return flat


def _types(inputs: Inputs) -> dict[str, Any]:
    return {name: _type(given) for name, given in inputs.items()}


def _type(given: Any) -> Any:
    if isinstance(given, list):
        return [_type(element) for element in given]
    return None if given is None else (given.shape, given.dtype)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes() if a.dtype.kind != "O" else bool(np.all(a == b))


