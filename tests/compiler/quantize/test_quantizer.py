"""Float models quantized: judged by ONNX's checker, ONNX Runtime and our integer operators."""

import math
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from compiler.frontend import convert
from compiler.graph import optimize
from compiler.quantize import Quantized, QuantizeRefused, quantize
from compiler.quantize.quantizer import USABLE_DECIBELS
from compiler.quantize.ranges.calibration import BATCH
from tests.support.onnx_runtime import compare_layers

ALL = {"equalize": True, "bias_correction": True}


def branched(one):
    """Every operator that has an integer form."""
    x = one.input("x", "n", 4, 8, 8)
    a = one.add("Relu", one.norm(one.conv(x, 4, 8, name="first"), 8))
    b = one.conv(a, 8, 8, group=8, name="depthwise")
    b = one.add("Clip", b, one.constant(np.float32(0)), one.constant(np.float32(6)))
    y = one.add("Concat", one.add("Add", a, b, name="sum"),
                one.add("MaxPool", a, kernel_shape=[3, 3], pads=[1] * 4), axis=1, name="join")
    y = one.add("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2], name="pool")
    y = one.add("LeakyRelu", one.conv(y, 16, 6, name="last"), alpha=0.1, name="slope")
    y = one.add("ConvTranspose", y, one.random(6, 5, 2, 2, scale=0.4), strides=[2, 2], name="up")
    scales = one.constant(np.array([1, 1, 2, 2], np.float32))
    y = one.add("Resize", y, "", scales, mode="nearest", name="repeat",
                coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    y = one.add("Flatten", one.add("GlobalAveragePool", y, name="mean"))
    return one.dense(y, 5, 10, name="classes")


def chain(one, layers: int = 3) -> str:
    x = one.input("x", "n", 3, 6, 6)
    for i in range(layers):
        x = one.add("Relu", one.conv(x, 3 if i == 0 else 8, 8, name=f"conv{i}"))
    return one.dense(one.add("Flatten", one.add("GlobalAveragePool", x)), 8, 10, name="classes")


def decibels(made: Quantized) -> float:
    return math.inf if made.decibels is None else made.decibels


@pytest.fixture
def samples(rng) -> np.ndarray:
    return rng.standard_normal((32, 4, 8, 8), np.float32)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", [{}, {"observer": "percentile", "percentile": 99},
                                     {"observer": "mse"}, ALL])
def test_every_operator(float_model, onnx_runtime, samples, options) -> None:
    """Follows the float network; integer results equal ONNX Runtime's, all but a few in a
    thousand, and those by one step.
    """
    one = float_model()
    model = one.model(branched(one))
    made = quantize(model, samples, **options)
    onnx.checker.check_model(made.model, full_check=True)
    assert all(layer.quantized for layer in made.layers), made.layers
    assert decibels(made) > 20
    real, = onnx_runtime(model, {"x": samples})
    quantized, = onnx_runtime(made.model, {"x": samples})
    wrong = 10 * np.log10(np.sum(real**2) / np.sum((real - quantized)**2))
    assert wrong == pytest.approx(made.decibels, abs=0.5)

    graph = optimize(convert(made.model, shapes={"n": 32}))
    assert graph.notes == ()
    assert Counter(node.op for node in graph.nodes if node.op.endswith("quantize")) == {
        "quantize": 1, "dequantize": 1}
    layers = compare_layers(made.model, {"x": samples}, {"n": 32})
    assert len(layers) >= 10
    for layer in layers:
        assert layer.largest <= 1 and layer.equal >= 0.995, layer


def test_structure(float_model, samples) -> None:
    """Joined values and what moves share scales; activations are in the ranges."""
    one = float_model()
    graph = quantize(one.model(branched(one)), samples).model.graph
    kinds = Counter(node.op_type for node in graph.node)
    assert not {"Relu", "BatchNormalization"} & set(kinds) and kinds["Conv"] == 3
    parameters = {node.output[0]: node.input[1:] for node in graph.node
                  if node.op_type == "DequantizeLinear"}
    after = {node.input[0]: node.input[1:] for node in graph.node
             if node.op_type == "QuantizeLinear"}
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type in ("MaxPool", "Flatten", "Resize"):
            assert parameters[node.input[0]] == after[node.output[0]], node.name
        if node.op_type == "Concat":
            assert len({tuple(arrays[name].item() for name in names) for names in
                        (*(parameters[value] for value in node.input), after[node.output[0]])}) == 1


def test_the_model_is_the_graph(float_model, samples) -> None:
    """Imported again it gives the graph, for the samples' extents and for others."""
    one = float_model()
    made = quantize(one.model(branched(one)), samples, equalize=True, bias_correction=True)
    assert made.fixed == {}
    assert str(convert(made.model, shapes={"n": 4})) == str(made.graph)
    assert str(convert(made.model, shapes={"n": 7})) == str(made.graph_of({"n": 7}))
    given = {"x": samples[:3]}
    assert str(made.graph_of(arrays=given)) == str(made.graph_of({"n": 3}))


def test_extents_that_a_network_does_not_have_wrong(float_model, samples) -> None:
    one = float_model()
    made = quantize(one.model(branched(one)), samples)
    with pytest.raises(QuantizeRefused) as refused:
        made.graph_of({"m": 3})
    assert str(refused.value) == (
        "model: --shape m=3 names no dimension of the inputs; the symbolic ones are: n")


def test_same_arguments_same_bytes(float_model, samples) -> None:
    one = float_model()
    model = one.model(branched(one))
    first, second = (quantize(model, {"x": samples}, observer="mse", equalize=True,
                               bias_correction=True) for _ in range(2))
    assert (first.model.SerializeToString(deterministic=True)
            == second.model.SerializeToString(deterministic=True))
    assert first.layers == second.layers


@pytest.mark.parametrize("name", ["conv1", "relu3"])
def test_keep_float(float_model, onnx_runtime, rng, name) -> None:
    """By any name of the layer; its values are not quantized, its neighbours are."""
    one = float_model()
    model = one.model(chain(one))
    samples = rng.standard_normal((32, 3, 6, 6), np.float32)
    made = quantize(model, samples, keep_float=[name])
    onnx.checker.check_model(made.model, full_check=True)
    kept = [layer for layer in made.layers if not layer.quantized]
    assert [(layer.name, layer.reason) for layer in kept] == [
        ("conv1", "kept in float on request")]
    assert kept[0].alone_db is None and kept[0].accumulated_db is not None
    node, = (node for node in made.model.graph.node if node.name == "conv1")
    assert node.input[1] in one.constants
    graph = optimize(convert(made.model, shapes={"n": 1}))
    assert [note.split()[0] for note in graph.notes] == ["conv1", "relu3"]
    assert Counter(node.op for node in graph.nodes)["qconv2d"] == 2
    assert len(onnx_runtime(made.model, {"x": samples})) == 1


def outlier(one) -> str:
    """A layer one of whose channels is large and then nearly ignored."""
    x = one.input("x", "n", 3, 6, 6)
    x = one.add("Relu", one.conv(x, 3, 8, name="conv0"))
    x = one.add("Relu", one.conv(x, 8, 8, name="bad"))
    weight, bias = list(one.constants)[2:4]
    one.constants[weight][3] *= np.float32(3000)
    one.constants[bias][3] *= np.float32(3000)
    x = one.add("Relu", one.conv(x, 8, 8, name="conv2"))
    one.constants[list(one.constants)[4]][:, 3] /= np.float32(3000)
    return one.dense(one.add("Flatten", one.add("GlobalAveragePool", x)), 8, 10, name="classes")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("budget", ["25dB", 1])
def test_the_outlier_falls_back_under_a_budget(float_model, rng, budget) -> None:
    one = float_model()
    model = one.model(outlier(one))
    samples = rng.standard_normal((32, 3, 6, 6), np.float32)
    without = quantize(model, samples)
    made = quantize(model, samples, budget=budget)
    assert set(made.fell_back[:2]) == {"bad", "conv2"} and "conv0" not in made.fell_back
    effects = {layer.name: layer.effect_db or math.inf for layer in made.layers}
    assert effects["bad"] < effects["classes"] - 10
    if isinstance(budget, str):
        assert decibels(without) < 25 <= decibels(made)
    else:
        assert (without.agreement or 0) < 0.99 <= (made.agreement or 0)
    reasons = {layer.name: layer.reason for layer in made.layers if not layer.quantized}
    for name, reason in reasons.items():
        assert reason == ("fell back to float for the budget of "
                          + ("25 dB" if budget == "25dB" else "1 points of agreement")
                          if name in made.fell_back else "it reads no quantized value")


def test_useless_outputs_are_told_with_what_would_mend_them(float_model, rng) -> None:
    one = float_model()
    model, samples = one.model(outlier(one)), rng.standard_normal((32, 3, 6, 6), np.float32)
    made = quantize(model, samples)
    assert decibels(made) < USABLE_DECIBELS and {"bad", "conv2"} <= {*made.needed}
    mended = quantize(model, samples, budget=f"{USABLE_DECIBELS}dB")
    assert made.needed == mended.fell_back and decibels(mended) >= USABLE_DECIBELS
    assert mended.needed == ()


def test_equalization_mends_the_outlier(float_model, rng) -> None:
    one = float_model()
    samples = rng.standard_normal((32, 3, 6, 6), np.float32)
    without, equal = (quantize(one_model, samples, equalize=flag)
                      for one_model in [one.model(outlier(one))] for flag in (False, True))
    assert decibels(equal) > decibels(without) + 20
    assert (without.equalized, equal.equalized) == (0, 3)


def test_a_budget_that_is_met_changes_nothing(float_model, rng) -> None:
    one = float_model()
    model, samples = one.model(chain(one)), rng.standard_normal((16, 3, 6, 6), np.float32)
    made = quantize(model, samples, budget="10dB")
    assert made.fell_back == () and all(layer.effect_db is None for layer in made.layers)
    assert made.model == quantize(model, samples).model


def test_an_impossible_budget_leaves_all_in_float(float_model, onnx_runtime, rng) -> None:
    one = float_model()
    model, samples = one.model(chain(one)), rng.standard_normal((16, 3, 6, 6), np.float32)
    made = quantize(model, samples, budget="500dB")
    assert made.decibels is None and made.agreement == 1
    assert not any(layer.quantized for layer in made.layers)
    for found, wanted in zip(onnx_runtime(made.model, {"x": samples}),
                             onnx_runtime(model, {"x": samples}), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_bias_correction_takes_the_error_of_the_mean_away(float_model, onnx_runtime, rng) -> None:
    """One tap rounds to nothing in every channel, and its input is always 1."""
    one = float_model()
    x = one.input("x", 16, 2)
    weight = np.tile(np.array([[1, 0.0035]], np.float32), (4, 1))
    y = one.add("Gemm", x, one.constant(weight), one.constant(np.zeros(4, np.float32)), transB=1)
    model = one.model(y)
    samples = np.stack([rng.uniform(-1, 1, 32), np.ones(32)], axis=1).astype(np.float32)
    errors = []
    for corrected in (False, True):
        made = quantize(model, samples, bias_correction=corrected)
        found, wanted = (np.concatenate([onnx_runtime(one_model, {"x": part})[0]
                                         for part in np.split(samples, 2)])
                         for one_model in (made.model, model))
        errors.append(np.abs((found - wanted).mean(axis=0)).max())
    assert errors[0] > 0.003 and errors[1] < errors[0] / 3


def test_what_has_no_integer_form_passes_through(float_model, onnx_runtime, rng) -> None:
    """A second network input that is no image, an operator that is only in float."""
    one = float_model()
    x, shift = one.input("x", 1, 3, 4, 4), one.input("shift", 1, 8, 4, 4)
    y = one.add("Relu", one.add("Concat", one.conv(x, 3, 8, name="conv"), shift, axis=2))
    y = one.add("CumSum", y, one.constant(np.array(3)), name="cumsum")
    model = one.model(y)
    given = {"x": rng.standard_normal((5, 3, 4, 4), np.float32),
             "shift": rng.standard_normal((5, 8, 4, 4), np.float32)}
    made = quantize(model, given)
    assert {layer.name: layer.reason for layer in made.layers if not layer.quantized} == {
        "cumsum": "cumsum has no integer form"}
    first = {name: array[:1] for name, array in given.items()}
    found, wanted = (onnx_runtime(m, first)[0] for m in (made.model, model))
    assert np.abs(found - wanted).max() < 0.2


def test_products_of_computed_values_have_zero_point_0_in_int8(float_model, rng) -> None:
    one = float_model()
    x = one.input("x", 4, 6)
    both = [one.add("Relu", one.dense(x, 6, 4)) for _ in range(2)]
    made = quantize(one.model(one.add("MatMul", *both, name="product")),
                    rng.standard_normal((32, 6), np.float32))
    assert all(layer.quantized for layer in made.layers)
    graph = optimize(convert(made.model))
    assert graph.notes == () and graph.node("product").op == "qmatmul"
    for layer in compare_layers(made.model, {"x": rng.standard_normal((4, 6), np.float32)}):
        assert layer.largest <= 1


@pytest.mark.parametrize("corrected", [False, True])
def test_products_of_any_rank_have_a_bias(float_model, onnx_runtime, rng, corrected) -> None:
    one = float_model()
    x = one.add("MatMul", one.input("x", 2, 5, 6), one.random(6, 8), name="a")
    x = one.add("Relu", one.add("Add", x, one.random(8), name="bias"))
    model = one.model(one.add("MatMul", x, one.random(8, 4), name="b"))
    samples = rng.standard_normal((8, 5, 6), np.float32)
    made = quantize(model, samples, bias_correction=corrected)
    assert [(layer.name, layer.quantized) for layer in made.layers] == [("a", True), ("b", True)]
    kinds = Counter(node.op_type for node in made.model.graph.node)
    assert (kinds["MatMul"], kinds["Add"], kinds["Relu"]) == (2, 1 + corrected, 0)
    found, wanted = (onnx_runtime(one_model, {"x": samples[:2]})[0]
                     for one_model in (made.model, model))
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


def test_a_product_of_rank_4_is_corrected_by_its_columns(float_model, onnx_runtime, rng) -> None:
    """The channels of a product are its last axis, though those of an image are the second."""
    one = float_model()
    x = one.add("MatMul", one.input("x", 2, 3, 5, 6), one.random(6, 4), name="a")
    model = one.model(one.add("MatMul", x, one.random(4, 4), name="b"))
    samples = rng.standard_normal((2, 3, 5, 6), np.float32)
    made = quantize(model, samples, bias_correction=True)
    found, wanted = (onnx_runtime(each, {"x": samples})[0] for each in (made.model, model))
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


def test_batches(float_model, rng) -> None:
    """As many samples at a time as divide them; ranges do not depend on it."""
    one = float_model()
    model, samples = one.model(chain(one)), rng.standard_normal((21, 3, 6, 6), np.float32)
    steps: list[tuple[str, int, int]] = []

    class Watch:
        def __init__(self, stage, count):
            self.stage, self.count, self.done = stage, count, []

        def __enter__(self):
            return self.done.append

        def __exit__(self, *_):
            steps.append((self.stage, self.count, sum(self.done)))
            assert max(self.done) <= BATCH and (self.count != 21 or set(self.done) == {3})

    quantize(model, samples, budget="50dB", watch=Watch, bias_correction=True)
    assert [step[0] for step in steps[:4]] == [
        "calibration", "bias correction", "comparing with float", "ranking layers"]
    assert steps[-1][0] == "layers alone"
    assert all(done == count for stage, count, done in steps if stage != "ranking layers")


BAD = {
    "name": ({"y": np.zeros((1, 3, 6, 6), np.float32)}, "must hold x, not y"),
    "nothing": ({}, "must hold x, not nothing"),
    "type": (np.zeros((1, 3, 6, 6)), "must hold float32 for 'x', not float64"),
    "shape": (np.zeros((4, 3, 6, 5), np.float32),
              r"must fit input 'x' \[n,3,6,6\], not \[N,3,6,5\]"),
    "rank": (np.zeros((3, 6, 6), np.float32), r"must fit input 'x' \[n,3,6,6\], not \[N,6,6\]"),
    "empty": (np.zeros((0, 3, 6, 6), np.float32),
              r"must hold at least one sample of 'x', not shape \(0, 3, 6, 6\)"),
    "infinite": (np.array([0, np.nan, 1], np.float32)[:, None, None, None]
                 * np.ones((1, 3, 6, 6), np.float32), "must be finite: sample 1 of 'x' is not"),
}


@pytest.mark.parametrize("case", BAD)
def test_calibration_sets_wrong(float_model, case) -> None:
    one = float_model()
    given, message = BAD[case]
    with pytest.raises(QuantizeRefused, match=f"^model: calibration set {message}$"):
        quantize(one.model(chain(one)), given)


@pytest.mark.parametrize("code", [0, 999])
def test_an_input_without_a_type_wrong(float_model, code) -> None:
    one = float_model()
    made = one.model(chain(one))
    made.graph.input[0].type.tensor_type.elem_type = code
    with pytest.raises(QuantizeRefused) as refused:
        quantize(made, np.zeros((1, 3, 6, 6), np.float32))
    assert str(refused.value) == ("model: input 'x' must be a tensor of a type that ONNX has; "
                                  "declare its type and shape in the model")


def test_an_input_of_too_many_dimensions_wrong(float_model) -> None:
    one = float_model()
    made = one.model(one.add("Relu", one.input("x", *(1,) * 64)))
    with pytest.raises(QuantizeRefused) as refused:
        quantize(made, np.zeros((1,) * 64, np.float32))
    assert str(refused.value) == "model: input 'x' must have 63 dimensions at most, not 64"


def test_batches_wrong(float_model) -> None:
    one = float_model()
    x = one.add("Concat", one.input("a", 4, 2), one.input("b", 4, 3), axis=1)
    model = one.model(x)
    for counts, message in (
            ((8, 12), "must have as many runs of every input, not 2 of 'a', 3 of 'b'"),
            ((6, 6), "must have a multiple of the 4 that the model takes at a time of 'a', not 6")):
        given = {name: np.zeros((count, extent), np.float32)
                 for name, count, extent in zip("ab", counts, (2, 3), strict=True)}
        with pytest.raises(QuantizeRefused, match=f"^model: calibration set {message}$"):
            quantize(model, given)
    with pytest.raises(QuantizeRefused, match="^model: calibration set must name its arrays, for "
                                              "inputs a, b$"):
        quantize(model, np.zeros((4, 2), np.float32))


@pytest.mark.parametrize(("options", "message"), [
    ({"observer": "median"}, "observer must be one of minmax, percentile, mse, not 'median'"),
    ({"keep_float": ["conv9"]},
     "model: --keep-float must name a layer, one of conv0, .*classes, not 'conv9'"),
    ({"budget": -1}, "budget must be percentage points of agreement from 0 to 100, or decibels "
                     "such as 30dB, not -1"),
    ({"budget": "5 percent"}, "budget must be .*, not '5 percent'"),
    ({"budget": math.nan}, "budget must be .*, not nan"),
])
def test_options_wrong(float_model, rng, options, message) -> None:
    one = float_model()
    with pytest.raises(QuantizeRefused, match=f"^{message}$"):
        quantize(one.model(chain(one)), rng.standard_normal((1, 3, 6, 6), np.float32), **options)


def test_points_of_what_has_no_classes_wrong(float_model, rng) -> None:
    one = float_model()
    model = one.model(one.add("Relu", one.conv(one.input("x", 1, 3, 6, 6), 3, 1)))
    with pytest.raises(QuantizeRefused, match=r"^model: has no output .*in decibels, such as "
                                              r"30dB$"):
        quantize(model, rng.standard_normal((1, 3, 6, 6), np.float32), budget=1)


def test_layers_around_values_that_are_not_finite_stay_in_float(float_model, rng) -> None:
    """As a mask of attention has them, which a softmax then reads, and a product."""
    one = float_model()
    x = one.add("MatMul", one.input("x", "n", 16), one.random(16, 16))
    masked = one.add("Add", x, one.add("Log", one.add("Relu", x)), name="masked")
    y = one.add("MatMul", one.add("Softmax", masked), one.random(16, 3))
    other = one.add("MatMul", one.add("Clip", masked, one.constant(np.float32(-9))),
                    one.random(16, 3))
    made = quantize(one.model(y, other), rng.standard_normal((8, 16)).astype(np.float32))
    kept = {layer.name: layer.reason for layer in made.layers if not layer.quantized}
    assert kept["masked"] == "value 'masked.out' is not finite for all calibration samples"
    assert [layer.quantized for layer in made.layers if layer.op == "matmul"] == [True] * 3
    assert made.decibels is not None and made.decibels > 20


def test_inputs_that_stay_in_float_may_be_infinite(float_model, rng) -> None:
    one = float_model()
    x = one.add("MatMul", one.input("x", "n", 4), one.random(4, 4))
    masked = one.add("Where", one.add("IsInf", one.input("mask", "n", 4)), "mask", x)
    y = one.add("MatMul", one.add("Softmax", masked), one.random(4, 3))
    mask = np.where(np.arange(4) == 3, -np.inf, 0) * np.ones((8, 1))
    made = quantize(one.model(y), {"x": rng.standard_normal((8, 4)).astype(np.float32),
                                   "mask": mask.astype(np.float32)})
    assert [layer.quantized for layer in made.layers if layer.op == "matmul"] == [True] * 2
    assert made.decibels is not None and made.decibels > 20


def test_an_output_that_overflows_only_when_quantized_has_noise(float_model, rng) -> None:
    """The logarithm of what rounds to 0."""
    one = float_model()
    x = one.add("Relu", one.add("MatMul", one.input("x", "n", 4), one.random(4, 4)))
    y = one.add("Log", one.add("Add", x, one.constant(np.full((1, 4), 1e-6, np.float32))))
    made = quantize(one.model(y), rng.standard_normal((8, 4)).astype(np.float32))
    assert made.decibels is not None and np.isfinite(made.decibels)


def test_files_wrong(tmp_path) -> None:
    path = tmp_path / "x.onnx"
    with pytest.raises(QuantizeRefused, match="x.onnx: no such file; give the path of an ONNX"):
        quantize(path, np.zeros(1))
    path.write_bytes(b"no model")
    with pytest.raises(QuantizeRefused, match="x.onnx: is not an ONNX file; give a model in"):
        quantize(path, np.zeros(1))
    path.write_bytes(b"")
    with pytest.raises(QuantizeRefused, match="x.onnx: is not an ONNX model with a graph"):
        quantize(path, np.zeros(1))


def test_operators_that_cannot_be_imported_wrong(float_model) -> None:
    one = float_model()
    model = one.model(one.add("Unheard", one.input("x", 1, 3)))
    with pytest.raises(QuantizeRefused, match="^model: cannot import unheard0"):
        quantize(model, np.zeros((1, 3), np.float32))


def test_integer_inputs_are_not_quantized(float_model, rng) -> None:
    one = float_model()
    x = one.input("x", 1, 3, 4, 4)
    one.input("unused", 1, 5, code=TensorProto.INT64)
    made = quantize(one.model(one.conv(x, 3, 4)),
                    {"x": rng.standard_normal((2, 3, 4, 4), np.float32),
                     "unused": np.zeros((2, 5), np.int64)})
    assert [layer.quantized for layer in made.layers] == [True]
