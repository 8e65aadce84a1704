"""Integer forms have the type of what they replace, whatever its shape and its bits."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.graph.integerize import integerize
from compiler.graph.passes.pipeline import standard_passes
from compiler.graph.verify import GraphRefused
from compiler.ops.records.integer_forms import IntegerNode
from compiler.ops.registry import OPERATORS


def vector(*shape: int) -> np.ndarray:
    return np.linspace(-0.9, 0.9, int(np.prod(shape))).reshape(shape).astype(np.float32)


def product(one, x, *shape: int):
    return one.add("MatMul", x, one.weight(*shape, axis=1), name="fc")


def slopes(*shape: int):
    return lambda one, x: one.add("PRelu", product(one, x, 4, 4), one.constant(
        np.abs(vector(*shape))), name="act")


def added(*shape: int):
    return lambda one, x: one.add("Add", product(one, x, 4, 4), one.constant(vector(*shape)),
                                  name="sum")


def layer_norm(*shape: int):
    """As exporters decompose it."""
    def of(one, x):
        centred = one.add("Sub", x, one.add("ReduceMean", x, axes=[-1], keepdims=1))
        squares = one.add("ReduceMean", one.add("Mul", centred, centred), axes=[-1], keepdims=1)
        root = one.add("Sqrt", one.add("Add", squares, one.constant(np.float32(1e-5))))
        normal = one.add("Div", centred, root)
        return one.add("Add", one.add("Mul", normal, one.constant(vector(*shape))), one.constant(
            np.float32(0.25)), name="norm")
    return of


def mean(**attrs):
    return lambda one, x: one.add("Abs", one.add("ReduceMean", x, name="mean", **attrs))


def softmax(one, x):
    return one.add("Softmax", x, axis=-1, name="soft")


CASES = {
    "slopes along an axis that is no channel": (slopes(4, 1, 1), (1, 4, 3, 4), "fc"),
    "slopes along the last axis": (slopes(4), (1, 3, 4, 4), ""),
    "slopes along both": (slopes(4, 1, 4), (1, 4, 3, 4), "fc"),
    "a bias": (added(4), (2, 3, 4), ""),
    "a bias with another dimension of one": (added(1, 1, 1, 4), (2, 3, 4), "fc"),
    "a bias that repeats the product": (added(5, 1, 1, 4), (2, 3, 4), "fc"),
    "a norm": (layer_norm(4), (2, 3, 4), ""),
    "a norm with a weight of more dimensions": (layer_norm(1, 1, 1, 4), (2, 3, 4), "norm"),
    "a mean to one dimension": (mean(axes=[1, 2], keepdims=0), (6, 2, 3), "abs"),
    "a mean to none": (mean(axes=[0], keepdims=0), (6,), "abs"),
    "a softmax of one row": (softmax, (12,), "soft"),
}


def model_of(qdq, build, shape, dtype="int8", out=0.05):
    one = qdq()
    x = one.requantized(one.input("x", *shape), 0.02 if dtype == "int8" else 1e-4, 0, dtype)
    return one.model(one.requantized(build(one, x), out, 0, dtype))


def differing(model, rng) -> tuple:
    """The graph of integers, and by how much it differs from the one in float."""
    graph, real = (optimize(convert(model), passes) for passes in (
        None, standard_passes(integerize=False)))
    x = rng.normal(size=graph.values["x"].shape).astype(np.float32)
    found, wanted = (evaluate(one, {"x": x})[one.outputs[0]] for one in (graph, real))
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    return graph, np.abs(found - wanted).max(initial=0)


@pytest.mark.parametrize("name", CASES)
def test_shapes_are_those_of_the_network(qdq, rng, name) -> None:
    build, shape, told = CASES[name]
    graph, far = differing(model_of(qdq, build, shape), rng)
    assert far <= 0.0501
    assert any(note.startswith(told) for note in graph.notes) if told else not graph.notes


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
@pytest.mark.parametrize("function", [softmax, layer_norm(16)], ids=["softmax", "norm"])
def test_rows_of_16_bits_stay_in_float(qdq, rng, function, dtype) -> None:
    graph, far = differing(model_of(qdq, function, (2, 3, 16), dtype, 1e-4), rng)
    assert far <= 1.01e-4
    assert any("its rows must be int8 of two dimensions or more, not int16[2,3,16]" in note
               for note in graph.notes), graph.notes


def test_rows_of_one_dimension_stay_in_float(qdq, rng) -> None:
    graph, _ = differing(model_of(qdq, softmax, (12,)), rng)
    assert any("its rows must be int8 of two dimensions or more, not int8[12]" in note
               for note in graph.notes)


@pytest.mark.parametrize("zero", [0, 65535, 30000])
@pytest.mark.parametrize("scales", [(1e-4, 1e-4, 1e-4), (1e-4, 3e-4, 3.4e-4), (2e-4, 1e-5, 1.3e-4)])
def test_sums_of_16_bits_take_any_zero_point(qdq, rng, scales, zero) -> None:
    one = qdq()
    a, b = (one.requantized(one.input(name, 3, 50), scale, zero, "uint16")
            for name, scale in zip("ab", scales))
    model = one.model(one.requantized(one.add("Add", a, b, name="sum"), scales[2], zero, "uint16"))
    graph, real = (optimize(convert(model), passes) for passes in (
        None, standard_passes(integerize=False)))
    assert graph.node("sum").op == "qadd" and not graph.notes
    feeds = {name: rng.normal(size=(3, 50)).astype(np.float32) for name in "ab"}
    found, wanted = (evaluate(each, feeds)[each.outputs[0]] for each in (graph, real))
    assert np.abs(found - wanted).max() <= 1.01 * scales[2]


def test_sums_beyond_32_bits_stay_in_float(qdq, rng) -> None:
    """Where the result's steps are so fine that no zero point takes what is too much."""
    one = qdq()
    a, b = (one.requantized(one.input(name, 3, 5), 1e-3, 0, "uint16") for name in "ab")
    model = one.model(one.requantized(one.add("Add", a, b, name="sum"), 1e-4, 0, "uint16"))
    assert any(note.startswith("sum (add) stays in float: zp must be an int16, not ")
               for note in optimize(convert(model)).notes)


def test_a_form_of_another_type_stays_in_float(qdq, rng, monkeypatch) -> None:
    """An operator's own form, which may be a user's, has such a type."""
    def turned(view, node, out, bounds):
        x = view.activation(node.inputs[0])
        return IntegerNode("transpose", (x.value,), {"perm": (1, 0, 2)})

    monkeypatch.setattr(integerize, "_form", lambda core: turned)
    graph, far = differing(model_of(qdq, lambda one, x: product(one, x, 4, 4), (2, 3, 4)), rng)
    assert far <= 0.0501 and graph.notes == (
        "fc (matmul) stays in float: on integers it would be int8[3,2,4], not int8[2,3,4]",)


def test_a_stored_form_of_another_type_wrong(qdq, monkeypatch) -> None:
    """That is no file's fault."""
    one = qdq()
    x = one.add("Transpose", one.dequantize(one.input("x", 2, 3, dtype="uint8")), perm=[1, 0])
    model = one.model(x)
    monkeypatch.setitem(OPERATORS, "transpose", replace(OPERATORS["transpose"], stored="identity"))
    with pytest.raises(GraphRefused) as refused:
        optimize(convert(model))
    assert str(refused.value) == ("transpose1: the stored form of 'transpose1.out_quantized' must "
                                  "be int8[3,2], not int8[2,3]")


def reason_of(model, name: str) -> str:
    graph = optimize(convert(model))
    return " ".join(note for note in graph.notes if name in note)


@pytest.mark.parametrize(("scale", "zero", "off"), [
    (0.05, 0, ""), (0.0002, 0, "1.25 steps"), (0.0005, -32768, ""),
    (0.0005 / (1 + 2**-16), -32768, "1.5 steps")])
def test_a_bias_is_as_fine_as_the_result(qdq, scale: float, zero: int, off: str) -> None:
    """Steps of the sums are 0.05 * 0.01; the bias lies in the middle between two of them. The last
    multiplier lies in the middle of two, too, which is one step of 65,535.
    """
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 4), 0.05, 0, "int16")
    weight = one.add("DequantizeLinear", one.constant(np.ones((4, 1), np.int8)),
                     one.constant(np.float32(0.01)), one.constant(np.int8(0)))
    made = one.add("Add", one.add("MatMul", x, weight, name="fc"),
                   one.constant(np.array([0.00025 + 0.0005 * 1001], np.float32)), name="sum")
    reason = reason_of(one.model(one.requantized(made, scale, zero, "int16")), "sum")
    assert (f"{off} of the result off" in reason) == bool(off)
    assert ("of the result off" in reason) == bool(off)


@pytest.mark.parametrize(("scales", "refused"), [
    ((0.1, 0.05, 0.1), False), ((0.085165426, 5.872085e-06, 0.003337598), True)], ids=str)
def test_sums_of_16_bits_are_near(qdq, scales: tuple[float, float, float], refused: bool) -> None:
    one = qdq()
    a, b = (one.requantized(one.input(name, 1, 3, 4), scale, 77, "int16")
            for name, scale in zip("ab", scales, strict=False))
    made = one.requantized(one.add("Add", a, b, name="sum"), scales[2], 0, "int16")
    assert ("multipliers of 16 bits" in reason_of(one.model(made), "sum")) == refused
