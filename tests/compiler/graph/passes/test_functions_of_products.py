"""Functions of elements behind products: an int8 between them, where it is within a step."""

import re

import numpy as np
import pytest

from accel.mapping.target import AccelTarget
from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes
from compiler.graph.division.partition import ACCEL, partition, subgraph
from compiler.graph.functions.before import between, int8_before
from compiler.ops.records.integer_forms import Stored
from runtime import compile as compile_model
from runtime.driver.costs import Pricing
from runtime.driver.targets import Targets
from tests.support.integer_graphs import assert_right
from tests.support.machines import SHORT, TINY
from tests.support.slow_cases import each_once


def gelu(one, y: str) -> str:
    half = one.add("Mul", y, one.constant(np.float32(0.5)))
    root = one.add("Erf", one.add("Div", y, one.constant(np.float32(np.sqrt(2)))))
    return one.add("Mul", half, one.add("Add", root, one.constant(np.float32(1))))


FUNCTIONS = {
    "hardswish": lambda one, y: one.add("HardSwish", y),
    "silu": lambda one, y: one.add("Mul", y, one.add("Sigmoid", y)),
    "gelu": gelu,
    "softplus": lambda one, y: one.add("Softplus", y),
    "elu": lambda one, y: one.add("Elu", y),
}
FORMS = {
    "conv": ("qconv2d", (2, 4, 5, 5), lambda one, x: one.add(
        "Conv", x, one.weight(6, 4, 3, 3, scale=0.015), name="product")),
    "dense": ("qdense", (7, 20), lambda one, x: one.add(
        "Gemm", x, one.weight(20, 6, scale=0.015, axis=1), name="product")),
    "sum": ("qdense", (2, 5, 20), lambda one, x: one.add("Add", one.constant(
        one.rng.normal(size=6).astype(np.float32)), one.add(
            "MatMul", x, one.weight(20, 6, scale=0.015, axis=1)), name="product")),
}


def model_of(one, form: str, function, scale: float = 10 / 255, zero: int = 8):
    _, shape, product = FORMS[form]
    x = one.requantized(one.input("x", *shape), 0.03, 5)
    return one.model(one.requantized(function(one, product(one, x)), scale, zero))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("form", FORMS)
def test_they_are_a_product_and_a_table(qdq, form: str, name: str) -> None:
    one = qdq(seed=len(form + name), opset=18)
    model = model_of(one, form, FUNCTIONS[name])
    graph, plain = (optimize(convert(model), standard_passes(integerize=integerize))
                    for integerize in (True, False))
    assert graph.notes == ()
    in_pairs = name == "hardswish" and form != "sum"
    assert [node.op for node in graph.nodes][-3:-1] == (
        [f"{FORMS[form][0]}_add", "qmap"] if in_pairs else [FORMS[form][0], "qtable"])
    feeds = {"x": (2 * one.rng.normal(size=FORMS[form][1])).astype(np.float32)}
    found, wanted = (evaluate(made, feeds)[model.graph.output[0].name] for made in (graph, plain))
    assert wanted.std() > 0.3 and np.abs(found - wanted).max() <= 1.01 * 10 / 255


@pytest.mark.slow
@pytest.mark.parametrize("form", [
    "conv", "sum", pytest.param("dense", marks=pytest.mark.slow)])
def test_steps_may_be_coarser_below_zero(qdq, form: str) -> None:
    """A gelu whose result ends early: an int8 of one scale would be too coarse above zero."""
    one = qdq(seed=len(form), opset=18)
    model = model_of(one, form, gelu, 2.5 / 255, 17)
    graph, plain = (optimize(convert(model), standard_passes(integerize=integerize))
                    for integerize in (True, False))
    product, table = graph.nodes[-3:-1]
    assert graph.notes == () and table.op == "qtable"
    assert (product.op, len(product.inputs)) == (FORMS[form][0], 7)     # two multipliers
    feeds = {"x": (2 * one.rng.normal(size=FORMS[form][1])).astype(np.float32)}
    found, wanted = (evaluate(made, feeds)[model.graph.output[0].name] for made in (graph, plain))
    assert wanted.std() > 0.3 and np.abs(found - wanted).max() <= 1.01 * 2.5 / 255
    assert_on_accelerators(one, graph)


@pytest.mark.parametrize(("scale", "zero"), [(10 / 255, 8), (2.5 / 255, 17)])
def test_elements_may_be_moved_before(qdq, scale: float, zero: int) -> None:
    one = qdq(seed=5, opset=18)
    model = model_of(one, "dense", lambda one, y: gelu(one, one.add("Transpose", one.add(
        "Reshape", y, one.constant(np.array([7, 2, 3]))), perm=[1, 0, 2])), scale, zero)
    graph, plain = (optimize(convert(model), standard_passes(integerize=integerize))
                    for integerize in (True, False))
    assert [node.op for node in graph.nodes if node.op not in ("to_uint8", "to_int8")] == [
        "quantize", "qdense", "reshape", "transpose", "qtable", "dequantize"]
    feeds = {"x": (2 * one.rng.normal(size=(7, 20))).astype(np.float32)}
    found, wanted = (evaluate(made, feeds)[model.graph.output[0].name] for made in (graph, plain))
    assert np.abs(found - wanted).max() <= 1.01 * scale


@pytest.mark.parametrize(("name", "scale", "zero"), [
    ("silu", 1.6 / 255, 50), ("sigmoid", 1 / 256, 0), ("cosine", 2 / 255, 128)])
def test_what_int8_cannot_carry_stays_in_float(qdq, name: str, scale: float, zero: int) -> None:
    """It is steep, or changes however far its input is."""
    functions = FUNCTIONS | {"sigmoid": lambda one, y: one.add("Sigmoid", y),
                             "cosine": lambda one, y: one.add("Cos", y)}
    one = qdq(seed=2, opset=18)
    graph = optimize(convert(model_of(one, "conv", functions[name], scale, zero)))
    assert [node.op for node in graph.nodes].count("conv2d") == 1
    assert graph.notes[0].startswith("product (conv2d) stays in float: a QuantizeLinear is missing")


def read_twice(qdq, case: str, scale: float = 10 / 255, zero: int = 8):
    one = qdq(seed=3, opset=18)
    x = one.requantized(one.input("x", 2, 4, 5, 5), 0.03, 5)
    sums = FORMS["conv"][2](one, x)
    y = gelu(one, sums)
    other = sums if case == "sums are read" else y
    other = one.requantized(y, 0.5, 8) if case == "other scales" else one.add("Abs", other)
    return one.model(one.requantized(y, scale, zero), one.requantized(y, scale, zero), other)


READ = ["sums are read", "the result is read", "other scales"]


@pytest.mark.parametrize("case", READ)
def test_others_that_read_keep_it_in_float(qdq, case: str) -> None:
    graph = optimize(convert(read_twice(qdq, case)))
    assert "conv2d" in [node.op for node in graph.nodes]


@each_once("case, step", READ, [(10 / 255, 8), (2.5 / 255, 17)], ids=str)
def test_for_others_that_read_an_accelerator_computes_twice(qdq, case: str, step) -> None:
    """Once in bytes, with which it goes on, and once what the others read."""
    scale, zero = step
    model = read_twice(qdq, case, scale, zero)
    graph = optimize(convert(model), standard_passes(sums=True))
    products = [node for node in graph.nodes if node.op == "qconv2d"]
    assert [node.op for node in graph.nodes].count("qtable") == 2 + (case == "other scales")
    assert ["planes" in node.attrs for node in products].count(True) == (case != "other scales")
    assert len(products) == 2
    plain = optimize(convert(model), standard_passes(integerize=False))
    feeds = {"x": (2 * np.random.default_rng(1).normal(size=(2, 4, 5, 5))).astype(np.float32)}
    for found, wanted, most in zip(evaluate(graph, feeds).values(), evaluate(plain, feeds).values(),
                                   (scale, scale, 0.5 if case == "other scales" else 1e-4),
                                   strict=True):
        assert np.abs(found - wanted).max() <= 1.01 * most


@pytest.mark.slow
@pytest.mark.parametrize(("node_seconds", "on_host"), [(1e-7, True), (1e-2, False)])
def test_auto_costs_no_more_than_the_host_with_passes_of_its_own(
        qdq, monkeypatch, node_seconds: float, on_host: bool) -> None:
    """Sums in integers, and a second product, are of use to an accelerator alone: not where the
    host is so fast that none is worth its start.
    """
    monkeypatch.setattr("runtime.driver.costs.measured", lambda what, run: node_seconds * int(
        re.findall(r"segment of (\d+) nodes|$", what)[0] or 0))
    model = read_twice(qdq, "the result is read")
    module = compile_model(model, "auto:tiny-1x4x4", cache=False)
    host = compile_model(model, "cpu", cache=False)
    alone = Pricing(host.graph, Targets([])).division(host.partition)
    assert module.auto and module.auto["seconds"] <= 1.001 * alone.seconds
    ops = [node.op for node in module.partition.graph.nodes]
    assert (ops.count("conv2d"), ops.count("qconv2d") > 0) == (int(on_host), not on_host)


def hardswish(x: np.ndarray) -> np.ndarray:
    return x * np.clip(x + 3, 0, 6) / 6


def test_the_range_is_where_the_result_changes() -> None:
    found = int8_before(hardswish, Stored("y", 8.375 / 255, -117))
    assert found is not None
    ends = (np.array([-128, 127]) - found.zp) * found.scale
    np.testing.assert_allclose(ends, [-3, 8.04], atol=0.05)


def test_of_those_that_bend_sums_the_nearest_comes_between() -> None:
    """A straight one would be 1.01 steps off, one of slope 0.7 is 0.93, this one 0.81."""
    found = int8_before(hardswish, Stored("y", 0.02788, -115))
    assert found is not None and found.slope in (0.35, 0.42)


@pytest.mark.slow
def test_the_accelerator_computes_them(qdq) -> None:
    one = qdq(seed=4, opset=18)
    assert_on_accelerators(one, optimize(convert(model_of(one, "conv", FUNCTIONS["hardswish"]))))


def assert_on_accelerators(one, graph) -> None:
    for machine in (TINY, SHORT):
        parts = partition(graph, lambda node, own=machine: AccelTarget(own).refusal(graph, node))
        segment, = (one for one in parts.segments if one.target == ACCEL)
        part = subgraph(graph, segment)
        given = {value: one.rng.integers(-128, 128, graph.values[value].shape).astype(np.int8)
                 for value in part.inputs}
        assert_right(machine, part, given)


def with_factors(qdq, form: str, name: str, scale: float, zero: int, spread: float = 2.5):
    """A function times a factor of each channel, as SmoothQuant puts it before the next product."""
    one = qdq(seed=len(form + name), opset=18)
    channels = (6, 1, 1) if form == "conv" else (6,)
    factors = np.geomspace(1 / spread, 1, 6).astype(np.float32).reshape(channels)
    model = model_of(one, form, lambda one, y: one.add(
        "Mul", FUNCTIONS[name](one, y), one.constant(factors)), scale, zero)
    return one, model, FORMS[form][1]


@pytest.mark.one_in(2)
@each_once("form, carried", [*FORMS], [
    ("gelu", 4 / 255, 11), ("gelu", 1.06 / 255, 39), ("silu", 3 / 255, 24),
    ("hardswish", 6 / 255, 16), ("softplus", 4 / 255, 0), ("elu", 3 / 255, 85)], ids=str)
def test_with_factors_of_channels_sums_meet_a_rest(qdq, form: str, carried) -> None:
    name, scale, zero = carried
    one, model, shape = with_factors(qdq, form, name, scale, zero)
    graph = optimize(convert(model), standard_passes(sums=True))
    plain = optimize(convert(model), standard_passes(integerize=False))
    product = FORMS[form][0]
    assert graph.notes == ()
    parts = [product, f"{product}_add"] if (name, form) == ("hardswish", "conv") else [
        product, "qtable", f"{product}_add", "qaffine"]
    assert [node.op for node in graph.nodes if node.op not in ("to_uint8", "to_int8")] == [
        "quantize", *parts, "qmap", "dequantize"]
    feeds = {"x": (2 * one.rng.normal(size=shape)).astype(np.float32)}
    found, wanted = (evaluate(made, feeds)[model.graph.output[0].name] for made in (graph, plain))
    assert wanted.std() > 0.1 and np.abs(found - wanted).max() <= 1.01 * scale
    assert_on_accelerators(one, graph)


def test_quantizations_alike_share_the_parts(qdq) -> None:
    one = qdq(seed=3, opset=18)
    x = one.requantized(one.input("x", 7, 20), 0.03, 5)
    y = gelu(one, FORMS["dense"][2](one, x))
    model = one.model(*(one.requantized(each, 1.2 / 255, 36) for each in (y, y)))
    ops = [node.op for node in optimize(convert(model), standard_passes(sums=True)).nodes]
    assert (ops.count("qdense"), ops.count("qdense_add"), ops.count("dense")) == (1, 1, 0)


def test_a_narrow_function_meets_its_rest(qdq) -> None:
    """No int8 between is fine enough; nor would one of even steps before the rest be."""
    one = qdq(seed=2, opset=18)
    model = model_of(one, "dense", gelu, 1.05 / 255, 40)
    assert "dense" in [node.op for node in optimize(convert(model)).nodes]
    graph = optimize(convert(model), standard_passes(sums=True))
    plain = optimize(convert(model), standard_passes(integerize=False))
    assert "qdense_add" in [node.op for node in graph.nodes]
    feeds = {"x": (2 * one.rng.normal(size=FORMS["dense"][1])).astype(np.float32)}
    found, wanted = (evaluate(made, feeds)[model.graph.output[0].name] for made in (graph, plain))
    assert np.abs(found - wanted).max() <= 1.01 * 1.05 / 255


@pytest.mark.parametrize(("name", "scale", "spread"), [
    ("gelu", 0.5 / 255, 2.5), ("gelu", 4 / 255, -2.5), ("cosine", 2 / 255, 2.5)])
def test_what_a_rest_cannot_carry_stays_in_float(qdq, monkeypatch, name: str, scale: float,
                                                 spread: float) -> None:
    """It is steep, or has factors below zero, or changes however far its input is."""
    monkeypatch.setitem(FUNCTIONS, "cosine", lambda one, y: one.add("Cos", y))
    one = qdq(seed=2, opset=18)
    factors = np.array([1 / spread, 1, 0.5, 1, 1, 1], np.float32)
    model = model_of(one, "dense", lambda one, y: one.add(
        "Mul", FUNCTIONS[name](one, y), one.constant(factors)), scale, 40)
    graph = optimize(convert(model), standard_passes(sums=True))
    assert "qmap" not in [node.op for node in graph.nodes] and graph.notes


@pytest.mark.parametrize("least", [-1.35, 0.5])
def test_bounds_alone_are_no_function(qdq, least: float) -> None:
    """A product's own quantization has bounds."""
    model = model_of(qdq(seed=4, opset=18), "conv", lambda one, y: one.add(
        "Clip", y, one.constant(np.float32(least))), 0.0057, 110)
    ops = [node.op for node in optimize(convert(model), standard_passes(sums=True)).nodes]
    assert ops.count("qconv2d") == 1 and "qtable" not in ops


def test_an_int8_of_zero_alone() -> None:
    """Zero is kept where nothing else is spanned, or so little that float32 has no such step."""
    for least, most, shift in ((0.0, 0.0, 0.0), (0.0, 1e-44, 0.0), (1.0, 1.0, -1.0)):
        found = between(least, most, shift=shift)
        assert found.scale > 0
        np.testing.assert_array_equal(found.kept(np.full(3, -shift, np.float32)), -shift)


def test_a_product_of_one_channel_meets_no_rest(qdq) -> None:
    """It is a factor and an offset, which no residual meets: a rest would be added in float."""
    one = qdq(seed=6, opset=18)
    x = one.requantized(one.input("x", 2, 1, 5, 5), 0.03, 5)
    product = one.add("Conv", x, one.weight(1, 1, 1, 1, scale=0.015), name="product")
    result = FUNCTIONS["hardswish"](one, product)
    model = one.model(one.requantized(result, 1.6 / 255, 39))
    ops = [node.op for node in optimize(convert(model), standard_passes(sums=True)).nodes]
    assert not {"qtable", "qaffine"} & {*ops} and "clip" in ops, ops


@pytest.mark.parametrize(("step", "twice"), [(1e-5, True), (1e-2, False)])
def test_parts_of_sums_are_as_fine_as_factors_of_16_bits_ask(qdq, step: float, twice: bool) -> None:
    """A factor of 16 bits reaches 256 times as far as one of 8 with the same steps."""
    one = qdq(seed=7, opset=21)
    x = one.requantized(one.input("x", 4, 8), 0.05, 0, dtype="int8")
    y = one.requantized(one.input("y", 4, 8), step, 0, dtype="int16")
    product = one.add("MatMul", x, one.weight(8, 8, scale=0.01, axis=1))
    model = one.model(one.requantized(one.add("Mul", product, y), 0.25, 0, dtype="int8"))
    ops = [node.op for node in optimize(convert(model)).nodes]
    assert ("qdense_add" in ops) == twice, ops
