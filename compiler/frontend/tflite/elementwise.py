"""Operators that compute each element by itself, and the activations that others end with."""

import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.tflite.registry import operator
from compiler.ops.integers import litert

NONE, RELU, RELU_N1_TO_1, RELU6, TANH = range(5)

UNARY = {"RELU": "Relu", "LOGISTIC": "Sigmoid", "TANH": "Tanh", "HARD_SWISH": "HardSwish",
         "ELU": "Elu", "ABS": "Abs", "NEG": "Neg", "EXP": "Exp", "LOG": "Log", "SQRT": "Sqrt",
         "SIN": "Sin", "COS": "Cos", "FLOOR": "Floor", "CEIL": "Ceil", "ROUND": "Round",
         "SIGN": "Sign", "LOGICAL_NOT": "Not"}
BINARY = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "POW": "Pow"}
TWO = {"MAXIMUM": "Max", "MINIMUM": "Min", "EQUAL": "Equal", "LESS": "Less",
       "LESS_EQUAL": "LessOrEqual", "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual",
       "LOGICAL_AND": "And", "LOGICAL_OR": "Or", "BITWISE_XOR": "BitwiseXor"}
COMPARED = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
CLAMPS = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}


def activated(c, op, made):
    """The result, with the activation that the operator ends with."""
    match op.option("FusedActivationFunction"):
        case 0: return made
        case 1: return c.write.node("Relu", [made])
        case 2: return clamped(c, made, -1, 1)
        case 3: return clamped(c, made, 0, 6)
        case 4: return c.write.node("Tanh", [made])
    raise NodeRefused(f"its activation must be none, relu, relu6, relu of -1 to 1 or tanh, not "
                      f"number {op.option('FusedActivationFunction')}")


def clamped(c, made, low, high):
    return c.write.node("Clip", [made, c.write.constant(np.float32(low)),
                                 c.write.constant(np.float32(high))])


@operator(*UNARY)
def unary(c, op):
    first = c.is_first(op.input(0))
    c.define(op.outputs[0], c.write.node(UNARY[op.code], [c.real(op.input(0), first)]), first)


@operator(*CLAMPS)
def clamp(c, op):
    first = c.is_first(op.input(0))
    c.define(op.outputs[0], clamped(c, c.real(op.input(0), first), *CLAMPS[op.code]), first)


@operator(*BINARY, *TWO)
def binary(c, op):
    first, sides = operands(c, op)
    made = c.write.node((BINARY | TWO)[op.code], sides)
    c.define(op.outputs[0], activated(c, op, made) if op.code in BINARY and op.code != "POW"
             else made, first)


def operands(c, op):
    """The form that they have in common, and their names."""
    first, tables = c.is_first(*op.inputs), _compared(c, op)
    if tables is None:
        return first, [c.real(place, first) for place in op.inputs]
    return first, [_looked_up(c, place, first, table) for place, table in zip(op.inputs, tables)]


def _compared(c, op):
    """The number that LiteRT compares of each byte of two quantized tensors; None where the numbers
    compare alike, or its kernel does not take the scales.
    """
    tensors = [c.tensor(place) for place in op.inputs]
    if op.code not in COMPARED or not all(
            c.is_quantized(place) and tensor.dtype.itemsize == 1 and tensor.quantization.per_tensor
            for place, tensor in zip(op.inputs, tensors)):
        return None
    parameters = [(tensor.dtype, float(tensor.quantization.scale[0]),
                   int(tensor.quantization.zero[0])) for tensor in tensors]
    if not all(scale < 1 for _, scale, _ in parameters):
        return None
    tables = [litert.compared(np.arange(256, dtype=np.uint8).view(dtype).astype(np.int64) - zero,
                              scale) for dtype, scale, zero in parameters]
    alike = parameters[0] == parameters[1] and len(np.unique(tables[0])) == 256
    return None if alike else tables


def _looked_up(c, place, first, table):
    """The entry of each byte; those of negative ones stand at the end."""
    numbers = c.write.node("Cast", [c.value(place, first)], to=onnx.TensorProto.INT32)
    return c.write.node("Gather", [c.write.constant(table.astype(np.int32)), numbers], axis=0)


@operator("NOT_EQUAL")
def not_equal(c, op):
    first, sides = operands(c, op)
    c.define(op.outputs[0], c.write.node("Not", [c.write.node("Equal", sides)]), first)


@operator("ADD_N")
def add_n(c, op):
    first, sides = operands(c, op)
    c.define(op.outputs[0], c.write.node("Sum", sides), first)


@operator("SQUARED_DIFFERENCE")
def squared_difference(c, op):
    first, sides = operands(c, op)
    difference = c.write.node("Sub", sides)
    c.define(op.outputs[0], c.write.node("Mul", [difference, difference]), first)


@operator("FLOOR_DIV")
def floor_div(c, op):
    first, sides = operands(c, op)
    if c.tensor(op.input(0)).dtype.kind == "f":
        made = c.write.node("Floor", [c.write.node("Div", sides)])
    else:                                   # ONNX cuts towards 0
        rest = c.write.node("Mod", sides)
        made = c.write.node("Div", [c.write.node("Sub", [sides[0], rest]), sides[1]])
    c.define(op.outputs[0], made, first)


@operator("FLOOR_MOD")
def floor_mod(c, op):
    first, sides = operands(c, op)
    if c.tensor(op.input(0)).dtype.kind != "f":
        made = c.write.node("Mod", sides)
    else:
        whole = c.write.node("Floor", [c.write.node("Div", sides)])
        made = c.write.node("Sub", [sides[0], c.write.node("Mul", [whole, sides[1]])])
    c.define(op.outputs[0], made, first)


@operator("SQUARE")
def square(c, op):
    first = c.is_first(op.input(0))
    x = c.real(op.input(0), first)
    c.define(op.outputs[0], c.write.node("Mul", [x, x]), first)


@operator("RSQRT")
def rsqrt(c, op):
    first = c.is_first(op.input(0))
    root = c.write.node("Sqrt", [c.real(op.input(0), first)])
    c.define(op.outputs[0], c.write.node("Reciprocal", [root]), first)


@operator("GELU")
def gelu(c, op):
    first = c.is_first(op.input(0))
    how = "tanh" if op.option("Approximate") else "none"
    c.define(op.outputs[0], c.write.node("Gelu", [c.real(op.input(0), first)], approximate=how),
             first)


@operator("LEAKY_RELU")
def leaky_relu(c, op):
    first = c.is_first(op.input(0))
    c.define(op.outputs[0], c.write.node("LeakyRelu", [c.real(op.input(0), first)],
                                         alpha=op.option("Alpha")), first)


@operator("PRELU")
def prelu(c, op):
    first, sides = operands(c, op)
    c.define(op.outputs[0], c.write.node("PRelu", sides), first)


@operator("SELECT", "SELECT_V2")
def select(c, op):
    first = c.is_first(*op.inputs)
    if op.code == "SELECT" and c.rank(op.input(0)) < c.rank(op.input(1)) > 1:
        raise NodeRefused("its condition must have the rank of its operands")
    c.define(op.outputs[0], c.write.node("Where", [c.value(op.input(0), first), *(
        c.real(place, first) for place in op.inputs[1:])]), first)


@operator("SOFTMAX")
def softmax(c, op):
    x, beta = c.real(op.input(0)), op.option("Beta", 1.0)
    if beta != 1:
        x = c.write.node("Mul", [x, c.write.constant(np.float32(beta))])
    c.define(op.outputs[0], c.write.node("Softmax", [x], axis=-1))


@operator("LOG_SOFTMAX")
def log_softmax(c, op):
    c.define(op.outputs[0], c.write.node("LogSoftmax", [c.real(op.input(0))], axis=-1))


@operator("L2_NORMALIZATION")
def l2_normalization(c, op):
    """x over the root of its sum of squares, which is at least 1e-6."""
    x = c.real(op.input(0))
    squares = c.write.node("ReduceSumSquare", [x, c.write.integers(-1)], keepdims=1)
    least = c.write.node("Max", [squares, c.write.constant(np.float32(1e-6))])
    made = c.write.node("Div", [x, c.write.node("Sqrt", [least])])
    c.define(op.outputs[0], activated(c, op, made))


@operator("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(c, op):
    """TensorFlow's alpha counts each square, ONNX's their mean."""
    size = 2 * op.option("Radius") + 1
    made = c.write.node("LRN", [c.real(op.input(0), True)], size=size,
                        alpha=op.option("Alpha") * size, beta=op.option("Beta"),
                        bias=op.option("Bias"))
    c.define(op.outputs[0], made, True)


@operator("QUANTIZE")
def quantize(c, op):
    first = c.is_first(op.input(0))
    c.define(op.outputs[0], c.real(op.input(0), first), first)


@operator("DEQUANTIZE")
def dequantize(c, op):
    array = c.array(op.input(0))
    if array is not None and not c.is_quantized(op.input(0)):       # weights of float16
        c.constants[op.outputs[0]] = array.astype(c.tensor(op.outputs[0]).dtype)
        return
    first = c.is_first(op.input(0))
    c.define(op.outputs[0], c.real(op.input(0), first), first)
