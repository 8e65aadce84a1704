"""TensorFlow Lite's operators, one by one, against LiteRT: float to rounding, int8 to one step."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from compiler.frontend import ImportRefused
from compiler.frontend.models import graph_of
from compiler.frontend.onnx import importing as onnx_import
from compiler.frontend.tflite import schema
from compiler.frontend.tflite.converter import Converter
from compiler.graph.passes.pipeline import optimize
from compiler.graph.reference import evaluate
from tests.support.tflite_files import Given, interpreted, one_operator

RNG = np.random.default_rng(7)
FLOAT_ERROR = 2e-6


def floats(elements):
    return np.array(elements, np.float32)


def int32s(elements):
    return np.array(elements, np.int32)


def ints(*numbers):
    return Given.of(np.array(numbers, np.int32))


def f32(*shape):
    return Given.of(np.random.default_rng(3).normal(size=shape).astype(np.float32))


def gates(*shape):
    """Different constants for the four gates."""
    return [Given.of(RNG.normal(size=shape).astype(np.float32)) for _ in range(4)]


X, Y = Given((2, 6, 5, 4)), Given((2, 6, 5, 4))
FLOAT = {
    "conv_same": ("CONV_2D", [X, f32(3, 3, 3, 4), f32(3)], [Given((2, 3, 3, 3))], "Conv2DOptions",
                  {"Padding": 0, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": 1}),
    "conv_dilated": ("CONV_2D", [X, f32(3, 3, 2, 4), f32(3)], [Given((2, 2, 4, 3))],
                     "Conv2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1,
                                      "DilationHFactor": 2}),
    "conv_grouped": ("CONV_2D", [X, f32(4, 3, 3, 2), f32(4)], [Given((2, 6, 5, 4))],
                     "Conv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1}),
    "depthwise": ("DEPTHWISE_CONV_2D", [X, f32(1, 3, 3, 8), f32(8)], [Given((2, 6, 5, 8))],
                  "DepthwiseConv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1,
                                             "DepthMultiplier": 2, "FusedActivationFunction": 3}),
    "transposed": ("TRANSPOSE_CONV", [ints(2, 12, 10, 3), f32(3, 3, 3, 4), X],
                   [Given((2, 12, 10, 3))], "TransposeConvOptions",
                   {"Padding": 0, "StrideH": 2, "StrideW": 2}),
    "transposed_valid": ("TRANSPOSE_CONV", [ints(2, 13, 11, 3), f32(3, 3, 3, 4), X],
                         [Given((2, 13, 11, 3))], "TransposeConvOptions",
                         {"Padding": 1, "StrideH": 2, "StrideW": 2}),
    "average_pool": ("AVERAGE_POOL_2D", [X], [Given((2, 3, 3, 4))], "Pool2DOptions",
                     {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3,
                      "FilterWidth": 3}),
    "max_pool": ("MAX_POOL_2D", [X], [Given((2, 5, 4, 4))], "Pool2DOptions",
                 {"Padding": 1, "StrideH": 1, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 2}),
    "fully_connected": ("FULLY_CONNECTED", [Given((2, 3, 4)), f32(5, 4), f32(5)],
                        [Given((2, 3, 5))], "FullyConnectedOptions",
                        {"KeepNumDims": True, "FusedActivationFunction": 1}),
    "fully_connected_flat": ("FULLY_CONNECTED", [X, f32(5, 120), None], [Given((2, 5))],
                             "FullyConnectedOptions", {}),
    "batch_matmul": ("BATCH_MATMUL", [Given((2, 4, 3)), Given((2, 5, 4))], [Given((2, 3, 5))],
                     "BatchMatMulOptions", {"AdjX": True, "AdjY": True}),
    "add_broadcast": ("ADD", [X, Given((1, 1, 1, 4))], [Y], "AddOptions",
                      {"FusedActivationFunction": 2}),
    "sub": ("SUB", [X, f32(5, 4)], [Y], "SubOptions", {}),
    "mul": ("MUL", [X, f32(4)], [Y], "MulOptions", {}),
    "div": ("DIV", [X, Given.of(floats([1.5, -2, 3, 4]))], [Y], "DivOptions", {}),
    "maximum": ("MAXIMUM", [X, f32(4)], [Y], "MaximumMinimumOptions", {}),
    "minimum": ("MINIMUM", [X, f32(4)], [Y], "MaximumMinimumOptions", {}),
    "squared_difference": ("SQUARED_DIFFERENCE", [X, f32(4)], [Y], "SquaredDifferenceOptions", {}),
    "floor_div": ("FLOOR_DIV", [X, f32(4)], [Y], "FloorDivOptions", {}),
    "floor_mod": ("FLOOR_MOD", [X, f32(4)], [Y], "FloorModOptions", {}),
    **{code.lower(): (code, [X], [Y], "", {}) for code in (
        "RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "ELU", "FLOOR", "CEIL",
        "SIN", "NEG", "ABS", "EXP", "SQUARE", "ROUND")},
    "leaky_relu": ("LEAKY_RELU", [X], [Y], "LeakyReluOptions", {"Alpha": 0.3}),
    "prelu": ("PRELU", [X, f32(1, 1, 4)], [Y], "", {}),
    "gelu": ("GELU", [X], [Y], "GeluOptions", {"Approximate": True}),
    "softmax": ("SOFTMAX", [X], [Y], "SoftmaxOptions", {"Beta": 2.0}),
    "log_softmax": ("LOG_SOFTMAX", [X], [Y], "LogSoftmaxOptions", {}),
    "l2_normalization": ("L2_NORMALIZATION", [X], [Y], "L2NormOptions", {}),
    "lrn": ("LOCAL_RESPONSE_NORMALIZATION", [X], [Y], "LocalResponseNormalizationOptions",
            {"Radius": 1, "Bias": 1.0, "Alpha": 0.4, "Beta": 0.75}),
    "concatenation": ("CONCATENATION", [X, Given((2, 6, 5, 2))], [Given((2, 6, 5, 6))],
                      "ConcatenationOptions", {"Axis": -1}),
    "reshape": ("RESHAPE", [X, ints(2, 30, 4)], [Given((2, 30, 4))], "ReshapeOptions", {}),
    "transpose": ("TRANSPOSE", [X, ints(0, 2, 3, 1)], [Given((2, 5, 4, 6))], "TransposeOptions",
                  {}),
    "pad": ("PAD", [X, Given.of(int32s([[0, 0], [1, 2], [0, 1], [0, 0]]))],
            [Given((2, 9, 6, 4))], "PadOptions", {}),
    "pad_with": ("PADV2", [X, Given.of(int32s([[0, 0], [1, 2], [0, 1], [0, 0]])),
                           Given.of(floats([1.5]))], [Given((2, 9, 6, 4))], "PadV2Options",
                 {}),
    "mirror_pad": ("MIRROR_PAD", [X, Given.of(int32s([[0, 0], [1, 2], [2, 1], [0, 0]]))],
                   [Given((2, 9, 8, 4))], "MirrorPadOptions", {"Mode": 0}),
    "slice": ("SLICE", [X, ints(0, 1, 2, 1), ints(2, -1, 3, 2)], [Given((2, 5, 3, 2))],
              "SliceOptions", {}),
    "strided_slice": ("STRIDED_SLICE", [X, ints(0, 4, 1, 0), ints(2, 0, 5, 4), ints(1, -2, 2, 1)],
                      [Given((2, 2, 2, 4))], "StridedSliceOptions",
                      {"BeginMask": 1, "EndMask": 8}),
    "strided_slice_reverse": ("STRIDED_SLICE", [X, ints(0, 0, 0, 0), ints(0, 0, 0, 0),
                                                ints(1, -1, 1, 1)], [Y], "StridedSliceOptions",
                              {"BeginMask": 15, "EndMask": 15}),
    "strided_slice_shrunk": ("STRIDED_SLICE", [X, ints(0, -1, 0), ints(0, 0, 0), ints(1, 1, 1)],
                             [Given((2, 5, 4))], "StridedSliceOptions",
                             {"BeginMask": 5, "EndMask": 5, "ShrinkAxisMask": 2}),
    "strided_slice_ellipsis": ("STRIDED_SLICE", [X, ints(1, 0, 1), ints(2, 0, 3), ints(1, 1, 1)],
                               [Given((1, 6, 5, 2))], "StridedSliceOptions", {"EllipsisMask": 2}),
    "split": ("SPLIT", [ints(3), X], [Given((2, 6, 5, 2)), Given((2, 6, 5, 2))], "SplitOptions",
              {"NumSplits": 2}),
    "split_v": ("SPLIT_V", [X, ints(1, 5), ints(1)], [Given((2, 1, 5, 4)), Given((2, 5, 5, 4))],
                "SplitVOptions", {"NumSplits": 2}),
    "pack": ("PACK", [Given((2, 3)), Given((2, 3))], [Given((2, 2, 3))], "PackOptions",
             {"ValuesCount": 2, "Axis": 1}),
    "unpack": ("UNPACK", [Given((2, 3))], [Given((2,))] * 3, "UnpackOptions",
               {"Num": 3, "Axis": 1}),
    "gather": ("GATHER", [X, ints(3, 0)], [Given((2, 6, 5, 2))], "GatherOptions", {"Axis": 3}),
    "tile": ("TILE", [Given((2, 3)), ints(2, 1)], [Given((4, 3))], "", {}),
    "reverse": ("REVERSE_V2", [X, ints(2)], [Y], "ReverseV2Options", {}),
    "depth_to_space": ("DEPTH_TO_SPACE", [X], [Given((2, 12, 10, 1))], "DepthToSpaceOptions",
                       {"BlockSize": 2}),
    "space_to_depth": ("SPACE_TO_DEPTH", [Given((2, 6, 4, 3))], [Given((2, 3, 2, 12))],
                       "SpaceToDepthOptions", {"BlockSize": 2}),
    "space_to_batch": ("SPACE_TO_BATCH_ND", [X, ints(2, 3), Given.of(int32s([[1, 1], [0, 1]]))],
                       [Given((12, 4, 2, 4))], "SpaceToBatchNDOptions", {}),
    "batch_to_space": ("BATCH_TO_SPACE_ND", [Given((12, 4, 2, 4)), ints(2, 3),
                                             Given.of(int32s([[1, 1], [0, 1]]))], [X],
                       "BatchToSpaceNDOptions", {}),
    "mean": ("MEAN", [X, ints(1, 2)], [Given((2, 4))], "ReducerOptions", {}),
    "sum": ("SUM", [X, ints(-1)], [Given((2, 6, 5, 1))], "ReducerOptions", {"KeepDims": True}),
    "reduce_max": ("REDUCE_MAX", [X, ints(1)], [Given((2, 5, 4))], "ReducerOptions", {}),
    "arg_max": ("ARG_MAX", [X, ints(3)], [Given((2, 6, 5), "int32")], "ArgMaxOptions",
                {"OutputType": 2}),
    "cumsum": ("CUMSUM", [X, Given.of(np.int32(1))], [Y], "CumsumOptions", {"Exclusive": True}),
    **{f"{code.lower()}_{name}": (code, [X, ints(9, 7)], [Given((2, 9, 7, 4))], f"{kind}Options",
                                  options)
       for code, kind in (("RESIZE_BILINEAR", "ResizeBilinear"),
                          ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor"))
       for name, options in (("plain", {}), ("corners", {"AlignCorners": True}),
                             ("half", {"HalfPixelCenters": True}))},
    "select": ("SELECT_V2", [Given((2, 6, 5, 4), "bool"), X, Y], [Y], "SelectV2Options", {}),
    "greater": ("GREATER", [X, Y], [Given((2, 6, 5, 4), "bool")], "GreaterOptions", {}),
    "conv_3d": ("CONV_3D", [Given((1, 4, 5, 3, 2)), f32(2, 3, 2, 2, 3), f32(3)],
                [Given((1, 4, 5, 3, 3))], "Conv3DOptions",
                {"Padding": 0, "StrideD": 1, "StrideH": 1, "StrideW": 1}),
    "add_n": ("ADD_N", [X, Y, X], [Y], "AddNOptions", {}),
    "broadcast_to": ("BROADCAST_TO", [Given((1, 3)), ints(4, 3)], [Given((4, 3))], "", {}),
    "gather_nd": ("GATHER_ND", [X, Given.of(int32s([[0, 1], [1, 5]]))], [Given((2, 5, 4))],
                  "GatherNdOptions", {}),
    "embedding_lookup": ("EMBEDDING_LOOKUP", [ints(2, 0, 2), Given((3, 4))], [Given((3, 4))], "",
                         {}),
    "one_hot": ("ONE_HOT", [Given.of(int32s([0, 2])), Given.of(np.int32(3)),
                            Given.of(np.float32(2)), Given.of(np.float32(-1))],
                [Given((2, 3))], "OneHotOptions", {"Axis": -1}),
    "reduce_any": ("REDUCE_ANY", [Given((2, 3), "bool"), ints(1)], [Given((2,), "bool")],
                   "ReducerOptions", {}),
    "top_k": ("TOPK_V2", [Given((2, 6)), Given.of(np.int32(3))],
              [Given((2, 3)), Given((2, 3), "int32")], "TopKV2Options", {}),
    "zeros_like": ("ZEROS_LIKE", [X], [Y], "ZerosLikeOptions", {}),
    "squeeze": ("SQUEEZE", [Given((2, 1, 3))], [Given((2, 3))], "SqueezeOptions", {}),
    "not_equal": ("NOT_EQUAL", [X, Y], [Given((2, 6, 5, 4), "bool")], "NotEqualOptions", {}),
    "rsqrt": ("RSQRT", [X], [Y], "", {}),
    "lstm": ("UNIDIRECTIONAL_SEQUENCE_LSTM", [
        Given((2, 5, 3)), *gates(4, 3), *gates(4, 4), None, None, None, *gates(4), None, None,
        Given((2, 4), variable=True), Given((2, 4), variable=True), None, None, None, None],
        [Given((2, 5, 4))], "UnidirectionalSequenceLSTMOptions", {"FusedActivationFunction": 4}),
    "cast": ("CAST", [X], [Given((2, 6, 5, 4), "int32")], "", {}),
}


def q(*shape, scale=0.05, zero=3, dtype="int8"):
    return Given(shape, dtype, scale=scale, zero=zero)


def weights(*shape, axis=0):
    array = RNG.integers(-127, 128, shape).astype(np.int8)
    scales = RNG.uniform(0.002, 0.01, shape[axis])
    return Given.of(array, scale=tuple(scales), axis=axis), scales


def biases(scales):
    return Given.of(RNG.integers(-500, 500, len(scales)).astype(np.int32),
                    scale=tuple(np.array(scales, np.float32) * np.float32(0.05)))


CONV, CONV_SCALES = weights(6, 3, 3, 4)
DEPTHWISE, DEPTHWISE_SCALES = weights(1, 3, 3, 8, axis=3)
DENSE = Given.of(RNG.integers(-127, 128, (5, 120)).astype(np.int8), scale=0.004)
QX = q(2, 6, 5, 4)
INT8 = {
    "conv": ("CONV_2D", [QX, CONV, biases(CONV_SCALES)], [q(2, 6, 5, 6, scale=0.04, zero=-9)],
             "Conv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1,
                               "FusedActivationFunction": 3}),
    "depthwise": ("DEPTHWISE_CONV_2D", [QX, DEPTHWISE, biases(DEPTHWISE_SCALES)],
                  [q(2, 3, 3, 8, scale=0.03, zero=-5)], "DepthwiseConv2DOptions",
                  {"Padding": 0, "StrideH": 2, "StrideW": 2, "DepthMultiplier": 2}),
    "fully_connected": ("FULLY_CONNECTED", [QX, DENSE, None], [q(2, 5, scale=0.08)],
                        "FullyConnectedOptions", {}),
    "add": ("ADD", [QX, q(2, 6, 5, 4, scale=0.02, zero=-4)], [q(2, 6, 5, 4, scale=0.07, zero=1)],
            "AddOptions", {"FusedActivationFunction": 1}),
    "mul": ("MUL", [QX, q(2, 1, 1, 4, scale=0.02, zero=-4)], [q(2, 6, 5, 4, scale=0.06, zero=1)],
            "MulOptions", {}),
    "average_pool": ("AVERAGE_POOL_2D", [QX], [q(2, 3, 3, 4)], "Pool2DOptions",
                     {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3,
                      "FilterWidth": 3}),
    "max_pool": ("MAX_POOL_2D", [QX], [q(2, 3, 2, 4)], "Pool2DOptions",
                 {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}),
    "mean": ("MEAN", [QX, ints(1, 2)], [q(2, 4, scale=0.02, zero=8)], "ReducerOptions", {}),
    "logistic": ("LOGISTIC", [QX], [q(2, 6, 5, 4, scale=1 / 256, zero=-128)], "", {}),
    "tanh": ("TANH", [QX], [q(2, 6, 5, 4, scale=1 / 128, zero=0)], "", {}),
    "hard_swish": ("HARD_SWISH", [QX], [q(2, 6, 5, 4, scale=0.04, zero=-100)], "", {}),
    "leaky_relu": ("LEAKY_RELU", [QX], [q(2, 6, 5, 4, scale=0.04, zero=-60)], "LeakyReluOptions",
                   {"Alpha": 0.1}),
    "softmax": ("SOFTMAX", [q(2, 10)], [q(2, 10, scale=1 / 256, zero=-128)], "SoftmaxOptions",
                {"Beta": 1.0}),
    "concatenation": ("CONCATENATION", [QX, q(2, 6, 5, 4, scale=0.05, zero=3)],
                      [q(2, 6, 5, 8, scale=0.05, zero=3)], "ConcatenationOptions", {"Axis": 3}),
    "pad": ("PAD", [QX, Given.of(int32s([[0, 0], [1, 2], [0, 1], [0, 0]]))],
            [q(2, 9, 6, 4)], "PadOptions", {}),
    "quantize": ("QUANTIZE", [QX], [q(2, 6, 5, 4, scale=0.1, zero=-3)], "QuantizeOptions", {}),
    "dequantize": ("DEQUANTIZE", [QX], [Given((2, 6, 5, 4))], "DequantizeOptions", {}),
    "resize": ("RESIZE_BILINEAR", [QX, ints(12, 10)], [q(2, 12, 10, 4)], "ResizeBilinearOptions",
               {"HalfPixelCenters": True}),
    "batch_matmul": ("BATCH_MATMUL", [q(2, 3, 4), q(2, 4, 5, scale=0.03)], [q(2, 3, 5, scale=0.1)],
                     "BatchMatMulOptions", {}),
    "reshape": ("RESHAPE", [QX, ints(2, 120)], [q(2, 120)], "ReshapeOptions", {}),
}


STAY_IN_FLOAT = ("DEQUANTIZE", "RESIZE_BILINEAR")


def files(cases):
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


def computed(data: bytes, tmp_path: Path):
    """LiteRT's outputs and ours, for the same random inputs, with our operators."""
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    graph = optimize(graph_of(path))
    arrays = {name: drawn(graph.values[name]) for name in graph.inputs}
    return interpreted(data, list(arrays.values())), [*evaluate(graph, arrays).values()], \
        [node.op for node in graph.nodes]


def drawn(kind):
    if kind.dtype == "bool":
        return RNG.integers(0, 2, kind.shape).astype(np.bool_)
    if kind.dtype == "float32":
        return RNG.normal(size=kind.shape).astype(np.float32)
    return RNG.integers(-128, 128, kind.shape).astype(kind.dtype)


def built(case):
    code, inputs, outputs, kind, options = case
    return one_operator(code, inputs, outputs, options, kind)


@files(FLOAT)
def test_operator_in_float(case, tmp_path):
    wanted, given, _ = computed(built(case), tmp_path)
    for expected, actual in zip(wanted, given, strict=True):
        assert actual.shape == expected.shape and actual.dtype == expected.dtype
        if expected.dtype != np.float32:
            np.testing.assert_array_equal(actual, expected)
        else:
            largest = np.nanmax(np.abs(expected))
            np.testing.assert_allclose(actual, expected, rtol=0, atol=FLOAT_ERROR * largest)


@files(INT8)
def test_operator_in_int8(case, tmp_path):
    wanted, given, operators = computed(built(case), tmp_path)
    for expected, actual in zip(wanted, given, strict=True):
        if expected.dtype == np.float32:
            np.testing.assert_allclose(actual, expected, rtol=1e-6)
        else:
            assert len(np.unique(expected)) > 4
            assert np.abs(actual.astype(int) - expected).max() <= 1
    if case[0] not in STAY_IN_FLOAT:
        assert "dequantize" not in operators


def refusal(data: bytes, tmp_path: Path, **options) -> str:
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    with pytest.raises(ImportRefused) as refused:
        graph_of(path, **options)
    assert "\n" not in str(refused.value)
    return str(refused.value).replace(f"{path}: ", "", 1)


REPLACE = "; replace these in the model (docs/frontends.md says what is supported)"


def test_custom_operators_and_unknown_ones_are_refused_by_name(tmp_path):
    assert refusal(one_operator("", [X], [Y], custom="TFLite_Detection_PostProcess"), tmp_path) == (
        "cannot import t1 (CUSTOM TFLite_Detection_PostProcess): operator is not supported"
        + REPLACE)
    assert refusal(one_operator("NON_MAX_SUPPRESSION_V4", [X], [Y]), tmp_path) == (
        "cannot import t1 (NON_MAX_SUPPRESSION_V4): operator is not supported" + REPLACE)


def test_a_refusal_of_an_operator_says_why(tmp_path):
    mirror = one_operator("MIRROR_PAD", [X, Given.of(int32s([[0, 0]] * 4))], [Y],
                          {"Mode": 1}, "MirrorPadOptions")
    assert refusal(mirror, tmp_path) == (
        "cannot import t2 (MIRROR_PAD): its mode must be REFLECT, not SYMMETRIC" + REPLACE)
    text = one_operator("PAD", [X, Given((4, 2), "int32")], [Y])
    assert refusal(text, tmp_path) == (
        "cannot import t2 (PAD): its padding must be a constant of integers" + REPLACE)


def test_what_is_no_file_of_this_kind_is_refused(tmp_path):
    data = one_operator("RELU", [X], [Y])
    path = tmp_path / "m.tflite"
    path.write_bytes(b"\x08\x07")
    with pytest.raises(ImportRefused, match="is not a TensorFlow Lite file; give a model in"):
        graph_of(path)
    assert "is damaged" in refusal(data[:len(data) // 2], tmp_path)


def test_damaged_files_are_refused_or_read(tmp_path):
    """No flip of a byte leads to anything but a graph or a refusal."""
    data, path = built(INT8["conv"]), tmp_path / "m.tflite"
    refused = 0
    for place in range(0, len(data), 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xA5]) + data[place + 1:])
        try:
            graph_of(path)
        except ImportRefused:
            refused += 1
    assert refused > 20


def test_open_dimensions_have_the_extent_of_the_file_unless_told(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(one_operator("RELU", [Given((1, 4), signature=(-1, 4))],
                                  [Given((1, 4), signature=(-1, 4))]))
    assert graph_of(path).values["t0"].shape == (1, 4)
    assert graph_of(path, {"t0.0": 3}).values["t1"].shape == (3, 4)
    assert graph_of(path, arrays={"t0": np.zeros((5, 4))}).values["t1"].shape == (5, 4)
    assert refusal(path.read_bytes(), tmp_path, shapes={"n": 3}) == (
        "--shape n=3 names no dimension of the inputs; the symbolic ones are: t0.0")


def test_weights_of_16_bits_become_float32(tmp_path):
    half = np.arange(12, dtype=np.float16).reshape(3, 4) / 7
    path = tmp_path / "m.tflite"
    path.write_bytes(one_operator("DEQUANTIZE", [Given.of(half)], [Given((3, 4))]))
    given, = evaluate(graph_of(path), {}).values()
    np.testing.assert_array_equal(given, half.astype(np.float32))


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tflite", None)
    assert refusal(one_operator("RELU", [X], [Y]), tmp_path) == (
        "a TensorFlow Lite file needs the package tflite, which is not installed; install "
        "lockstep-hw[tflite]")


def test_weights_of_4_bits_are_unpacked():
    from compiler.frontend.tflite.schema import _unpacked

    packed = np.array([0x2F, 0x78, 0x0C], np.uint8)
    np.testing.assert_array_equal(_unpacked(packed, (5,)), [-1, 2, -8, 7, -4])


def test_an_operator_code_that_the_new_field_alone_has(tmp_path):
    """Some writers leave the deprecated field at 0, which is ADD."""
    x, y, path = Given((2, 3), "int8", scale=0.05, zero=3), Given((2, 3)), tmp_path / "m.tflite"
    path.write_bytes(one_operator("DEQUANTIZE", [x], [y], deprecated=0))
    assert schema.read(path).operations[0].code == "DEQUANTIZE"
    array = np.arange(6, dtype=np.int8).reshape(2, 3)
    given, = evaluate(graph_of(path), {"t0": array}).values()
    wanted, = interpreted(path.read_bytes(), [array])
    np.testing.assert_array_equal(given, wanted)


def test_a_dequantization_that_is_an_output_and_another_reader():
    """The value that both read is called as the file calls the output."""
    scales = schema.TensorScales(np.array([0.1], np.float32), np.array([3]), 0)
    t, real, half = (schema.TfliteTensor(name, "", np.dtype(dtype), (2, 4), (2, 4), scale, None,
                                         False, False)
                     for name, dtype, scale in (("t", np.int8, scales), ("real", np.float32, None),
                                                ("half", np.int8, scales)))
    graph = schema.Subgraph(
        (t, real, half), (schema.TfliteOperation("DEQUANTIZE", (0,), (1,), None),
                          schema.TfliteOperation("RELU", (0,), (2,), None)),
        (0,), (2, 1), {}, {})
    made = onnx_import.convert(Converter(graph, "m").run().model)
    x = np.arange(-4, 4).astype(np.int8).reshape(2, 4)
    found = evaluate(made, {"t": x})
    np.testing.assert_array_equal(found["real"], (x - np.float32(3)) * np.float32(0.1))
    np.testing.assert_array_equal(found["half"], np.maximum(x, 3))
