"""Operations of ML programs that make one element of many, and norms."""

import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.core_ml.registry import operation

REDUCTIONS = {f"reduce_{name}": f"Reduce{op}" for name, op in (
    ("mean", "Mean"), ("sum", "Sum"), ("max", "Max"), ("min", "Min"), ("prod", "Prod"),
    ("l1_norm", "L1"), ("l2_norm", "L2"), ("sum_square", "SumSquare"), ("log_sum", "LogSum"),
    ("log_sum_exp", "LogSumExp"))}


def per_channel(op, name, default, count):
    array = np.asarray(op.known(name, np.full(count, default)), np.float32)
    return op.write.constant(array)


@operation("batch_norm")
def batch_norm(op):
    count = op.shape("mean")[0]
    return op.node("BatchNormalization", [
        op.value("x"), per_channel(op, "gamma", 1, count), per_channel(op, "beta", 0, count),
        per_channel(op, "mean", 0, count), per_channel(op, "variance", 1, count)],
        epsilon=op.number("epsilon", 1e-5))


@operation("instance_norm")
def instance_norm(op):
    count = op.shape("x")[1]
    return op.node("InstanceNormalization", [
        op.value("x"), per_channel(op, "gamma", 1, count), per_channel(op, "beta", 0, count)],
        epsilon=op.number("epsilon", 1e-5))


@operation("layer_norm")
def layer_norm(op):
    rank = op.rank("x")
    axes = sorted(axis % rank for axis in op.integers("axes", list(range(rank))))
    if axes != list(range(rank - len(axes), rank)):
        raise NodeRefused(f"its axes must be the last ones, not {axes}")
    shape = op.shape("x")[axes[0]:]
    gamma, beta = (op.write.constant(np.asarray(
        op.known(name, np.full(shape, default)), np.float32)) for name, default in (
            ("gamma", 1), ("beta", 0)))
    return op.node("LayerNormalization", [op.value("x"), gamma, beta], axis=axes[0] - rank,
                   epsilon=op.number("epsilon", 1e-5))


@operation("local_response_norm")
def local_response_norm(op):
    return op.node("LRN", [op.value("x")], size=op.integer("size"), alpha=op.number("alpha", 1e-4),
                   beta=op.number("beta", 0.75), bias=op.number("k", 1.0))


@operation(*REDUCTIONS)
def reduction(op):
    inputs = [op.value("x")]
    if op.has("axes"):
        inputs.append(op.write.integers(*op.integers("axes")))
    return op.node(REDUCTIONS[op.type], inputs, keepdims=int(op.flag("keep_dims")))


@operation("reduce_argmax", "reduce_argmin")
def argument(op):
    made = op.node("ArgMax" if op.type.endswith("max") else "ArgMin", [op.value("x")],
                   axis=op.integer("axis", -1), keepdims=int(op.flag("keep_dims")))
    return op.node("Cast", [made], to=onnx.TensorProto.INT32)


@operation("topk")
def topk(op):
    values, places = op.write.several(
        "TopK", [op.value("x"), op.write.integers(op.integer("k", 1))], 2,
        axis=op.integer("axis", -1), largest=int(not op.flag("ascending")))
    return [values, op.node("Cast", [places], to=onnx.TensorProto.INT32)]


@operation("cumsum")
def cumsum(op):
    axis = op.write.constant(np.int64(op.integer("axis", 0)))
    return op.node("CumSum", [op.value("x"), axis], exclusive=int(op.flag("exclusive")),
                   reverse=int(op.flag("reverse")))
