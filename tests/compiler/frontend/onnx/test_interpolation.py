"""Integers that are interpolated: sums in float over all axes, converted once, as in ONNX's
reference.
"""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

import lockstep
from compiler.frontend.onnx.importing import convert
from compiler.graph import evaluate

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def model(op: str, dtype: str, extra: list, shape: tuple[int, ...], **attrs) -> ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node(op, ["x", *(one.name if one else "" for one in extra)], ["y"], **attrs)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, [1, 2, 9, 11])],
        [helper.make_tensor_value_info("y", kind, shape)], [one for one in extra if one])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def resize(dtype: str, size: tuple[int, int], **attrs) -> ModelProto:
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 2, *size])
    region = helper.make_tensor("roi", TensorProto.FLOAT, [8], [0, 0, .25, -.25, 1, 1, 1, 1.25])
    crops = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    return model("Resize", dtype, [region if crops else None, None, sizes], (1, 2, *size), **attrs)


def image(dtype: str, rng: np.random.Generator) -> np.ndarray:
    ends = np.iinfo(dtype)
    return rng.integers(max(ends.min, -2**40), min(ends.max, 2**40), (1, 2, 9, 11), dtype, True)


def reference(made: ModelProto, x: np.ndarray) -> np.ndarray:
    outputs = ReferenceEvaluator(made).run(None, {"x": x})
    assert isinstance(outputs, list)
    return np.asarray(outputs[0])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("attrs", [
    {"mode": "linear"}, {"mode": "linear", "antialias": 1},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize",
     "extrapolation_value": 7.5}])
def test_integers_are_resized_as_the_reference_does(attrs: dict, dtype: str,
                                                   rng: np.random.Generator) -> None:
    for size in ((5, 4), (12, 20)):
        made, x = resize(dtype, size, **attrs), image(dtype, rng)
        found = evaluate(convert(made), {"x": x})["y"]
        np.testing.assert_array_equal(found, reference(made, x))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_cubic_sums_of_integers_are_within_the_float32_weights_of_the_reference(
        dtype: str, rng: np.random.Generator) -> None:
    """The reference computes weights of cubic sums in float32."""
    for antialias in (0, 1):
        made, x = resize(dtype, (5, 4), mode="cubic", antialias=antialias), image(dtype, rng)
        found = evaluate(convert(made), {"x": x})["y"].astype(np.float64)
        bound = 1 + 2e-6 * np.abs(x.astype(np.float64)).max()
        assert np.abs(found - reference(made, x).astype(np.float64)).max() <= bound


@pytest.mark.parametrize("target", [
    "cpu", "opencl", "accel:tiny-1x4x4", pytest.param("cuda:emulated", marks=pytest.mark.slow)])
def test_bytes_are_resized_alike_on_every_target(target: str, rng: np.random.Generator) -> None:
    made, x = resize("uint8", (5, 4), mode="cubic", antialias=1), image("uint8", rng)
    found = lockstep.compile(made, target=target, cache=False)({"x": x})["y"]
    np.testing.assert_array_equal(found, evaluate(convert(made), {"x": x})["y"])


def test_sampled_integers_are_those_of_the_same_floats(rng: np.random.Generator) -> None:
    """The reference itself cuts the sums of integers."""
    places = (rng.integers(-9, 10, (1, 3, 4, 2)) / 8).astype(np.float32)
    grid, x = helper.make_tensor("grid", TensorProto.FLOAT, places.shape, places.reshape(-1)), (
        image("int16", rng))
    found, floats = (evaluate(convert(model("GridSample", dtype, [grid], (1, 2, 3, 4))),
                              {"x": x.astype(dtype)})["y"] for dtype in ("int16", "float64"))
    np.testing.assert_array_equal(found, np.rint(floats))
