"""Small models of operators on quantized tensors, and what the graphs of them compute."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compiler.frontend import convert
from compiler.graph import evaluate, verify
from compiler.graph.passes.pipeline import optimize, standard_passes

Array = np.ndarray
MICROSOFT = "com.microsoft"


def model_of(nodes: onnx.NodeProto | Sequence[onnx.NodeProto], inputs: Mapping[str, Array],
             constants: Mapping[str, Any], opset: int = 17, outputs: Sequence[str] = ("y",),
             domains: Mapping[str, int] | None = None) -> onnx.ModelProto:
    """A model with these nodes, whose inputs have the types of arrays."""
    nodes = [nodes] if isinstance(nodes, onnx.NodeProto) else list(nodes)
    domains = domains or {node.domain: 1 for node in nodes if node.domain}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    imports = [helper.make_opsetid("", opset),
               *(helper.make_opsetid(*domain) for domain in domains.items())]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def values_of(model: onnx.ModelProto, inputs: Mapping[str, Array], integers: bool = False
              ) -> dict[str, Array]:
    """The outputs in float, or by integer forms."""
    graph = optimize(convert(model), standard_passes(integerize=integers))
    return evaluate(verify(graph), inputs)


def operators_of(model: onnx.ModelProto) -> Counter[str]:
    """How often the graph of integers has each operator."""
    return Counter(node.op for node in optimize(convert(model)).nodes)


def saturated(numbers: Array | float, dtype: Any) -> Array:
    """The nearest integers, halves to even, within the type."""
    info = np.iinfo(np.dtype(dtype))
    return np.clip(np.rint(numbers), info.min, info.max).astype(dtype)


def assert_steps(found: Array, wanted: Array, most: int = 1) -> None:
    """The same type and shape, and as many steps apart at most."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    off = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
    assert off.max(initial=0) <= most, f"{off.max()} steps off"
