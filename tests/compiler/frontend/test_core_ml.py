"""Core ML's files (`tests/models/make_coreml.py`) against PyTorch, and operations against NumPy."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

if importlib.util.find_spec("coremltools") is None:
    pytest.skip("needs coremltools, of the extra coreml", allow_module_level=True)

from compiler.frontend import ImportRefused
from compiler.frontend.core_ml.messages import messages
from compiler.frontend.models import graph_of
from compiler.graph.passes.pipeline import optimize
from compiler.graph.reference import evaluate

MODELS = Path(__file__).parents[2] / "models"
FILES = ("pictures.mlpackage", "pictures.mlmodel", "words.mlpackage", "words.mlmodel")
SPEC = Path("Data") / "com.apple.CoreML" / "model.mlmodel"
PAGE = "; replace these in the model (docs/frontends.md says what is supported)"


def floats(elements):
    return np.array(elements, np.float32)


def refusal(path) -> str:
    with pytest.raises(ImportRefused) as refused:
        graph_of(path)
    assert "\n" not in str(refused.value)
    return str(refused.value).replace(f"{path}: ", "", 1)


@pytest.mark.parametrize("name", FILES)
def test_files_against_pytorch(name):
    graph = graph_of(MODELS / name)
    with np.load(MODELS / f"{Path(name).stem}.npz") as told:
        x, wanted = told["x0"], told["y0"]
    given, = evaluate(optimize(graph), {"x": x}).values()
    assert graph.inputs == ("x",)
    assert np.abs(given - wanted).max() < 1e-5 * np.abs(wanted).max()


# ---- programs of one operation -------------------------------------------------------------------

def program(tmp_path, kind: str, extents, out_extents, dtype="FLOAT32", /, **arguments
            ) -> Path:
    """A program of one operation of x; arguments are numbers, flags, texts, lists and arrays."""
    mil, spec = messages("MIL"), messages("Model").Model()
    function = spec.mlProgram.functions["main"]
    function.opset = "CoreML7"
    given = function.inputs.add(name="x")
    typed(mil, given.type, dtype, extents)
    block = function.block_specializations["CoreML7"]
    operation = block.operations.add(type=kind)
    operation.inputs["x"].arguments.add(name="x")
    for name, value in arguments.items():
        constant(mil, operation.inputs[name].arguments.add().value, value)
    typed(mil, operation.outputs.add(name="y").type, dtype, out_extents)
    block.outputs.append("y")
    path = tmp_path / "m.mlmodel"
    path.write_bytes(spec.SerializeToString())
    return path


def typed(messages, type_, kind, shape):
    type_.tensorType.dataType = getattr(messages, kind)
    type_.tensorType.rank = len(shape)
    for extent in shape:
        type_.tensorType.dimensions.add().constant.size = extent


def constant(messages, value, given):
    if isinstance(given, str):
        typed(messages, value.type, "STRING", ())
        value.immediateValue.tensor.strings.values.append(given)
        return
    array = np.asarray(given)
    kind, field = {"b": ("BOOL", "bools"), "i": ("INT32", "ints"), "f": ("FLOAT32", "floats")}[
        array.dtype.kind]
    typed(messages, value.type, kind, array.shape)
    getattr(value.immediateValue.tensor, field).values.extend(array.reshape(-1).tolist())


X = np.random.default_rng(0).normal(size=(2, 4, 6, 5)).astype(np.float32)
SIGMOID = lambda x: 1 / (1 + np.exp(-x))                                            # noqa: E731
MEAN, VARIANCE = floats([0.1, -0.2, 0.3, 0]), floats([1, 2, 0.5, 1.5])
WIDE = (slice(None), None, None)
OPERATIONS = {
    "relu6": ({}, np.clip(X, 0, 6)),
    "clip": ({"alpha": -0.5, "beta": 0.25}, np.clip(X, -0.5, 0.25)),
    "leaky_relu": ({"alpha": 0.2}, np.where(X > 0, X, np.float32(0.2) * X)),
    "prelu": ({"alpha": MEAN}, np.where(X > 0, X, MEAN[WIDE] * X)),
    "thresholded_relu": ({"alpha": 0.5}, np.where(X >= 0.5, X, 0)),
    "clamped_relu": ({"alpha": 0.1, "beta": 0.7}, np.minimum(0.7, np.where(X > 0, X, 0.1 * X))),
    "sigmoid_hard": ({"alpha": 0.3, "beta": 0.4}, np.clip(0.3 * X + 0.4, 0, 1)),
    "scaled_tanh": ({"alpha": 2.0, "beta": 0.5}, 2 * np.tanh(0.5 * X)),
    "linear_activation": ({"alpha": 2.0, "beta": -1.0}, 2 * X - 1),
    "silu": ({}, X * SIGMOID(X)),
    "gelu": ({"mode": "SIGMOID_APPROXIMATION"}, X * SIGMOID(1.702 * X)),
    "square": ({}, X * X),
    "inverse": ({"epsilon": 9.0}, 1 / (X + 9)),
    "rsqrt": ({"epsilon": 9.0}, (X + 9) ** -0.5),
    "softmax": ({"axis": 1}, np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    "batch_norm": ({"mean": MEAN, "variance": VARIANCE, "gamma": VARIANCE, "beta": MEAN,
                    "epsilon": 1e-3}, (X - MEAN[WIDE]) / np.sqrt(VARIANCE + 1e-3)[WIDE]
                   * VARIANCE[WIDE] + MEAN[WIDE]),
    "layer_norm": ({"axes": [3], "epsilon": 1e-3}, (X - X.mean(3, keepdims=True))
                   / np.sqrt(X.var(3, keepdims=True) + 1e-3)),
    "reduce_mean": ({"axes": [2, 3], "keep_dims": True}, X.mean((2, 3), keepdims=True)),
    "reduce_l2_norm": ({"axes": [1]}, np.sqrt((X * X).sum(1))),
    "squeeze": ({}, X), "transpose": ({"perm": [0, 2, -1, 1]}, X.transpose(0, 2, 3, 1)),
    "reshape": ({"shape": [2, -1]}, X.reshape(2, -1)),
    "slice_by_index": ({"begin": [0, 1, -2, 4], "end": [0, 3, 0, 0], "stride": [1, 1, 1, -2],
                        "begin_mask": [True, False, False, False],
                        "end_mask": [True, False, True, True],
                        "squeeze_mask": [False, False, False, False]}, X[:, 1:3, -2:, 4::-2]),
    "slice_by_size": ({"begin": [0, 1, 0, 0], "size": [2, 2, -1, 3]}, X[:, 1:3, :, :3]),
    "pad": ({"pad": [1, 0, 0, 2], "mode": "constant", "constant_val": 3.0}, np.pad(
        X, [(0, 0), (0, 0), (1, 0), (0, 2)], constant_values=3)),
    "crop": ({"crop_height": [1, 2], "crop_width": [0, 1]}, X[:, :, 1:4, :4]),
    "tile": ({"reps": [1, 2, 1, 1]}, np.tile(X, (1, 2, 1, 1))),
    "reverse": ({"axes": [2]}, X[:, :, ::-1]),
    "flatten2d": ({"axis": 2}, X.reshape(8, 30)),
    "expand_dims": ({"axes": [1]}, X[:, None]),
    "cumsum": ({"axis": 1}, X.cumsum(1)),
    "upsample_nearest_neighbor": ({"scale_factor_height": 2.0, "scale_factor_width": 1.0},
                                  X.repeat(2, 2)),
    "linear": ({"weight": np.ones((3, 5), np.float32), "bias": floats([1, 2, 3])},
               X.sum(3, keepdims=True) + floats([1, 2, 3])),
    "max_pool": ({"kernel_sizes": [6, 1], "strides": [1, 1], "pad_type": "valid",
                  "ceil_mode": False}, X.max(2, keepdims=True)),
}


@pytest.mark.parametrize("kind", OPERATIONS)
def test_operation_against_numpy(kind, tmp_path):
    arguments, wanted = OPERATIONS[kind]
    graph = graph_of(program(tmp_path, kind, X.shape, wanted.shape, **arguments))
    given = evaluate(graph, {"x": X})["y"]
    assert given.shape == wanted.shape
    np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=2e-6)


def test_convolutions_pad_as_told(tmp_path):
    weight = np.zeros((1, 4, 3, 3), np.float32)
    weight[0, 2, 0, 1] = 1
    path = program(tmp_path, "conv", X.shape, (2, 1, 7, 3), weight=weight, pad_type="custom",
                   pad=[2, 1, 0, 0], strides=[1, 1], dilations=[1, 1], groups=1)
    given = evaluate(graph_of(path), {"x": X})["y"]
    wanted = np.pad(X[:, 2:3], [(0, 0), (0, 0), (2, 0), (0, 0)])[:, :, :7, 1:4]
    np.testing.assert_allclose(given, wanted)


def test_float16_is_computed_in_float32_between_inputs_and_outputs_of_float16(tmp_path):
    graph = graph_of(program(tmp_path, "square", X.shape, X.shape, "FLOAT16"))
    assert graph.values["x"].dtype == graph.values["y"].dtype == "float16"
    assert {kind.dtype for name, kind in graph.values.items() if name not in "xy"} == {"float32"}


def test_what_is_refused_is_told_with_its_name(tmp_path):
    assert refusal(program(tmp_path, "non_zero", (4,), (4, 1))) == (
        f"cannot import y (non_zero): operation is not supported{PAGE}")
    assert refusal(program(tmp_path, "pad", X.shape, X.shape, pad=[0] * 8, mode="circular")) == (
        "cannot import y (pad): its mode must be constant, reflect or replicate, not circular"
        + PAGE)


def test_layers_that_are_refused_are_all_in_one_line(tmp_path):
    spec = messages("Model").Model()
    spec.ParseFromString((MODELS / "pictures.mlmodel").read_bytes())
    for layer in spec.neuralNetwork.layers:
        if layer.WhichOneof("layer") == "upsample":
            layer.whereNonZero.SetInParent()
    path = tmp_path / "m.mlmodel"
    path.write_bytes(spec.SerializeToString())
    text = refusal(path)
    assert text.count("(whereNonZero): layer is not supported") == 2


def test_arrays_of_five_dimensions_are_refused(tmp_path):
    spec = messages("Model").Model()
    spec.ParseFromString((MODELS / "words.mlmodel").read_bytes())
    spec.neuralNetwork.arrayInputShapeMapping = 0
    path = tmp_path / "m.mlmodel"
    path.write_bytes(spec.SerializeToString())
    assert refusal(path) == (
        "input 'x' must be an array of the rank that it is declared with; convert the network "
        "again with coremltools 4 or newer")


def test_trees_and_files_of_nothing_are_refused(tmp_path):
    spec = messages("Model").Model()
    spec.treeEnsembleClassifier.SetInParent()
    path = tmp_path / "m.mlmodel"
    path.write_bytes(spec.SerializeToString())
    assert refusal(path) == ("must be an ML program or a neural network, not "
                             "treeEnsembleClassifier; convert the network itself with coremltools")
    path.write_bytes(b"\xff\x01")
    assert refusal(path) == "is not a Core ML model; give an .mlmodel or .mlpackage"
    assert "no such file" in refusal(tmp_path / "none.mlmodel")


def test_weights_must_lie_in_the_package_and_be_whole(tmp_path):
    path = tmp_path / "m.mlpackage"
    shutil.copytree(MODELS / "pictures.mlpackage", path)
    weights = path / SPEC.parent / "weights" / "weight.bin"
    weights.write_bytes(weights.read_bytes()[:200])
    assert "cannot import" in refusal(path) or "is damaged" in refusal(path)
    weights.unlink()
    assert "must lie beside it" in refusal(path)
