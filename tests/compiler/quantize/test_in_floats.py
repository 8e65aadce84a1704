"""Networks in floats of few bits: scales, what stays, and files that others read."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
import pytest

from compiler.errors import ArgumentError
from compiler.frontend import convert
from compiler.graph import TensorType, evaluate
from compiler.graph.passes.pipeline import optimize, standard_passes
from compiler.graph.products.float_products import FloatTypes
from compiler.graph.rewrite import Builder
from compiler.ops.records.stored_floats import numbers_of
from compiler.quantize.in_floats import in_floats
from compiler.quantize.ranges.refusal import QuantizeRefused

TYPES = (*(pytest.param(dtype, marks=pytest.mark.slow)
           for dtype in ("float8_e4m3fn", "float8_e5m2")), "bfloat16")


@pytest.fixture
def network(rng):
    """Two convolutions, rows of matrices, a sum; an image [1,3,6,6]."""
    builder, count = Builder("net"), iter(range(99))

    def constant(*shape):
        return builder.add_constant(f"k{next(count)}", rng.normal(size=shape).astype(np.float32))

    def emit(op, name, *inputs, **attrs):
        return builder.emit(op, name, list(inputs), f"{name}.out", **attrs)

    x = builder.add_input("x", TensorType((1, 3, 6, 6), "float32"))
    conv = {"strides": (1, 1), "pads": (1, 1, 1, 1)}
    y = emit("relu", "relu", emit("conv2d", "first", x, constant(4, 3, 3, 3), constant(4), **conv))
    z = emit("add", "sum", y, emit("conv2d", "second", y, constant(4, 4, 3, 3), **conv))
    z = emit("conv2d", "apart", z, constant(4, 1, 3, 3), group=4, **conv)
    z = emit("reshape", "rows", z, shape=(4, 36))
    z = emit("add", "biased", emit("matmul", "matrix", z, constant(36, 5)), constant(5))
    return builder.finish([z])


@pytest.fixture
def samples(rng):
    return {"x": rng.normal(size=(6, 3, 6, 6)).astype(np.float32)}


@pytest.mark.parametrize("dtype", TYPES)
def test_products_stand_between_conversions(network, samples, dtype):
    """A machine of the type finds each of them, in the file as well."""
    made = in_floats(network, samples, activations=dtype)
    assert made.products == ("first", "second", "matrix") and made.samples == 6
    assert made.left == {"apart": "its channels are in groups"}
    onnx.checker.check_model(made.model)
    for graph in (made.graph, convert(made.model)):
        found = optimize(graph, standard_passes(floats=FloatTypes(dtype, dtype, 4)))
        assert [node.op for node in found.nodes if node.op in ("fconv2d", "fdense")] == [
            "fconv2d", "fconv2d", "fdense"]
    assert made.decibels is not None
    assert {"float8_e4m3fn": 18, "float8_e5m2": 12, "bfloat16": 35}[dtype] < made.decibels < 60


def test_the_file_is_the_graph(network, samples):
    made = in_floats(network, samples, weights="float8_e5m2")
    x = {"x": samples["x"][:1]}
    (first,), (second,) = (tuple(evaluate(graph, x).values())
                           for graph in (made.graph, convert(made.model)))
    np.testing.assert_array_equal(first, second)
    types = {one.name: one.data_type for one in made.model.graph.initializer}
    assert {onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.FLOAT8E5M2} <= {*types.values()}


def test_scales_are_the_greatest_magnitudes(network, samples):
    """448 stands for the largest number of the input, in weights for the largest of an output."""
    made = in_floats(network, samples)
    first = next(node for node in made.graph.nodes if node.op == "encodefloat")
    np.testing.assert_allclose(made.graph.constants[first.inputs[1]],
                               np.abs(samples["x"]).max() / 448, rtol=1e-6)
    decodes = [node for node in made.graph.nodes if node.op == "decodefloat"
               and node.inputs[0] in made.graph.constants]
    assert [node.attrs["axis"] for node in decodes] == [0, 0, 1]
    for node in decodes:
        codes, scales = (made.graph.constants[value] for value in node.inputs)
        most = np.abs(numbers_of(codes, "float8_e4m3fn")).max(
            axis=tuple(axis for axis in range(codes.ndim) if axis != node.attrs["axis"]))
        assert (most == float(ml_dtypes.finfo("float8_e4m3fn").max)).all() and scales.min() > 0


def test_what_is_asked_for_stays_in_float(network, samples):
    made = in_floats(network, samples, keep_float=["second"])
    assert made.products == ("first", "matrix")
    assert made.left["second"] == "kept in float on request"
    assert in_floats(network, samples, keep_float=["relu"]).products == ("second", "matrix")
    assert in_floats(network, samples, keep_float=["biased", "rows"]).products == (
        "first", "second")
    parts = tuple(replace(node, name="second.conv2d" if node.name == "second" else node.name)
                  for node in network.nodes)
    assert in_floats(replace(network, nodes=parts), samples, keep_float=["second"]).products == (
        "first", "matrix")
    with pytest.raises(QuantizeRefused, match=r"^model: layers to keep in float must be some of "
                                              r"first, second, apart, matrix, not other$"):
        in_floats(network, samples, keep_float=["other"])
    with pytest.raises(QuantizeRefused, match=r"matrix, not 3$"):
        in_floats(network, samples, keep_float=[3])       # type: ignore[list-item]


def test_other_types_are_refused(network, samples):
    with pytest.raises(ArgumentError, match=r"^activations must be one of float8_e4m3fn, "
                                            r"float8_e5m2, bfloat16, not 'int8'$"):
        in_floats(network, samples, activations="int8")
    with pytest.raises(ArgumentError, match=r"^weights must be bfloat16 where activations are, and "
                                            r"no others, not 'float8_e5m2'$"):
        in_floats(network, samples, activations="bfloat16", weights="float8_e5m2")


def test_samples_must_be_finite(network, samples):
    samples["x"][2, 0, 0, 0] = np.inf
    with pytest.raises(QuantizeRefused, match=r"^net: samples must make finite values of 'x'$"):
        in_floats(network, samples)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_the_smallest_numbers_have_a_scale(rng, dtype):
    """A scale below what float32 has would be 0, and is its least number."""
    builder = Builder("net")
    x = builder.add_input("x", TensorType((1, 8), "float32"))
    w = builder.add_constant("w", np.full((8, 4), 1e-43, np.float32))
    made = in_floats(builder.finish([builder.emit("matmul", "m", [x, w], "y")]),
                     {"x": np.full((2, 8), 1e-44, np.float32)}, activations=dtype)
    assert made.products == ("m",)
    scales = [made.graph.constants[node.inputs[1]] for node in made.graph.nodes
              if node.op in ("encodefloat", "decodefloat")]
    assert all((0 < scale).all() and (scale <= 1).all() for scale in scales)
    assert min(scale.min() for scale in scales) == np.finfo(np.float32).smallest_subnormal
    codes = next(array for array in made.graph.constants.values() if array.dtype == np.uint8)
    assert numbers_of(codes, dtype).all()


def test_noise_is_that_of_outputs_in_float(rng):
    """Indices are none; and no warning is given where an output is of float16."""
    builder = Builder("net")
    x = builder.add_input("x", TensorType((1, 8), "float32"))
    w = builder.add_constant("w", rng.normal(size=(8, 4)).astype(np.float32))
    y = builder.emit("matmul", "m", [x, w], "y")
    most = builder.emit("argmax", "most", [y], "most", axis=1, keepdims=1, last=0)
    half = builder.emit("cast", "half", [y], "half", to="float16")
    samples = {"x": rng.normal(size=(400, 8)).astype(np.float32)}
    assert in_floats(builder.finish([most]), samples).decibels is None
    made = in_floats(builder.finish([half, most]), samples)
    assert made.decibels is not None and 20 < made.decibels < 40


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_weights_and_biases_that_are_not_finite_stay_in_float(network, samples, number):
    """A bias that is not is none of its layer: what is added to stays finite."""
    kernel, bias = (next(node for node in network.nodes if node.name == name).inputs[1]
                    for name in ("second", "biased"))
    arrays = {name: array.copy() for name, array in network.constants.items()}
    arrays[kernel][0, 0, 0, 0] = arrays[bias][0] = number
    made = in_floats(replace(network, constants=arrays), samples, keep_float=["matrix"])
    assert made.products == ("first",)
    assert made.left["second"] == "its weight has numbers that are not finite"
    arrays[kernel][0, 0, 0, 0] = 0
    made = in_floats(replace(network, constants=arrays), samples)
    assert made.products == ("first", "second", "matrix")


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16"])
def test_extents_for_which_there_are_other_layers_are_refused(rng, dtype):
    """A step of an unrolled recurrence that the samples do not have has no scales."""
    arrays = {name: rng.normal(size=shape).astype(np.float32)
              for name, shape in (("w", (1, 8, 3)), ("r", (1, 8, 2)))}
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
            for name, shape in (("x", ["t", 1, 3]), ("y", [1, 1, 2])))
    model = onnx.helper.make_model(onnx.helper.make_graph(
        [onnx.helper.make_node("LSTM", ["x", "w", "r"], ["", "y"], "steps", hidden_size=2)],
        "net", [x], [y], [onnx.numpy_helper.from_array(array, name)
                          for name, array in arrays.items()]),
        opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    made = in_floats(model, {"x": rng.normal(size=(2, 1, 3)).astype(np.float32)}, activations=dtype)
    assert len(made.graph_of({"t": 1}).nodes) < len(made.graph.nodes)
    with pytest.raises(QuantizeRefused, match=(
            r"^model: samples must have the extents that are asked for: with these the network has "
            r"layers that it has not with those of the samples, such as steps\.recurrent_1$")):
        made.graph_of({"t": 3})


def test_another_extent_has_the_scales_of_the_samples(rng):
    """An ONNX model with open rows takes any; without a product nothing is left to multiply."""
    weight = onnx.numpy_helper.from_array(rng.normal(size=(4, 3)).astype(np.float32), "w")
    open_rows = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", extent])
                 for name, extent in (("x", 4), ("y", 3))]
    model = onnx.helper.make_model(onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "only")], "rows", open_rows[:1],
        open_rows[1:], [weight]), opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    made = in_floats(model, {"x": rng.normal(size=(2, 4)).astype(np.float32)})
    other = made.graph_of({"n": 5})
    assert other.values[other.outputs[0]].shape == (5, 3) and made.hindrance == ""
    scales = [{array.tobytes() for array in graph.constants.values() if array.dtype == np.float32}
              for graph in (made.graph, other)]
    assert scales[0] == scales[1] != set()
    alone = in_floats(model, {"x": np.ones((2, 4), np.float32)}, keep_float=["only"])
    assert alone.hindrance == ("nothing runs on the accelerator: the quantizer left every layer in "
                               "float: kept in float on request")
