"""Keras 3's files, built on its torch back end: outputs, names, extents, transposes, refusals."""

import importlib.util
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
if importlib.util.find_spec("keras") is None:
    pytest.skip("needs keras, of the extra keras", allow_module_level=True)
pytestmark = [
    pytest.mark.slow,                   # Keras and torch take seconds to import and to trace
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]

import lockstep                                         # noqa: E402
from compiler.frontend import ImportRefused      # noqa: E402
from compiler.frontend.keras3 import models as keras_export      # noqa: E402
from compiler.frontend.models import graph_of           # noqa: E402
from compiler.graph.passes.pipeline import optimize      # noqa: E402
from compiler.graph.reference import evaluate           # noqa: E402

def saved(tmp_path, model):
    path = tmp_path / "network.keras"
    model.save(path)
    return path


@pytest.fixture(scope="module")
def keras():
    keras = keras_export.on_torch("tests")
    keras.utils.set_random_seed(1)
    return keras


@pytest.fixture
def images(keras, tmp_path):
    layers = keras.layers
    x = given = keras.Input((16, 16, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    y = layers.DepthwiseConv2D(3, padding="same", activation="relu")(x)
    x = layers.Concatenate()([layers.Add()([x, y]), y])
    x = layers.MaxPooling2D(2)(layers.ZeroPadding2D(1)(x))
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 1)(x))
    model = keras.Model(given, layers.Dense(5, name="logits")(x))
    return model, saved(tmp_path, model)


def error(model, path, shape, graph=None):
    graph = optimize(graph or graph_of(path))
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    wanted = np.asarray(model(x, training=False).detach())
    given, = evaluate(graph, {graph.inputs[0]: x}).values()
    return np.abs(given - wanted).max() / np.abs(wanted).max()


def test_images(images):
    model, path = images
    graph = graph_of(path)
    assert graph.inputs == ("image",) and graph.outputs == ("logits",)
    assert error(model, path, (1, 16, 16, 3)) < 1e-5
    ops = [node.op for node in optimize(graph).nodes]
    assert ops.count("transpose") == 1 and ops.count("conv2d") == 3
    assert "sub" not in ops                     # batch norms lie in the weights


def test_extents_are_told_or_taken_from_arrays(images):
    model, path = images
    assert error(model, path, (3, 16, 16, 3), graph_of(path, {"image.0": 3})) < 1e-5
    graph = graph_of(path, arrays={"image": np.zeros((2, 16, 16, 3), np.float32)})
    assert graph.values["logits"].shape == (2, 5)
    with pytest.raises(ImportRefused, match=r"--shape n=3 names no dimension of the inputs; the "
                                            r"open ones are: image\.0"):
        graph_of(path, {"n": 3})


def test_sequences_and_attention(keras, tmp_path):
    layers = keras.layers
    x = given = keras.Input((12, 8))
    x = layers.LSTM(6, return_sequences=True)(layers.Conv1D(8, 3, padding="causal")(x))
    x = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(2, 4)(x, x)
    model = keras.Model(given, layers.Dense(3, activation="softmax")(layers.Flatten()(x)))
    assert error(model, saved(tmp_path, model), (1, 12, 8)) < 1e-5


def test_several_inputs_and_outputs(keras, tmp_path):
    layers = keras.layers
    one, two = keras.Input((4,), name="one"), keras.Input((6,), name="two")
    both = layers.Concatenate()([layers.Dense(3)(one), layers.Dense(3)(two)])
    model = keras.Model([one, two], [layers.Dense(2, name="a")(both),
                                     layers.Dense(1, name="b")(both)])
    graph = graph_of(saved(tmp_path, model))
    assert graph.inputs == ("one", "two") and graph.outputs == ("a", "b")
    arrays = {"one": np.ones((1, 4), np.float32), "two": np.ones((1, 6), np.float32)}
    for given, wanted in zip(evaluate(graph, arrays).values(), model(list(arrays.values()))):
        np.testing.assert_allclose(given, wanted.detach(), rtol=1e-5, atol=1e-6)


def test_a_network_is_quantized_and_compiled(images):
    _, path = images
    samples = np.random.default_rng(1).normal(size=(4, 16, 16, 3)).astype(np.float32)
    quantized = lockstep.quantize(str(path), calibration=samples)
    assert all(layer.quantized for layer in quantized.layers)
    module = lockstep.compile(str(path), target="cpu", cache=False)
    assert module({"image": samples[:1]})["logits"].shape == (1, 5)


def test_what_keras_cannot_read(tmp_path, keras, images):
    import zipfile

    path = tmp_path / "other.keras"
    with zipfile.ZipFile(images[1]) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data.replace(b'"ReLU"', b'"None"'))
    with pytest.raises(ImportRefused, match="Keras cannot read it: "):
        graph_of(path)
    with pytest.raises(ImportRefused, match="no such file; give the path of a .keras file"):
        graph_of(tmp_path / "none.keras")


def test_another_back_end_is_refused(images, keras, monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ImportRefused, match="Keras must run on torch, not jax, which this process "
                                            "chose; set KERAS_BACKEND=torch"):
        graph_of(images[1])


def test_without_keras_the_extra_is_named(images, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(ImportRefused, match=r"install lockstep-hw\[keras\]"):
        keras_export.read(images[1])
