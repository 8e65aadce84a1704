"""Operations of ML programs that compute each element by itself, and softmax."""

import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.core_ml.registry import operation

UNARY = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "erf": "Erf", "exp": "Exp",
         "sqrt": "Sqrt", "abs": "Abs", "floor": "Floor", "ceil": "Ceil", "round": "Round",
         "sign": "Sign", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos",
         "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "atanh": "Atanh", "logical_not": "Not",
         "softplus": "Softplus", "softsign": "Softsign", "identity": "Identity"}
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "real_div": "Div", "pow": "Pow",
          "maximum": "Max", "minimum": "Min", "equal": "Equal", "less": "Less",
          "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual",
          "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
CASTS = {"fp16": onnx.TensorProto.FLOAT, "fp32": onnx.TensorProto.FLOAT,
         "int32": onnx.TensorProto.INT32, "int16": onnx.TensorProto.INT16,
         "uint16": onnx.TensorProto.UINT16, "int8": onnx.TensorProto.INT8,
         "uint8": onnx.TensorProto.UINT8, "bool": onnx.TensorProto.BOOL}


@operation(*UNARY)
def unary(op):
    return op.node(UNARY[op.type], [op.value("x")])


@operation(*BINARY)
def binary(op):
    return op.node(BINARY[op.type], [op.value("x"), op.value("y")])


@operation("not_equal")
def not_equal(op):
    return op.node("Not", [op.node("Equal", [op.value("x"), op.value("y")])])


@operation("floor_div")
def floor_div(op):
    return op.node("Floor", [op.node("Div", [op.value("x"), op.value("y")])])


@operation("square")
def square(op):
    return op.node("Mul", [op.value("x"), op.value("x")])


@operation("rsqrt", "inverse", "log")
def with_epsilon(op):
    x = op.node("Add", [op.value("x"), op.scalar(op.number(
        "epsilon", {"rsqrt": 1e-12, "inverse": 1e-4, "log": 1e-45}[op.type]))])
    if op.type == "log":
        return op.node("Log", [x])
    return op.node("Reciprocal", [op.node("Sqrt", [x]) if op.type == "rsqrt" else x])


@operation("relu6")
def relu6(op):
    return op.node("Clip", [op.value("x"), op.scalar(0), op.scalar(6)])


@operation("clip")
def clip(op):
    return op.node("Clip", [op.value("x"), op.scalar(op.number("alpha")),
                            op.scalar(op.number("beta"))])


@operation("leaky_relu")
def leaky_relu(op):
    return op.node("LeakyRelu", [op.value("x")], alpha=op.number("alpha", 0.01))


@operation("elu")
def elu(op):
    return op.node("Elu", [op.value("x")], alpha=op.number("alpha", 1.0))


@operation("prelu")
def prelu(op):
    slopes = np.asarray(op.known("alpha"), np.float32).reshape(-1, *[1] * (op.rank("x") - 2))
    return op.node("PRelu", [op.value("x"), op.write.constant(slopes)])


@operation("thresholded_relu")
def thresholded_relu(op):
    x = op.value("x")
    kept = op.node("GreaterOrEqual", [x, op.scalar(op.number("alpha", 1.0))])
    return op.node("Where", [kept, x, op.scalar(0)])


@operation("clamped_relu")
def clamped_relu(op):
    leaky = op.node("LeakyRelu", [op.value("x")], alpha=op.number("alpha"))
    return op.node("Min", [leaky, op.scalar(op.number("beta"))])


@operation("sigmoid_hard")
def sigmoid_hard(op):
    return op.node("HardSigmoid", [op.value("x")], alpha=op.number("alpha", 0.2),
                   beta=op.number("beta", 0.5))


@operation("scaled_tanh")
def scaled_tanh(op):
    inner = op.node("Mul", [op.value("x"), op.scalar(op.number("beta", 1.0))])
    return op.node("Mul", [op.node("Tanh", [inner]), op.scalar(op.number("alpha", 1.0))])


@operation("linear_activation")
def linear_activation(op):
    scaled = op.node("Mul", [op.value("x"), op.scalar(op.number("alpha"))])
    return op.node("Add", [scaled, op.scalar(op.number("beta", 0.0))])


@operation("silu")
def silu(op):
    x = op.value("x")
    return op.node("Mul", [x, op.node("Sigmoid", [x])])


@operation("gelu")
def gelu(op):
    mode, x = op.known("mode", "EXACT"), op.value("x")
    if mode == "SIGMOID_APPROXIMATION":
        inner = op.node("Mul", [x, op.scalar(1.702)])
        return op.node("Mul", [x, op.node("Sigmoid", [inner])])
    return op.node("Gelu", [x], approximate="none" if mode == "EXACT" else "tanh")


@operation("select")
def select(op):
    return op.node("Where", [op.value("cond"), op.value("a"), op.value("b")])


@operation("softmax")
def softmax(op):
    return op.node("Softmax", [op.value("x")], axis=op.integer("axis", -1))


@operation("cast")
def cast(op):
    dtype = op.known("dtype")
    if dtype not in CASTS:
        raise NodeRefused(f"its type must be one of {', '.join(CASTS)}, not {dtype}")
    return op.node("Cast", [op.value("x")], to=CASTS[dtype])
