"""The type rule of every operator, and what it refuses."""

import numpy as np
import pytest

from compiler.graph import Node, TensorType, TypeRefused, infer

F, Q, U, I = "float32", "int8", "uint8", "int32"
CLAMP = {"zp": 0, "lo": -128, "hi": 127}
ONE = {"bias": 0, "mult": 2**15, "shift": 15, **CLAMP}
WINDOW = {"strides": (2, 1), "pads": (1, 0, 2, 3)}
ADD = {"ma": 1, "mb": 65535, "c": 0, "shift": 15, **CLAMP}
AVERAGE = {"kernel": (3, 4), **WINDOW, "pad_value": 0, "bias": 0, **CLAMP}
CONCAT = {"bias": (0, 1), "mult": (0, 2**15), "shift": (0, 46), **CLAMP}
QCONV = {**WINDOW, "pad_value": 0, **CLAMP}


def types(*texts: tuple) -> list[TensorType]:
    return [TensorType(shape, dtype) for dtype, *shape in ((t[0], *t[1:]) for t in texts)
            for shape in [tuple(shape)]]


def typed(op: str, inputs: list[TensorType], attrs: dict) -> TensorType:
    names = tuple("abcde"[:len(inputs)])
    return infer(Node(op, "n", names, ("y",), attrs), inputs)


X, W = (F, 2, 3, 7, 9), (F, 5, 3, 3, 2)
QX, QW, VECTOR = (Q, 2, 3, 7, 9), (Q, 5, 3, 3, 2), (I, 5)

ACCEPTED = [
    ("conv2d", [X, W], WINDOW, (F, 2, 5, 4, 11)),
    ("conv2d", [X, W, (F, 5)], WINDOW, (F, 2, 5, 4, 11)),
    ("conv2d", [(F, 2, 6, 7, 9), (F, 4, 3, 3, 2)], {**WINDOW, "group": 2, "dilations": (2, 3)},
     (F, 2, 4, 3, 9)),
    ("convtranspose2d", [(F, 2, 6, 7, 9), (F, 6, 4, 3, 2), (F, 8)], {
        **WINDOW, "group": 2, "dilations": (1, 3), "output_padding": (1, 0)}, (F, 2, 8, 13, 9)),
    ("qconvtranspose2d", [(Q, 2, 3, 7, 9), (Q, 5, 3, 3, 2), VECTOR, VECTOR, VECTOR], QCONV,
     (Q, 2, 5, 12, 7)),
    ("dense", [(F, 2, 3), (F, 5, 3)], {"trans_b": 1}, (F, 2, 5)),
    ("dense", [(F, 2, 3), (F, 3, 5), (F, 1, 5)], {"trans_b": 0}, (F, 2, 5)),
    ("matmul", [(F, 4, 1, 2, 3), (F, 6, 3, 5)], {}, (F, 4, 6, 2, 5)),
    ("relu", [X], {}, X),
    ("clip", [X], {"lo": 0.0, "hi": 6.0}, X),
    ("leakyrelu", [X], {"alpha": 0.1}, X),
    ("qleakyrelu", [QX], {**ONE, "mult_below": 2**15, "shift_below": 15}, QX),
    ("identity", [(U, 3)], {}, (U, 3)),
    ("maxpool", [X], {"kernel": (3, 4), **WINDOW}, (F, 2, 3, 4, 9)),
    ("maxpool", [(U, 1, 1, 4, 4)], {"kernel": (2, 2), "strides": (2, 2), "pads": (0,) * 4},
     (U, 1, 1, 2, 2)),
    ("globalavgpool", [X], {}, (F, 2, 3, 1, 1)),
    ("avgpool", [X], {"kernel": (3, 4), "include_pad": 1, **WINDOW}, (F, 2, 3, 4, 9)),
    ("add", [(F, 2, 1, 3), (F, 4, 1)], {}, (F, 2, 4, 3)),
    ("concat", [(F, 2, 3), (F, 2, 1)], {"axis": 1}, (F, 2, 4)),
    ("upsample", [QX], {"factors": (2, 3)}, (Q, 2, 3, 14, 27)),
    ("slice", [(I, 5, 9)], {"begin": (1, 0), "end": (4, 9), "step": (1, 4)}, (I, 3, 3)),
    ("concat", [(I, 3)], {"axis": 0}, (I, 3)),
    ("qconcat", [(Q, 2, 3, 7, 9), (Q, 2, 4, 7, 9)], CONCAT, (Q, 2, 7, 7, 9)),
    ("reshape", [(Q, 2, 3)], {"shape": (6, 1)}, (Q, 6, 1)),
    ("quantizelinear", [(F, 2, 3), (F,), (U,)], {"axis": 0}, (U, 2, 3)),
    ("quantizelinear", [(F, 2, 3), (F, 3), (Q, 3)], {"axis": 1}, (Q, 2, 3)),
    ("dequantizelinear", [(I, 2, 3), (F, 2), (I, 2)], {"axis": 0}, (F, 2, 3)),
    ("qconv2d", [QX, QW, VECTOR, VECTOR, VECTOR], QCONV, (Q, 2, 5, 4, 11)),
    ("qdense", [(Q, 2, 3), (Q, 5, 3), VECTOR, VECTOR, VECTOR], CLAMP, (Q, 2, 5)),
    ("qadd", [QX, QX], ADD, QX),
    ("qmaxpool", [QX], {"kernel": (3, 4), **WINDOW}, (Q, 2, 3, 4, 9)),
    ("qglobalavgpool", [QX], ONE, (Q, 2, 3, 1, 1)),
    ("qavgpool", [QX, (I, 4, 9), (I, 4, 9)], AVERAGE, (Q, 2, 3, 4, 9)),
    ("qavgpool", [QX, (I, 1, 1), (I, 1, 1)], AVERAGE, (Q, 2, 3, 4, 9)),
    ("qrescale", [QX], ONE, QX),
    ("qmatmul", [(Q, 2, 3), (Q, 3, 5)], {**ONE, "trans_b": 0}, (Q, 2, 5)),
    ("qmatmul", [(Q, 4, 1, 2, 3), (Q, 6, 5, 3)], {**ONE, "trans_b": 1}, (Q, 4, 6, 2, 5)),
    ("quantize", [X], {"scale": 0.5, "zp": -128}, QX),
    ("dequantize", [QX], {"scale": 0.5, "zp": -128}, X),
    ("to_int8", [(U, 3)], {}, (Q, 3)),
    ("to_uint8", [(Q, 3)], {}, (U, 3)),
]


@pytest.mark.parametrize(("op", "inputs", "attrs", "made"), ACCEPTED,
                         ids=[f"{i}-{row[0]}" for i, row in enumerate(ACCEPTED)])
def test_type(op: str, inputs: list, attrs: dict, made: tuple) -> None:
    assert typed(op, types(*inputs), attrs) == types(made)[0]


REFUSED = [
    ("conv2d", [X], WINDOW, "conv2d must have 2 or 3 inputs, not 1"),
    ("conv2d", [QX, W], WINDOW, "input 'a' must be float32, float16 or bfloat16, not int8"),
    ("conv2d", [(F, 3, 7, 9), W], WINDOW,
     "input 'a' must have 4 dimensions, not float32[3,7,9]"),
    ("conv2d", [X, (F, 5, 4, 3, 2)], WINDOW, "input channels must equal the weight's 4, not 3"),
    ("conv2d", [X, W, (F, 4)], WINDOW, "input 'c' must have shape (5,), not (4,)"),
    ("conv2d", [X, W], {"pads": (0,) * 4}, "conv2d needs the attribute 'strides'"),
    ("conv2d", [X, W], {**WINDOW, "strides": (0, 1)},
     "strides must be 2 integers of at least 1, not (0, 1)"),
    ("conv2d", [X, W], {**WINDOW, "pads": (0, -1, 0, 0)},
     "pads must be 4 integers of at least 0, not (0, -1, 0, 0)"),
    ("conv2d", [X, (F, 5, 3, 11, 2)], WINDOW,
     "kernel must fit the padded input, not (11, 2) in float32[2,3,7,9] with pads (1, 0, 2, 3)"),
    ("conv2d", [X, (F, 5, 1, 3, 3)], {**WINDOW, "group": 3},
     "output channels must be a multiple of the group 3, not 5"),
    ("conv2d", [X, (F, 5, 3, 3, 3)], {**WINDOW, "group": 5},
     "input channels must equal the weight's 3 in each of 5 groups, not 3"),
    ("conv2d", [X, W], {**WINDOW, "dilations": (1,)},
     "dilations must be 2 integers of at least 1, not (1,)"),
    ("convtranspose2d", [X], WINDOW, "convtranspose2d must have 2 or 3 inputs, not 1"),
    ("convtranspose2d", [X, W], WINDOW, "input channels must equal the weight's 5, not 3"),
    ("convtranspose2d", [X, (F, 3, 4, 3, 2), (F, 3)], WINDOW,
     "input 'c' must have shape (4,), not (3,)"),
    ("qconvtranspose2d", [QX, QW, VECTOR, VECTOR, VECTOR], {**QCONV, "pad_value": -129},
     "pad_value must be an int8, not -129"),
    ("qconvtranspose2d", [QX, QW, VECTOR, VECTOR, VECTOR], {**QCONV, "output_padding": (1,)},
     "output_padding must be 2 integers of at least 0, not (1,)"),
    ("dense", [(F, 2, 3), (F, 3, 5)], {"trans_b": 1},
     "input width must equal the weight's 5, not 3"),
    ("dense", [(F, 2, 3), (F, 3, 5)], {"trans_b": 2}, "trans_b must be 0 or 1, not 2"),
    ("dense", [(F, 2, 3), (F, 3, 5), (F, 4)], {"trans_b": 0},
     "bias must broadcast to float32[2,5], not float32[4]"),
    ("matmul", [(F, 3), (F, 3, 5)], {},
     "matmul inputs must have at least 2 dimensions, not float32[3] and float32[3,5]"),
    ("matmul", [(F, 2, 3), (F, 4, 5)], {}, "matmul inputs must agree in their inner and leading "
     "extents, not float32[2,3] and float32[4,5]"),
    ("leakyrelu", [X], {"alpha": float("inf")}, "alpha must be finite, not inf"),
    ("qleakyrelu", [QX], {**ONE, "mult_below": 2**15 + 1, "shift_below": 15},
     "slope below zero must be at most 32768 / 2**15, not 32769 / 2**15"),
    ("qleakyrelu", [QX], {**ONE, "mult_below": 1, "shift_below": 15},
     "mult must be 0 or 32768 to 65535, not 1"),
    ("clip", [X], {"lo": 0.0, "hi": float("nan")}, "hi must be a number, not nan"),
    ("clip", [QX], {"lo": 0.0, "hi": 6.0}, "input 'a' must be float32, not int8"),
    ("relu", [QX], {}, "input 'a' must be float32, not int8"),
    ("maxpool", [(I, 1, 1, 4, 4)], {"kernel": (2, 2), **WINDOW},
     "input 'a' must be float32, int8, uint8, int16, uint16, not int32"),
    ("maxpool", [X], {"kernel": (2, 4), **WINDOW},
     "pads must be smaller than the kernel (2, 4), not (1, 0, 2, 3)"),
    ("qmaxpool", [X], {"kernel": (3, 4), **WINDOW}, "input 'a' must be int8 or int16, not float32"),
    ("avgpool", [X], {"kernel": (3, 4), "include_pad": 2, **WINDOW},
     "include_pad must be 0 or 1, not 2"),
    ("qavgpool", [QX], AVERAGE, "qavgpool must have 3 inputs, not 1"),
    ("qavgpool", [QX, (F, 1, 1), (I, 1, 1)], AVERAGE, "input 'b' must be int32, not float32"),
    ("qavgpool", [QX, (I, 4, 1), (I, 4, 1)], AVERAGE,
     "input 'b' must have shape (4, 9) or (1, 1), not (4, 1)"),
    ("qavgpool", [QX, (I, 4, 9), (I, 1, 1)], AVERAGE,
     "mult and shift must have one shape, not (4, 9) and (1, 1)"),
    ("qavgpool", [QX, (I, 1, 1), (I, 1, 1)], {**AVERAGE, "pad_value": -129},
     "pad_value must be an int8, not -129"),
    ("qavgpool", [QX, (I, 1, 1), (I, 1, 1)], {**AVERAGE, "bias": 2**31},
     "bias must be an int32, not 2147483648"),
    ("add", [(F, 2), (F, 3)], {}, "add inputs must broadcast, not float32[2] and float32[3]"),
    ("upsample", [(F, 2, 3)], {"factors": (2, 3)},
     "input 'a' must have 4 dimensions, not float32[2,3]"),
    ("upsample", [X], {"factors": (2, 0)}, "factors must be 2 integers of at least 1, not (2, 0)"),
    ("slice", [(I, 5)], {"begin": (1, 0), "end": (4,), "step": (1,)},
     "begin, end and step must have 1 numbers for int32[5]"),
    ("slice", [(I, 5)], {"begin": (4,), "end": (6,), "step": (1,)},
     "slice of axis 0 must lie in 0 to 5 with a step of at least 1, not 4 to 6 with step 1"),
    ("concat", [(F, 2, 3), (F, 2, 1)], {"axis": 2}, "axis must be 0 to 1, not 2"),
    ("concat", [(F, 2, 3), (F, 1, 3)], {"axis": 1},
     "input 'b' must be float32[2,3] but for axis 1, not float32[1,3]"),
    ("concat", [(F, 2, 3), (Q, 2, 3)], {"axis": 1},
     "input 'b' must be float32[2,3] but for axis 1, not int8[2,3]"),
    ("qconcat", [X, X], CONCAT, "input 'a' must be int8 or int16, not float32"),
    ("qconcat", [QX], CONCAT, "bias must have a number for each of 1 inputs, not (0, 1)"),
    ("qconcat", [QX, QX], {**CONCAT, "mult": (0, 1)},
     "mult must be 0 or 32768 to 65535, not 1"),
    ("qconcat", [QX, QX], {**CONCAT, "hi": -129},
     "lo and hi must be ordered int8, not -128 and -129"),
    ("reshape", [(F, 2, 3)], {"shape": (5,)},
     "shape must keep the number of elements of float32[2,3], not (5,)"),
    ("quantizelinear", [(F, 2, 3), (F, 4), (U, 4)], {"axis": 1},
     "scale must be a scalar or match axis 1 of float32[2,3], not float32[4]"),
    ("quantizelinear", [(F, 2, 3), (F,), (U, 1)], {"axis": 0},
     "zero point must have the shape of the scale float32[], not uint8[1]"),
    ("quantizelinear", [(F, 2, 3), (F,), (I,)], {"axis": 0},
     "zero point must be int8, uint8, int16 or uint16, not int32"),
    ("quantizelinear", [(Q, 2, 3), (F,), (Q,)], {"axis": 0},
     "input 'a' must be float32, not int8"),
    ("dequantizelinear", [(Q, 2, 3), (F,), (U,)], {"axis": 0},
     "zero point must be int8, not uint8"),
    ("dequantizelinear", [(F, 2, 3), (F,), (U,)], {"axis": 0},
     "input 'a' must be int8, uint8, int16, uint16 or int32, not float32"),
    ("dequantizelinear", [(Q, 2, 3), (Q,), (Q,)], {"axis": 0}, "scale must be float32, not int8"),
    ("qconv2d", [QX, QW], QCONV, "qconv2d must have 4 or 5 or 7 inputs, not 2"),
    ("qconv2d", [QX, QW, VECTOR, VECTOR, (Q, 5)], QCONV, "input 'e' must be int32, not int8"),
    ("qconv2d", [QX, QW, VECTOR, (I, 4), VECTOR], QCONV,
     "input 'd' must have shape (5,), not (4,)"),
    ("qconv2d", [QX, QW, VECTOR, VECTOR, VECTOR], {**QCONV, "pad_value": 128},
     "pad_value must be an int8, not 128"),
    ("qdense", [(Q, 2, 4), (Q, 5, 3), VECTOR, VECTOR, VECTOR], CLAMP,
     "input width must equal the weight's 3, not 4"),
    ("qdense", [(Q, 2, 3), (Q, 5, 3), VECTOR, VECTOR, (I, 1)], CLAMP,
     "input 'e' must have shape (5,), not (1,)"),
    ("qdense", [(Q, 2, 3), (Q, 5, 3), VECTOR, VECTOR, VECTOR], {**CLAMP, "zp": 200},
     "zp must be an int8, not 200"),
    ("qdense", [(Q, 2, 3), (Q, 5, 3), VECTOR, VECTOR, VECTOR], {**CLAMP, "lo": 5, "hi": 4},
     "lo and hi must be ordered int8, not 5 and 4"),
    ("qadd", [(Q, 2, 3), (Q, 3, 2)], ADD,
     "qadd inputs must have one type, not int8[2,3] and int8[3,2]"),
    ("qadd", [QX, QX], {**ADD, "mb": 65536}, "mb must be 0 to 65535, not 65536"),
    ("qadd", [QX, QX], {**ADD, "shift": 47}, "shift must be 0 to 46, not 47"),
    ("qadd", [QX, QX], {**ADD, "c": 2**31}, "c must be an int32, not 2147483648"),
    ("qmatmul", [(Q, 2, 3), (Q, 3, 5)], {**ONE, "trans_b": 1}, "matmul inputs must agree in their "
     "inner and leading extents, not int8[2,3] and int8[5,3]"),
    ("qmatmul", [(Q, 2, 3), (Q, 3)], {**ONE, "trans_b": 1},
     "matmul inputs must have at least 2 dimensions, not int8[2,3] and int8[3]"),
    ("qmatmul", [(Q, 2, 3), (F, 3, 5)], {**ONE, "trans_b": 0},
     "input 'b' must be int8, not float32"),
    ("qmatmul", [(Q, 2, 3), (Q, 3, 5)], {**ONE, "trans_b": 2}, "trans_b must be 0 or 1, not 2"),
    ("qrescale", [QX], {**ONE, "mult": 2**15 - 1}, "mult must be 0 or 32768 to 65535, not 32767"),
    ("qrescale", [QX], {**ONE, "shift": -1}, "shift must be 0 to 46, not -1"),
    ("qmatmul", [(Q, 2, 3), (Q, 3, 5)], {**ONE, "trans_b": 0, "twice": 1},
     f"mult must have 31 bits where it rounds twice, not be {ONE['mult']}"),
    ("qmatmul", [(Q, 2, 3), (Q, 3, 5)], {**ONE, "trans_b": 0, "twice": 1, "mult": 2**30},
     f"shift must be 31 to 62 where it rounds twice, not {ONE['shift']}"),
    ("qdense", [(Q, 2, 3), (Q, 5, 3), VECTOR, VECTOR], CLAMP,
     "input 'd' must be float32, not int32"),
    ("qdense", [("int16", 2, 3), (Q, 5, 3), VECTOR, (F, 5)], CLAMP,
     "input 'a' must be int8, not int16"),
    ("qdense", [(Q, 2, 3), (Q, 5, 3), VECTOR, (F, 4)], CLAMP,
     "input 'd' must have shape (5,), not (4,)"),
    ("qglobalavgpool", [QX], {**ONE, "bias": -2**31 - 1},
     "bias must be an int32, not -2147483649"),
    ("quantize", [X], {"scale": 0.0, "zp": 0}, "scale must be positive, not 0.0"),
    ("dequantize", [QX], {"scale": 1.0, "zp": 128}, "zp must be an int8, not 128"),
    ("to_int8", [(Q, 3)], {}, "input 'a' must be uint8, not int8"),
]


@pytest.mark.parametrize(("op", "inputs", "attrs", "sentence"), REFUSED,
                         ids=[f"{i}-{row[0]}" for i, row in enumerate(REFUSED)])
def test_type_wrong(op: str, inputs: list, attrs: dict, sentence: str) -> None:
    with pytest.raises(TypeRefused) as refusal:
        typed(op, types(*inputs), attrs)
    assert str(refusal.value) == f"n: {sentence}"


def test_operator_wrong() -> None:
    with pytest.raises(TypeRefused, match=r"^n: operator must be one of conv2d, .*, to_uint8, .*"
                                          r"not 'softmax'$"):
        typed("softmax", types(X), {})


def test_outputs_wrong() -> None:
    with pytest.raises(TypeRefused, match=r"^n: relu must have 1 output, not 2$"):
        infer(Node("relu", "n", ("a",), ("y", "z")), types(X))


def test_scalar_shapes_multiply_to_one() -> None:
    assert typed("reshape", types((F,)), {"shape": (1, 1)}) == TensorType((1, 1), F)
    assert np.prod((), dtype=int) == 1
