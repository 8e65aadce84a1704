"""The committed digits files: valid, small, fully quantized, accurate, and split as stated."""

import builtins
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
FLOAT, INT8 = DIGITS / "digits-float.onnx", DIGITS / "digits-int8.onnx"
BOTH = pytest.mark.parametrize("path", [FLOAT, INT8], ids=lambda path: path.stem)
LINEAR = {"QuantizeLinear", "DequantizeLinear"}
COMPUTING = ["Conv", "Conv", "Conv", "Conv", "Add", "MaxPool", "Conv",
             "GlobalAveragePool", "Flatten", "Gemm"]


@pytest.fixture(scope="module")
def data() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_data", DIGITS / "data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def int8_graph() -> onnx.GraphProto:
    return onnx.load(str(INT8)).graph


def accuracy(path: Path, images: np.ndarray, labels: np.ndarray) -> float:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    logits = [model.run(["logits"], {"image": image[None]})[0] for image in images]
    return float(np.mean(np.argmax(np.concatenate(logits), axis=1) == labels))


@BOTH
def test_is_valid_onnx(path: Path) -> None:
    model = onnx.load(str(path))
    onnx.checker.check_model(model, full_check=True)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]


@BOTH
def test_takes_one_image_and_gives_ten_logits(path: Path) -> None:
    graph = onnx.load(str(path)).graph
    ports = [
        (port.name, port.type.tensor_type.elem_type,
         [dim.dim_value for dim in port.type.tensor_type.shape.dim])
        for port in [*graph.input, *graph.output]
    ]
    assert ports == [("image", TensorProto.FLOAT, [1, 1, 8, 8]),
                     ("logits", TensorProto.FLOAT, [1, 10])]


@BOTH
def test_every_tensor_has_a_shape(path: Path) -> None:
    graph = onnx.load(str(path)).graph
    known = {value.name for value in [*graph.value_info, *graph.output]}
    assert {name for node in graph.node for name in node.output} <= known


def test_files_are_small() -> None:
    assert FLOAT.stat().st_size + INT8.stat().st_size < 300_000


def test_operators_in_order(int8_graph: onnx.GraphProto) -> None:
    assert [n.op_type for n in int8_graph.node if n.op_type not in LINEAR] == COMPUTING


def test_every_operator_reads_dequantized_and_writes_quantized(
    int8_graph: onnx.GraphProto,
) -> None:
    made_by = {name: node.op_type for node in int8_graph.node for name in node.output}
    readers: dict[str, list[str]] = {}
    for node in int8_graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node.op_type)
    for node in int8_graph.node:
        if node.op_type not in LINEAR:
            assert {made_by[name] for name in node.input} == {"DequantizeLinear"}, node.name
            assert readers[node.output[0]] == ["QuantizeLinear"], node.name
    assert readers["image"] == ["QuantizeLinear"]
    assert made_by["logits"] == "DequantizeLinear"


def test_number_types_of_the_quantized_file(int8_graph: onnx.GraphProto) -> None:
    values = {t.name: numpy_helper.to_array(t) for t in int8_graph.initializer}
    dequantize = {n.output[0]: n for n in int8_graph.node if n.op_type == "DequantizeLinear"}
    for node in int8_graph.node:
        if node.op_type == "QuantizeLinear":
            assert values[node.input[1]].shape == ()
            assert values[node.input[2]].dtype == np.uint8
        if node.op_type in ("Conv", "Gemm"):
            source, weight, bias = (dequantize[name].input for name in node.input)
            assert values[weight[0]].dtype == np.int8 and not values[weight[2]].any()
            assert values[bias[0]].dtype == np.int32 and not values[bias[2]].any()
            assert values[weight[1]].shape == values[weight[0]].shape[:1]
            expected = values[source[1]] * values[weight[1]]
            np.testing.assert_allclose(values[bias[1]], expected, rtol=1e-6)


def test_channels_are_distinguishable(int8_graph: onnx.GraphProto) -> None:
    """No two output channels of a layer are equal, so a permuted channel changes the result."""
    for tensor in int8_graph.initializer:
        if tensor.name.endswith(".weight_quantized"):
            rows = numpy_helper.to_array(tensor).reshape(tensor.dims[0], -1)
            assert len(np.unique(rows, axis=0)) == len(rows), tensor.name


def test_pixels_are_quantized_without_error(int8_graph: onnx.GraphProto) -> None:
    values = {t.name: numpy_helper.to_array(t) for t in int8_graph.initializer}
    pixels = np.arange(17, dtype=np.float32) / 16
    quantized = pixels / values["image_scale"] + values["image_zero_point"]
    assert quantized.tolist() == [8 * pixel for pixel in range(17)]


@BOTH
def test_accuracy_on_held_out_images(path: Path, data: ModuleType) -> None:
    assert accuracy(path, *data.held_out()) >= 0.97


def test_held_out_shapes_and_ranges(data: ModuleType) -> None:
    images, labels = data.held_out()
    assert (images.shape, images.dtype) == ((360, 1, 8, 8), np.float32)
    assert (labels.shape, labels.dtype) == ((360,), np.int64)
    assert (images.min(), images.max()) == (0, 1)
    assert set(labels.tolist()) == set(range(10))


def test_held_out_file_is_the_end_of_the_data_set(data: ModuleType) -> None:
    load_digits = pytest.importorskip("sklearn.datasets").load_digits
    digits = load_digits()
    images, labels = data.held_out()
    np.testing.assert_array_equal(images[:, 0] * 16, digits.images[-360:])
    np.testing.assert_array_equal(labels, digits.target[-360:])


def test_training_images_are_the_rest(data: ModuleType) -> None:
    load_digits = pytest.importorskip("sklearn.datasets").load_digits
    digits = load_digits()
    images, labels = data.training()
    np.testing.assert_array_equal(images[:, 0] * 16, digits.images[:1437])
    np.testing.assert_array_equal(labels, digits.target[:1437])


def test_training_without_scikit_learn_wrong(
    data: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    message = "^the training digits need scikit-learn: pip install scikit-learn$"
    with pytest.raises(ModuleNotFoundError, match=message):
        data.training()


def test_held_out_needs_neither_scikit_learn_nor_torch(
    data: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_import = builtins.__import__

    def numpy_only(name: str, *rest: object) -> ModuleType:
        assert name.split(".")[0] not in ("sklearn", "torch", "onnx", "onnxruntime"), name
        return real_import(name, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(builtins, "__import__", numpy_only)
    data.held_out()
