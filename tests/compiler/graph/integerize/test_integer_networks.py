"""Whole networks: ONNX Runtime's own quantizer, and the trained digits model."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend import convert, load
from compiler.graph import evaluate, optimize, partition, standard_passes

DIGITS = Path(__file__).resolve().parents[4] / "examples" / "digits"
ON_HOST = ("quantize", "dequantize", "to_int8", "to_uint8")


def assert_close(layers: list, names: list[str]) -> None:
    assert [layer.name for layer in layers] == names
    for layer in layers:
        assert layer.largest <= 1 and layer.equal >= 0.995, layer


def of_batch(path: Path, images: int) -> onnx.ModelProto:
    """The model with another number of images."""
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = images
    del model.graph.value_info[:]
    return model


@pytest.fixture(scope="module")
def held_out() -> tuple[np.ndarray, np.ndarray]:
    data = np.load(DIGITS / "held_out.npz")
    pixels = data["pixels"].reshape(-1, 1, 8, 8)
    return (pixels / np.float32(16)).astype(np.float32), data["labels"]


def test_digits_text(golden) -> None:
    golden("graph_digits.txt", str(optimize(load(DIGITS / "digits-int8.onnx"))))


def test_digits_layers(layer_differences, held_out) -> None:
    images, _ = held_out
    layers = layer_differences(of_batch(DIGITS / "digits-int8.onnx", len(images)),
                               {"image": images})
    assert_close(layers, ["image_QuantizeLinear", "conv1", "conv2", "conv3", "conv4", "add",
                          "conv5", "average", "dense"])


def test_digits_classes(onnx_values, held_out) -> None:
    images, labels = held_out
    model = of_batch(DIGITS / "digits-int8.onnx", len(images))
    ours = evaluate(optimize(convert(model)), {"image": images})["logits"].argmax(axis=1)
    theirs = onnx_values(model, {"image": images})["logits"].argmax(axis=1)
    np.testing.assert_array_equal(ours, theirs)
    assert np.mean(ours == labels) > 0.97


@pytest.mark.parametrize("name", ["digits-int8", "digits-float"])
def test_digits_in_float(onnx_values, held_out, name) -> None:
    images, _ = held_out
    model = of_batch(DIGITS / f"{name}.onnx", len(images))
    graph = optimize(convert(model), standard_passes(integerize=False))
    ours, theirs = evaluate(graph, {"image": images}), onnx_values(model, {"image": images})
    far = np.abs(ours["logits"] - theirs["logits"])
    assert np.mean(far < 1e-4) > 0.999 and far.max() < 0.05


def test_digits_partition() -> None:
    """One stretch on the accelerator, from the quantized image to the quantized logits."""
    graph = optimize(load(DIGITS / "digits-int8.onnx"))
    divided = partition(graph, lambda node: "host" if node.op in ON_HOST else None)
    assert [segment.target for segment in divided.segments] == ["host", "accel", "host"]
    assert [copy.value for copy in divided.copies] == [
        "image_QuantizeLinear_Output_stored", "logits_QuantizeLinear_Output_stored"]


def residual_network() -> onnx.ModelProto:
    """conv, relu, pool, conv + shortcut, relu, strided conv, mean, dense; any batch."""
    rng = np.random.default_rng(7)
    constants = []

    def weight(name: str, *shape: int) -> str:
        data = rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
        constants.append(numpy_helper.from_array(data.astype(np.float32), name))
        return name

    def layer(op: str, name: str, *inputs: str, **attrs):
        return helper.make_node(op, inputs, [name], name, **attrs)

    pads = {"pads": [1, 1, 1, 1]}
    nodes = [
        layer("Conv", "c1", "x", weight("w1", 8, 3, 3, 3), weight("b1", 8), **pads),
        layer("Relu", "r1", "c1"),
        layer("MaxPool", "p", "r1", kernel_shape=[3, 3], strides=[2, 2], **pads),
        layer("Conv", "c2", "p", weight("w2", 8, 8, 3, 3), weight("b2", 8), **pads),
        layer("Add", "a", "c2", "p"),
        layer("Relu", "r2", "a"),
        layer("Conv", "c3", "r2", weight("w3", 12, 8, 1, 1), weight("b3", 12), strides=[2, 2]),
        layer("GlobalAveragePool", "g", "c3"),
        layer("Flatten", "f", "g"),
        layer("Gemm", "y", "f", weight("w4", 10, 12), weight("b4", 10), transB=1),
    ]
    graph = helper.make_graph(
        nodes, "residual", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 9, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(scope="module", params=["uint8", "int8"])
def quantized(request, tmp_path_factory) -> Path:
    """The residual network, quantized by ONNX Runtime with calibration."""
    pytest.importorskip("onnxruntime")
    from onnxruntime import quantization as q
    folder = tmp_path_factory.mktemp("quantized")
    onnx.save(residual_network(), folder / "float.onnx")
    rng = np.random.default_rng(8)
    batches = iter([{"x": rng.normal(size=(16, 3, 9, 8)).astype(np.float32)} for _ in range(4)])

    class Reader(q.CalibrationDataReader):
        def get_next(self):  # pyright: ignore[reportIncompatibleMethodOverride]
            return next(batches, None)

    kind = {"uint8": q.QuantType.QUInt8, "int8": q.QuantType.QInt8}[request.param]
    q.quantize_static(folder / "float.onnx", folder / "int8.onnx", Reader(), q.QuantFormat.QDQ,
                      per_channel=True, activation_type=kind, weight_type=q.QuantType.QInt8)
    return folder / "int8.onnx"


def test_quantizer_of_onnx_runtime(quantized, layer_differences, rng) -> None:
    graph = optimize(load(quantized, {"N": 4}))
    assert graph.notes == ()
    assert [node.op for node in graph.nodes] == [
        "quantize", "qconv2d", "qmaxpool", "qconv2d", "qadd", "qconv2d", "qglobalavgpool",
        "reshape", "qdense", "dequantize"]
    model = onnx.load(quantized)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 40
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 40
    layers = layer_differences(model, {"x": rng.normal(size=(40, 3, 9, 8)).astype(np.float32)})
    assert_close(layers, ["x_QuantizeLinear", "c1", "c2", "a", "c3", "g", "y"])
