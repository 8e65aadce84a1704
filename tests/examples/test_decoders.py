"""Decoders: a step at a time gives what all tokens at once give, to the bit, in one segment."""

import numpy as np
import onnx
import pytest

import lockstep
from compiler.frontend.onnx.importing import convert
from compiler.graph import evaluate, optimize
from compiler.graph.passes.pipeline import standard_passes
from examples import zoo
from lockstep.testing.networks import decoders
from tests.support.decoders import (ONE_LAYER, SIZES, TOKENS, Array, both, machine, made, tokens)
from tests.support.onnx_runtime import run_onnx


@pytest.fixture(params=["gpt", "llama"])
def kind(request) -> str:
    return request.param


def remember(caches: dict[str, Array], net: zoo.ZooNetwork, made: dict[str, Array], position: int
             ) -> None:
    """Puts the rows of a step into the caches."""
    for name, row in decoders.states(net).items():
        axis = made[row].shape.index(1)
        np.moveaxis(caches[name], axis, 0)[position] = np.moveaxis(made[row], axis, 0)[0]


@pytest.mark.parametrize("step", [False, True])
def test_files_are_valid_and_typed(kind: str, step: bool) -> None:
    one = made(kind, step, SIZES[kind])
    for model in (one.real, one.int8):
        onnx.checker.check_model(model, full_check=True)
    assert one.graph.inputs == (
        ("embeddings", "position", *one.caches()) if step else ("embeddings",))
    assert len(one.graph.outputs) == 1 + 2 * SIZES[kind].layers


@pytest.mark.one_in(2)
def test_the_float_models_mean_what_the_calibration_computes(kind: str) -> None:
    pytest.importorskip("onnxruntime")
    x, (whole, step) = tokens(kind), both(kind)
    wanted = run_onnx(whole.real, {"embeddings": x})["logits"]
    found = evaluate(optimize(convert(whole.real), ()), {"embeddings": x})["logits"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    caches = step.caches(7.0)
    for position in range(TOKENS):
        results = run_onnx(step.real, {"embeddings": x[position:position + 1],
                                       "position": np.array([position]), **caches})
        np.testing.assert_allclose(results["logits"][0], wanted[position], rtol=1e-3, atol=1e-3)
        remember(caches, step.net, results, position)


@pytest.mark.parametrize("step", [False, True])
def test_all_layers_are_integer_operators(kind: str, step: bool) -> None:
    graph = made(kind, step, SIZES[kind]).graph
    ends = {"quantize", "dequantize", "less_equal", "gather", "where", "reshape", "transpose",
            "slice"}
    assert graph.notes == ()
    assert {node.op for node in graph.nodes if node.op[0] != "q" or node.op in ends} <= ends


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", pytest.param("gpt", marks=pytest.mark.slow)])
def test_samples_quantize_a_step(kind: str) -> None:
    """Without ranges of the whole network: caches have the scales of the rows that they take."""
    step, rng = made(kind, True, ONE_LAYER[kind]), np.random.default_rng(3)
    samples = {name: rng.standard_normal((6, *step.net.shapes[name]), np.float32)
               for name in ("embeddings", *step.caches())}
    found = lockstep.quantize(step.real, calibration={
        **samples, "position": rng.integers(0, TOKENS, (6, 1))})
    assert {layer.op for layer in found.layers if not layer.quantized} == {"less_equal", "gather"}
    assert (found.decibels or 0) > 20 and not optimize(found.graph).notes


def test_int8_follows_float(kind: str) -> None:
    x, (whole, _) = tokens(kind), both(kind)
    wanted = evaluate(optimize(convert(whole.int8), standard_passes(False)), {"embeddings": x})
    real = evaluate(optimize(convert(whole.real)), {"embeddings": x})["logits"]
    found = evaluate(whole.graph, {"embeddings": x})["logits"]
    for other, most in ((real, 0.03), (wanted["logits"], 0.01)):
        assert np.square(found - other).sum() < most * np.square(other).sum()


def test_steps_give_what_the_whole_gives(kind: str) -> None:
    """To the bit, whatever the caches hold beyond the position."""
    x, (whole, step) = tokens(kind), both(kind)
    wanted = evaluate(whole.graph, {"embeddings": x})["logits"]
    caches = step.caches(7.0)
    for position in range(TOKENS):
        results = evaluate(step.graph, {"embeddings": x[position:position + 1],
                                        "position": np.array([position]), **caches})
        np.testing.assert_array_equal(results["logits"][0], wanted[position], str(position))
        remember(caches, step.net, results, position)


@pytest.mark.slow
@pytest.mark.parametrize("kind, step", [
    ("gpt", True), *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("gpt", False), ("llama", False), ("llama", True)))])
def test_all_int8_layers_are_one_segment(kind: str, step: bool) -> None:
    one = made(kind, step, ONE_LAYER[kind])
    module = lockstep.compile(convert(one.int8), "accel,cpu", machine=machine())
    assert [segment.target for segment in module.partition.segments] == ["host", "accel", "host"]
    x = tokens(kind)
    feeds = {"embeddings": x[3:4], "position": np.array([3]), **one.caches(0.5)} if step else {
        "embeddings": x}
    found, wanted = module(feeds), evaluate(one.graph, feeds)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, name)


@pytest.mark.parametrize("name", ["gpt_small", "llama_small"])
def test_macs_of_the_whole_networks(name: str) -> None:
    """A token has its share of a step's products, but for those with what it doesn't see."""
    sizes, tokens = {"gpt_small": decoders.GPT, "llama_small": decoders.LLAMA}[name], 64
    width, inner = sizes.width, sizes.groups * sizes.depth
    weights = 2 * width * width + 2 * width * inner + (
        2 if name == "gpt_small" else 3) * width * sizes.hidden
    one = sizes.layers * (weights + 2 * tokens * width) + width * sizes.words
    assert sum(zoo.network(f"{name}_step", tokens).macs()) == one
    assert sum(zoo.network(name, tokens).macs()) == tokens * one


def test_a_batch_is_refused(tmp_path, capsys) -> None:
    assert zoo.main(["gpt_small", "--batch", "2", "-o", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err == ("zoo: error: --batch must be 1 for gpt_small, which takes "
                                       "one sequence, not 2\n")
