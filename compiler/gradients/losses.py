"""Losses: a network that ends in one number more, which says how far its results are off.

Each takes a network and the name of a result, and gives the network with one input more, what the
result should be, and the loss as the last output.
"""

from collections.abc import Callable

import numpy as np

from compiler.errors import ArgumentError, called_by_name
from compiler.frontend.building.values import Tracer, Value
from compiler.frontend.models import Model, graph_of
from compiler.frontend.onnx.operators.normalization import plain_log_softmax
from compiler.gradients.reverse import GradientRefused
from compiler.graph.graph import Graph, TensorType
from compiler.graph.rewrite import Builder


@called_by_name
def mean_squared_error(model: Model, of: str, target: str = "target", loss: str = "loss") -> Graph:
    """The mean of (result - target)^2 over all elements; `target` has the result's type."""
    def error(result: Value, wanted: Value) -> Value:
        apart = result - wanted
        return (apart * apart).mean(*range(result.rank))

    graph = graph_of(model)
    return _with_loss(graph, of, target, _floats(graph, of), loss, error)


@called_by_name
def cross_entropy(model: Model, of: str, target: str = "labels", loss: str = "loss",
                  smoothing: float = 0.0) -> Graph:
    """The mean of -log(softmax(logits)[label]), with the classes along the last axis of `of`.

    `target` holds int64, a class for each row. A row whose label is no class, such as -1, does not
    count; where none does, the loss is 0. `smoothing` is a part of the label, from 0 to below 1,
    that all classes share.
    """
    def error(logits: Value, labels: Value) -> Value:
        classes = logits.shape[-1]
        own = labels.unsqueeze(-1).equal(logits.tracer.constant(np.arange(classes)))
        own = own.astype(logits.dtype)
        counted = own.sum(logits.rank - 1, keepdims=1)
        shares = own * (1 - smoothing) + counted * (smoothing / classes)
        lost = (counted > 0).where(-plain_log_softmax(logits, logits.rank - 1), 0) * shares
        return lost.sum(*range(logits.rank)) / counted.sum(*range(logits.rank)).maximum(1)

    if not 0 <= smoothing < 1:
        raise ArgumentError(f"smoothing must be from 0 to below 1, not {smoothing!r}")
    graph = graph_of(model)
    logits = _floats(graph, of)
    if not logits.shape:
        raise GradientRefused(f"{graph.name}: {of!r} must have an axis of classes, not {logits}")
    return _with_loss(graph, of, target, TensorType(logits.shape[:-1], "int64"), loss, error)


def _floats(graph: Graph, of: str) -> TensorType:
    """The type of a result, which must be one of float32 or float64."""
    if of not in graph.values:
        raise GradientRefused(f"{graph.name}: of must be a value of the network, not {of!r}; its "
                              f"outputs are {', '.join(graph.outputs)}")
    if graph.values[of].dtype not in ("float32", "float64"):
        raise GradientRefused(f"{graph.name}: of must be float32 or float64, not {of!r}: "
                              f"{graph.values[of]}")
    return graph.values[of]


def _with_loss(graph: Graph, of: str, target: str, wanted: TensorType, loss: str,
               error: Callable[[Value, Value], Value]) -> Graph:
    for role, name in (("target", target), ("loss", loss)):
        if name in graph.values or target == loss:
            raise GradientRefused(f"{graph.name}: {role} must be a new name, not {name!r}")
    tracer = Tracer(Builder.like(graph))
    builder, result = tracer.builder, graph.values[of]
    for node in graph.nodes:
        builder.add(node)
    tracer.current = builder.fresh(f"{loss}.of")
    made = error(Value(tracer, result.shape, result.dtype, of), tracer.input(target, wanted))
    builder.emit("identity", builder.fresh_node(loss), [tracer.enter(made)], loss)
    return builder.finish((*graph.outputs, loss))
