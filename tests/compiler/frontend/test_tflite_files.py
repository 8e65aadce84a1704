"""Files that TensorFlow wrote (`tests/models/make.py`), whole, against LiteRT."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import OpResolverType

import lockstep
from accel.mapping.target import AccelTarget
from bench.networks.front_ends import measure, steps_of_operators
from compiler.frontend.models import graph_of
from compiler.graph.passes.pipeline import optimize, standard_passes
from compiler.graph.reference import evaluate
from tests.support.machines import TINY
from tests.support.tflite_files import interpreted

MODELS = Path(__file__).parents[2] / "models"
DEFAULT = OpResolverType.BUILTIN
FLOAT, INT8 = ("images", "tokens", "series"), ("images-int8", "tokens-int8", "series-int8")
STEPS = {"images-int8": 1, "tokens-int8": 3, "series-int8": 3}
"""Beside an accelerator every operator is within one step; what 30 and more in a row make of that.
LiteRT's own sets of kernels are up to 4 steps apart for `tokens-int8`.
"""


def drawn(graph, seed=5):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-128, 128, graph.values[name].shape).astype(np.int8)
            if graph.values[name].dtype == "int8" else
            rng.normal(size=graph.values[name].shape).astype(np.float32) for name in graph.inputs}


@pytest.mark.parametrize("name", FLOAT)
def test_float_files(name):
    path = MODELS / f"{name}.tflite"
    graph = graph_of(path)
    arrays = drawn(graph)
    wanted, = interpreted(path.read_bytes(), list(arrays.values()))
    given, = evaluate(optimize(graph), arrays).values()
    assert np.abs(given - wanted).max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("name", INT8)
def test_int8_files_are_what_litert_computes_to_the_bit(name):
    path = MODELS / f"{name}.tflite"
    graph = graph_of(path)
    exact, near = (optimize(graph, standard_passes(exact=exact)) for exact in (True, False))
    for seed in range(3):
        arrays = drawn(graph, seed)
        wanted, = interpreted(path.read_bytes(), list(arrays.values()), DEFAULT)
        assert len(np.unique(wanted)) > 3
        given, = evaluate(exact, arrays).values()
        np.testing.assert_array_equal(given, wanted)
        beside_an_accelerator, = evaluate(near, arrays).values()
        assert np.abs(beside_an_accelerator.astype(int) - wanted).max() <= STEPS[name]


@pytest.mark.parametrize("name", INT8)
def test_operators_of_int8_files_are_exact(name):
    path = MODELS / f"{name}.tflite"
    worst = steps_of_operators(path, list(drawn(graph_of(path)).values()))
    assert len(worst) > 8
    assert max(worst.values()) == 0


def test_the_processor_computes_them_to_the_bit():
    figures = measure(MODELS / "series-int8.tflite")
    assert (figures.error, figures.operators) == (0, 0)
    assert figures.own and figures.holds            # LiteRT's own kernels give something else


def test_names_are_those_of_the_signature():
    graph = graph_of(MODELS / "images.tflite")
    assert graph.inputs == ("image",)
    assert graph.outputs == ("output_0",)


def test_images_are_turned_where_forms_meet_and_nowhere_else():
    """At the input, and around upsampling, which TensorFlow writes as reshapes."""
    ops = [node.op for node in optimize(graph_of(MODELS / "images-int8.tflite")).nodes]
    assert ops.count("transpose") <= 5
    assert "conv2d" not in ops and ops.count("qconv2d") >= 4


@pytest.mark.slow
def test_all_of_a_transformer_is_on_the_accelerator():
    """Its layer normalizations are there operator by operator."""
    graph, target = graph_of(MODELS / "tokens-int8.tflite"), AccelTarget(TINY)
    near = optimize(graph, standard_passes(exact=False))
    assert not near.notes
    assert {node.name: why for node in near.nodes if (why := target.refusal(near, node))} == {}


def test_dilated_convolutions_are_one_operator():
    graph = optimize(graph_of(MODELS / "images.tflite"))
    assert (2, 2) in [node.attrs.get("dilations") for node in graph.nodes]


@pytest.mark.slow
def test_the_accelerator_takes_an_int8_file():
    path = MODELS / "images-int8.tflite"
    module = lockstep.compile(str(path), target="accel:tiny-1x4x4")
    arrays = drawn(module.graph)
    name, = module.graph.inputs
    module.set_input(name, arrays[name])
    module.run()
    on_host = evaluate(optimize(graph_of(path)), arrays)        # with operators of machines
    np.testing.assert_array_equal(module.get_output("output_0"), on_host["output_0"])
    assert module.accelerated


@pytest.mark.slow
def test_a_float_file_is_quantized():
    samples = np.random.default_rng(1).normal(size=(4, 32, 32, 3)).astype(np.float32)
    quantized = lockstep.quantize(str(MODELS / "images.tflite"), calibration=samples)
    assert sum(layer.quantized for layer in quantized.layers) > 10
    assert quantized.decibels is not None and quantized.decibels > 15
