"""ONNX Runtime as judge, and the layer-by-layer comparison of quantized models with it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import pytest

from compiler.frontend import convert
from compiler.graph import evaluate_node, optimize

Array = np.ndarray


def run_onnx(model: onnx.ModelProto, feeds: Mapping[str, Array],
             extra: tuple[str, ...] = ()) -> dict[str, Array]:
    """Outputs and the extra values of ONNX Runtime, graph optimizations off: fused products of
    uint8 and int8 saturate their sums of two in 16 bits on processors with AVX2 and no VNNI.
    """
    ort = pytest.importorskip("onnxruntime")
    watched = onnx.ModelProto.FromString(model.SerializeToString())
    present = {output.name for output in watched.graph.output}
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in extra
                                if name not in present)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(watched.SerializeToString(), options,
                                   providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


@dataclass(frozen=True)
class Layer:
    """How far an integer layer is from ONNX Runtime when fed with ONNX Runtime's tensors."""

    name: str
    op: str
    largest: int
    equal: float


def stored(name: str, array: Array) -> tuple[str, Array]:
    """The stored form of a value, under the name that it has in a graph of integers."""
    if array.dtype != np.uint8:
        return name, array
    return f"{name}_stored", (array.astype(np.int16) - 128).astype(np.int8)


def compare_layers(model: onnx.ModelProto, feeds: Mapping[str, Array],
                   shapes: Mapping[str, int] | None = None) -> list[Layer]:
    """Each integer layer of the integerized model against ONNX Runtime, graph optimizations off.

    A layer reads what ONNX Runtime computed wherever the value exists there; values that the
    compiler made (a pooled tensor before its dequantization) are computed from such ones, and
    compared where they reach a value that exists.
    """
    graph = optimize(convert(model, shapes=shapes))
    made = tuple(name for node in model.graph.node if node.op_type == "QuantizeLinear"
                 for name in node.output)
    theirs = dict(stored(name, array) for name, array in run_onnx(model, feeds, made).items()
                  if name in made)
    known: dict[str, Array] = {**graph.constants, **feeds}
    layers = []
    for node in graph.nodes:
        value = node.outputs[0]
        ours = evaluate_node(node, [known[name] for name in node.inputs])
        known[value] = theirs.get(value, ours)
        if value in theirs:
            far = np.abs(ours.astype(int) - theirs[value])
            layers.append(Layer(node.name, node.op, int(far.max()), float(np.mean(far == 0))))
    return layers
