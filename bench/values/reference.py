"""Computes single nodes by ONNX's reference implementation, corrected where it is wrong."""

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import RuntimeContextError
from onnx.reference.ops import load_op

from bench.values import corrections
from bench.values.corrections import CONTEXT, OPSET

Array = np.ndarray


def computed(node: onnx.NodeProto, arrays: Sequence[Array | None],
             opset: int = OPSET) -> tuple[Array, ...]:
    """The node's outputs for these inputs; None stands for an input that is absent."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        own = corrections.OPERATORS.get(node.op_type)
        found = own(node, arrays) if own else None
        if found is None:
            found = _run(node, arrays, opset)
    return tuple(corrections.of_type(node, arrays, found))


def _run(node: onnx.NodeProto, arrays: Sequence[Array | None], opset: int) -> Sequence[Any]:
    operator = _operator(node.SerializeToString(), opset)
    if operator is not None:
        return operator.run(*arrays)
    present = [(name, array) for name, array in zip(node.input, arrays, strict=True) if name]
    typed = {name: (helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in present if array is not None}
    whole = _alone(node.SerializeToString(), tuple(typed.items()), opset)
    return list(whole.run(None, dict(present)))


@lru_cache(256)
def _operator(node: bytes, opset: int) -> Any:
    """The implementation of a node that has one; None for those that ONNX gives a body."""
    proto = onnx.NodeProto.FromString(node)
    for version in (opset, OPSET):      # some have no implementation of older versions
        try:
            context = CONTEXT | {"opsets": {proto.domain: version}}
            return load_op(proto.domain, proto.op_type, version)(proto, context)
        except (RuntimeContextError, AssertionError, TypeError):
            return None
        except RuntimeError:
            continue
    return None


@lru_cache(256)
def _alone(proto: bytes, typed: tuple[tuple[str, tuple[int, tuple[int, ...]]], ...],
           opset: int) -> ReferenceEvaluator:
    """The evaluator of a model of one node."""
    node = onnx.NodeProto.FromString(proto)
    inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in typed]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return ReferenceEvaluator(onnx.shape_inference.infer_shapes(model))


def evaluated(model: onnx.ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    """Every value of the model by its name."""
    opset = next(one.version for one in model.opset_import if one.domain == "")
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    known.update(inputs)
    for node in model.graph.node:
        arrays = computed(node, [known[name] if name else None for name in node.input], opset)
        known.update(zip(node.output, arrays, strict=False))
    return known
