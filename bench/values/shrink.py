"""Makes a model small that shows something: fewer outputs, fewer nodes, smaller extents.

Delta debugging: a smaller model is kept where it still shows the same. An inner value becomes an
input, with the elements that it had, so what made it falls away.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bench.values.reference import evaluated

Array = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A model and its inputs."""

    model: onnx.ModelProto
    inputs: dict[str, Array]

    @property
    def size(self) -> tuple[int, int]:
        return len(self.model.graph.node), sum(array.size for array in self.inputs.values())


Shows = Callable[[Case], bool]


def shrunk(case: Case, shows: Shows, seconds: float = 60.0) -> Case:
    """The smallest case found in the time that still `shows` it."""
    end = time.monotonic() + seconds
    again = True
    while again and time.monotonic() < end:
        again = False
        for step in (_fewer_outputs, _inner_inputs, _without_nodes, _smaller):
            for smaller in step(case):
                if time.monotonic() > end:
                    return case
                if _valid(smaller) and shows(smaller):
                    case, again = smaller, True
                    break
            if again:
                break
    return case


def _valid(case: Case) -> bool:
    try:
        values = evaluated(case.model, case.inputs)
    except Exception:       # noqa: BLE001 - whatever is wrong, it is no model
        return False
    return all(0 < values[name].size for node in case.model.graph.node for name in node.output)


def _fewer_outputs(case: Case) -> Iterator[Case]:
    """With one output, with half of them; else with that of a node before an output."""
    outputs = [output.name for output in case.model.graph.output]
    if len(outputs) > 1:
        for name in outputs:
            yield with_outputs(case, [name])
        for name in outputs:
            yield with_outputs(case, [other for other in outputs if other != name])
        return
    for node in case.model.graph.node:
        if node.output[0] not in outputs:
            yield with_outputs(case, [node.output[0]])


def _inner_inputs(case: Case) -> Iterator[Case]:
    """With an inner value as an input, the last ones first."""
    outputs = {output.name for output in case.model.graph.output}
    inner = [name for node in case.model.graph.node for name in node.output if name not in outputs]
    for name in reversed(inner):
        yield with_outputs(case, list(outputs), [name])


def _without_nodes(case: Case) -> Iterator[Case]:
    """With a node's input in the place of its result, where the types agree."""
    values = _values(case)
    outputs = [output.name for output in case.model.graph.output]
    for place, node in enumerate(case.model.graph.node):
        for name in node.input:
            if name and values[name].dtype == values[node.output[0]].dtype and (
                    node.output[0] not in outputs):
                model = onnx.ModelProto.FromString(case.model.SerializeToString())
                del model.graph.node[place]
                for later in model.graph.node:
                    for position, read in enumerate(later.input):
                        if read == node.output[0]:
                            later.input[position] = name
                yield with_outputs(Case(model, case.inputs), outputs)


def _smaller(case: Case) -> Iterator[Case]:
    """With every extent of a size smaller: in inputs, constants, and constants that are shapes."""
    extents = sorted({extent for array in case.inputs.values() for extent in array.shape
                      if extent > 1}, reverse=True)
    outputs = [output.name for output in case.model.graph.output]
    for extent in extents:
        for smaller in dict.fromkeys((1, extent // 2, extent - 1)):
            if 0 < smaller < extent:
                model = onnx.ModelProto.FromString(case.model.SerializeToString())
                for tensor in model.graph.initializer:
                    array = _cut(numpy_helper.to_array(tensor), extent, smaller)
                    if array.dtype == np.int64 and array.ndim == 1:
                        array = np.where(array == extent, smaller, array)
                    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
                inputs = {name: _cut(array, extent, smaller) for name, array in case.inputs.items()}
                yield with_outputs(Case(model, inputs), outputs)


def _cut(array: Array, extent: int, smaller: int) -> Array:
    return np.ascontiguousarray(array[tuple(slice(smaller) if one == extent else slice(None)
                                            for one in array.shape)])


def _values(case: Case) -> dict[str, Array]:
    return evaluated(case.model, case.inputs)


def with_outputs(case: Case, outputs: list[str], inputs: list[str] | None = None) -> Case:
    """The case with these outputs, and these values as inputs; what nobody reads falls away."""
    try:
        values = _values(case)
    except Exception:       # noqa: BLE001 - whatever is wrong, it is no model
        return case
    known = set(inputs or ())
    needed, nodes = set(outputs), []
    for node in reversed(case.model.graph.node):
        if any(name in needed and name not in known for name in node.output):
            nodes.insert(0, node)
            needed.update(node.input)
    made = {name for node in nodes for name in node.output}
    constants = [tensor for tensor in case.model.graph.initializer if tensor.name in needed]
    names = {tensor.name for tensor in constants}
    given = [name for name in (*case.inputs, *known) if name in needed and name not in made | names
             and name in values]
    graph = helper.make_graph(nodes, "values", [_typed(name, values[name]) for name in given],
                              [_typed(name, values[name]) for name in outputs], constants)
    model = helper.make_model(graph, opset_imports=case.model.opset_import,
                              ir_version=case.model.ir_version)
    return Case(model, {name: values[name] for name in given})


def _typed(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype),
                                         array.shape)
