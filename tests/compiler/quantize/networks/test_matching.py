"""What instructions of a machine match in float networks: found by values, with their meaning."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest

from compiler import te
from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.ops.patterns import Pattern
from compiler.ops.records.integer_forms import Stored
from compiler.quantize import quantize
from compiler.quantize.networks.matching import matches_of
from compiler.tensorize import Immediate
from tests.compiler.quantize.networks.test_functions import SHAPE, between, ops, samples

X, Y = te.Var("x", "float32"), te.Var("y", "float32")
X0, X1 = te.Var("x0", "int32"), te.Var("x1", "int32")
ZP, S = Immediate("zp", "int8", -128, 127), Immediate("s", "uint8", 0, 63)

HARD_SWISH = X * te.clamp(X / 6 + 0.5, 0, 1)


def clamped(value: te.Expr) -> te.Expr:
    return te.clamp(value, -128, 127)


def pattern(real: te.Expr = HARD_SWISH, *, name: str = "own", body: te.Expr | None = None,
            inputs: tuple[te.Var, ...] = (X,), fields: tuple[Immediate, ...] = (),
            immediates: Callable = lambda *quantized: {}) -> Pattern:
    """A pattern whose meaning is as wrong as may be, so that it is told from any other."""
    body = clamped((X0 >> 1) + 7) if body is None else body
    return Pattern(name, inputs, real, body, fields, immediates)


def number(one, value: float) -> str:
    return one.constant(np.float32(value))


def clip(one, x: str, low: float, high: float) -> str:
    return one.add("Clip", x, number(one, low), number(one, high))


def relu6_of_sum(one, x: str) -> str:
    return clip(one, one.add("Add", number(one, 3), x), 0, 6)


FORMS = {
    "the operator": lambda one, x: one.add("HardSwish", x),
    "hard sigmoid": lambda one, x: one.add("Mul", one.add("HardSigmoid", x, alpha=1 / 6), x),
    "product first": lambda one, x: one.add(
        "Div", one.add("Mul", x, relu6_of_sum(one, x)), number(one, 6)),
    "quotient first": lambda one, x: one.add(
        "Mul", one.add("Div", relu6_of_sum(one, x), number(one, 6)), x),
    "a sixth": lambda one, x: one.add("Mul", relu6_of_sum(one, x),
                                      one.add("Mul", x, number(one, 1 / 6))),
    "halves": lambda one, x: one.add("Mul", x, one.add(
        "Min", one.add("Relu", one.add("Add", one.add("Div", x, number(one, 6)),
                                       number(one, 0.5))), number(one, 1))),
}
OTHERS = {
    "another slope": lambda one, x: one.add("Mul", one.add("HardSigmoid", x, alpha=0.16672), x),
    "another end": lambda one, x: one.add("Div", one.add("Mul", x, clip(
        one, one.add("Add", number(one, 3), x), 0, 5.999)), number(one, 6)),
    "no sixth": lambda one, x: one.add("Mul", x, relu6_of_sum(one, x)),
    "swish": lambda one, x: one.add("Mul", x, one.add("Sigmoid", x)),
}


def by(made) -> list[str]:
    return [layer.by for layer in made.layers if layer.by]


@pytest.mark.parametrize("name", FORMS)
def test_every_way_of_writing_it_is_found(float_model, rng, name: str) -> None:
    made = quantize(between(float_model, FORMS[name]), samples(rng), patterns=[pattern()])
    assert ops(made) == ["quantize", "qconv2d", "qmap", "qconv2d", "dequantize"]
    assert by(made) == ["own"] and [layer.op for layer in made.layers][1] == "function"


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_are_not(float_model, rng, name: str) -> None:
    made = quantize(between(float_model, OTHERS[name]), samples(rng), patterns=[pattern()])
    assert by(made) == [] and "qmap" not in ops(made)


def gelu_by_erf(one, x: str) -> str:
    erf = one.add("Erf", one.add("Div", x, number(one, 2 ** 0.5)))
    return one.add("Mul", one.add("Mul", x, number(one, 0.5)),
                   one.add("Add", erf, number(one, 1)))


def gelu_by_tanh(one, x: str) -> str:
    cube = one.add("Mul", one.add("Mul", x, x), x)
    inner = one.add("Mul", one.add("Add", x, one.add("Mul", cube, number(one, 0.044715))),
                    number(one, (2 / np.pi) ** 0.5))
    return one.add("Mul", x, one.add("Mul", one.add("Add", one.add("Tanh", inner), number(
        one, 1)), number(one, 0.5)))


GELU = X * 0.5 * (te.erf(X * 2 ** -0.5) + 1.0)


@pytest.mark.parametrize(("form", "tolerance", "found"), [
    (gelu_by_erf, 0.0, True), (gelu_by_tanh, 0.0, False), (gelu_by_erf, 1e-3, True),
    (gelu_by_tanh, 1e-3, True), (OTHERS["swish"], 1e-3, False)])
def test_a_tolerance_takes_near_functions_for_one(float_model, form, tolerance: float, found: bool
                                                  ) -> None:
    near = replace(pattern(GELU), tolerance=tolerance)
    assert bool(matches_of(convert(between(float_model, form, 1)), [near])) is found


def test_a_far_bound_is_no_part_of_it(float_model) -> None:
    model = between(float_model, lambda one, x: one.add("HardSwish", clip(one, x, -9e9, 5e3)), 1)
    (match,) = matches_of(convert(model), [pattern()]).values()
    assert "clip" not in [node.op for node in match.nodes] and len(match.nodes) > 3


def test_the_meaning_is_the_bodys(float_model, rng) -> None:
    """Whatever the expression is: the operator computes the body of what is stored."""
    made = quantize(between(float_model, FORMS["the operator"], 1), samples(rng),
                    patterns=[pattern()])
    graph = optimize(made.graph)
    x, y = (node.outputs[0] for node in graph.nodes[1:3])
    found = evaluate(graph, {"x": samples(rng, 1)}, [x, y])
    np.testing.assert_array_equal(found[y], np.clip((found[x].astype(int) >> 1) + 7, -128, 127))
    (layer,) = (layer for layer in made.layers if layer.by)
    assert layer.alone_db is not None and layer.alone_db < 20
    assert layer.steps_off is not None and layer.steps_off > 20


def test_the_file_keeps_the_meaning(float_model, rng) -> None:
    model = between(float_model, FORMS["product first"])
    made = quantize(model, samples(rng), patterns=[pattern()])
    (node,) = (node for node in made.model.graph.node if node.domain)
    assert (node.domain, node.op_type) == ("lockstep", "QuantizedMap_1")
    assert onnx.helper.get_node_attr_value(node, "function") == (
        b"min(max(((x0 >> 1) + 7), -128), 127)")
    (again,) = (node for node in optimize(convert(made.model, shapes={"n": 2})).nodes
                if node.op == "qmap")
    (first,) = (node for node in optimize(made.graph_of({"n": 2})).nodes if node.op == "qmap")
    assert (again.attrs, again.name) == (first.attrs, first.name)


def test_a_changed_file_is_refused(float_model, rng) -> None:
    model = quantize(between(float_model, FORMS["the operator"], 1), samples(rng),
                     patterns=[pattern()]).model
    (node,) = (node for node in model.graph.node if node.domain)
    node.attribute[0].s = b"x0 + 1"
    with pytest.raises(ValueError, match=r"hardswish1 \(lockstep.QuantizedMap_1\): function must "
                                         r"give int8, not -127 to 128"):
        convert(model)


def test_immediates_follow_from_the_scales(float_model, rng) -> None:
    seen = []

    def immediates(x, y):
        seen.append((x, y))
        return {"zp": y.zp, "s": 3}

    own = pattern(body=clamped((X0 >> S.var.astype("int32")) + ZP.var.astype("int32")),
                  fields=(ZP, S), immediates=immediates)
    made = quantize(between(float_model, FORMS["the operator"], 1), samples(rng), patterns=[own])
    (node,) = (node for node in optimize(made.graph).nodes if node.op == "qmap")
    x, y = seen[-1]
    parameters = made.graph.constants
    written = {(float(scale), int(parameters[name.replace("_scale", "_zero_point")]) - 128)
               for name, scale in parameters.items() if name.endswith("_scale") and not scale.ndim}
    assert {(x.scale, x.zp), (y.scale, y.zp)} <= written and x.scale != y.scale
    assert (x.dtype, y.dtype) == ("int8", "int8")
    assert node.attrs["function"] == f"min(max(((x0 >> 3) + {y.zp}), -128), 127)"


def refusing(x, y):
    raise ValueError("scales must be equal")


@pytest.mark.parametrize(("changes", "reason"), [
    ({"fields": (ZP,), "immediates": lambda x, y: {"zp": 128}, "body": clamped(
        X0 + ZP.var.astype("int32"))}, "immediate zp must be an integer from -128 to 127, not 128"),
    ({"fields": (S,), "immediates": lambda x, y: {"s": 1.5}, "body": clamped(
        X0 >> S.var.astype("int32"))}, "immediate s must be an integer from 0 to 63, not 1.5"),
    ({"immediates": refusing}, "scales must be equal"),
    ({"body": X0 * 2}, "its result must be int8, not -256 to 254"),
    ({"body": clamped(X0 * X0 * X0 * X0 * X0)},
     "its results on the way must fit int32, not reach 34091302912"),
    ({"body": clamped(X0 // 3)}, "x0 // 3 has no text"),
    ({"body": te.const(3, "int32")}, "its result does not depend on all inputs")])
def test_without_a_meaning_it_is_an_ordinary_function(float_model, rng, changes: dict,
                                                      reason: str) -> None:
    made = quantize(between(float_model, FORMS["the operator"]), samples(rng),
                    patterns=[pattern(**changes)])
    for graph in (made.graph, made.graph_of({"n": 2})):
        assert [node.op for node in optimize(graph).nodes] == [
            "quantize", "qconv2d", "qtable", "qconv2d", "dequantize"]
    (layer,) = (layer for layer in made.layers if layer.op == "function")
    assert (layer.quantized, layer.by, layer.steps_off) == (True, "", None)
    assert layer.declined == f"own is not used: {reason}"


def test_what_others_read_is_not_replaced(float_model, rng) -> None:
    def build(one, x):
        gate = one.add("HardSigmoid", x, alpha=1 / 6, name="gate")
        return one.add("Add", one.add("Mul", x, gate), one.add("Sigmoid", gate))

    assert by(quantize(between(float_model, build), samples(rng), patterns=[pattern()])) == []


def test_an_output_of_the_network_is_not_replaced(float_model, rng) -> None:
    one = float_model()
    x = one.conv(one.input("x", 1, *SHAPE[1:]), 6, 8)
    gate = one.add("HardSigmoid", x, alpha=1 / 6)
    model = one.model(one.conv(one.add("Mul", x, gate), 8, 5), gate)
    assert by(quantize(model, samples(rng), patterns=[pattern()])) == []


def test_most_operators_are_taken_and_the_first_pattern(float_model, rng) -> None:
    gate = pattern(te.clamp(X / 6 + 0.5, 0, 1), name="gate")
    model = between(float_model, FORMS["the operator"])
    both = [gate, pattern(), pattern(name="later")]
    assert by(quantize(model, samples(rng), patterns=both)) == ["own"]
    assert by(quantize(model, samples(rng), patterns=[gate])) == ["gate"]


def test_the_larger_of_two_regions_is_taken(float_model) -> None:
    """A bound that another one hides is a part of the function too."""
    def build(one, x):
        return clip(one, one.add("Max", x, number(one, -5)), 0, 6)

    (match,) = matches_of(convert(between(float_model, build, 1)),
                          [pattern(te.clamp(X, 0, 6))]).values()
    assert len(match.nodes) == 2


@pytest.mark.parametrize("swapped", [False, True])
def test_two_inputs_are_told_apart(float_model, rng, swapped: bool) -> None:
    """x - 2 |y|, whichever of the two is computed first."""
    def build(one, x):
        left, right = one.conv(x, 8, 8, name="left"), one.conv(x, 8, 8, name="right")
        first, second = (right, left) if swapped else (left, right)
        doubled = one.add("Mul", one.add("Abs", second), number(one, 2))
        return one.add("Sub", first, doubled, name="sub")

    own = pattern(X - te.abs(Y) * 2, body=clamped(X0 - (X1 >> 2)), inputs=(X, Y))
    made = quantize(between(float_model, build, 1), samples(rng), patterns=[own])
    graph = optimize(made.graph)
    (node,) = (node for node in graph.nodes if node.op == "qmap")
    made_by = {node.outputs[0]: node.name for node in graph.nodes}
    order = ["right", "left"] if swapped else ["left", "right"]
    assert [made_by[value] for value in node.inputs] == order and by(made) == ["own"]
    found = evaluate(graph, {"x": samples(rng, 1)}, [*node.inputs, *node.outputs])
    a, b, c = (array.astype(int) for array in found.values())
    np.testing.assert_array_equal(c, np.clip(a - (b >> 2), -128, 127))


def test_it_may_end_the_network_and_stand_between_functions(float_model, rng) -> None:
    """No table takes in what an instruction computes, and none is needed to read it."""
    one = float_model()
    x = one.conv(one.input("x", 1, *SHAPE[1:]), 6, 8)
    y = one.add("Sigmoid", one.add("HardSwish", one.add("Tanh", x)))
    made = quantize(one.model(one.add("HardSwish", one.conv(y, 8, 8))), samples(rng),
                    patterns=[pattern()])
    assert ops(made) == ["quantize", "qconv2d", "qtable", "qmap", "qtable", "qconv2d", "qmap",
                         "dequantize"]


def test_no_table_takes_it_in_where_its_input_is_read_too(float_model, rng) -> None:
    model = between(float_model, lambda one, x: one.add("Mul", one.add("HardSwish", x), x))
    made = quantize(model, samples(rng), patterns=[pattern()])
    assert ops(made) == ["quantize", "qconv2d", "qmap", "qmap", "qconv2d", "dequantize"]


def test_a_layer_stays_in_float_on_request(float_model, rng) -> None:
    model = between(float_model, lambda one, x: one.add("HardSwish", x, name="active"))
    made = quantize(model, samples(rng), patterns=[pattern()], keep_float=["active"])
    assert by(made) == [] and "qmap" not in ops(made)
    assert [layer.reason for layer in made.layers if layer.name == "active"] == [
        "kept in float on request"]


def test_activations_of_16_bits(float_model, rng) -> None:
    own = pattern(body=te.clamp(X0 >> 3, -32768, 32767))
    made = quantize(between(float_model, FORMS["the operator"], 1), samples(rng), patterns=[own],
                    activation_bits=16)
    graph = optimize(made.graph)
    assert [node.op for node in graph.nodes] == ["quantize", "qconv2d", "qmap", "qconv2d",
                                                 "dequantize"]
    x, y = (node.outputs[0] for node in graph.nodes[1:3])
    found = evaluate(graph, {"x": samples(rng, 1)}, [x, y])
    assert found[y].dtype == np.int16
    np.testing.assert_array_equal(found[y], found[x] >> 3)
    again = optimize(convert(made.model))
    assert [node.op for node in again.nodes] == [node.op for node in graph.nodes]


def test_steps_are_counted_over_all_values() -> None:
    """An instruction that rounds down instead of to nearest is a step off, at most."""
    from compiler.ops.records.integer_forms import Stored

    x, y = Stored("x", 0.5, -3), Stored("y", 1.0, 9)
    half = pattern(X, body=((X0 + 3) >> 1) + 9)
    assert half.steps_off([x], y) == 1
    exact = pattern(X, body=te.rshift_rne(X0 + 3, 1) + 9)
    assert exact.steps_off([x], y) == 0
    wrong = pattern(X, body=te.select(X0.equal(100), te.const(0, "int32"),
                                      te.rshift_rne(X0 + 3, 1) + 9))
    assert wrong.steps_off([x], y) == round(103 / 2) + 9
    wide = Stored("x", 0.5, 0, "int16")
    half = pattern(X, body=X0 >> 1)
    assert half.steps_off([wide], wide) == 16384
    assert re.fullmatch(r"\(x0 >> 1\)", half.function([wide], wide).text)


SLOPES = np.linspace(-0.5, 1.5, 8, dtype=np.float32)
W = te.Var("w", "float32")
FACTOR, SHIFT = te.Var("factor", "int16"), te.Var("shift", "uint8")


def slopes(x: Stored, w: np.ndarray, out: Stored) -> dict:
    if x.scale > 1e6:
        raise ValueError("not so coarse")
    return {"factor": np.rint(w * 2**6), "shift": 6}


def of_slopes(immediates: Callable = slopes) -> Pattern:
    """A slope of each channel below zero, as wrong as may be: it is told from any other."""
    body = clamped(te.rshift_rne(X0 * FACTOR.astype("int32"), (SHIFT & 31).astype("int32")))
    return Pattern("own", (X,), te.select(X < 0, X * W, X), body, (), immediates, (W,),
                   (FACTOR, SHIFT))


def of_channels(one, numbers: np.ndarray = SLOPES) -> str:
    return one.constant(numbers.reshape(-1, 1, 1))


def relu_and_slope(one, x: str) -> str:
    below = one.add("Min", x, number(one, 0))
    return one.add("Add", one.add("Relu", x), one.add("Mul", of_channels(one), below))


CHANNELS = {
    "the operator": (lambda one, x: one.add("PRelu", x, of_channels(one)), True),
    "parts": (relu_and_slope, True),
    "one slope": (lambda one, x: one.add("PRelu", x, number(one, 0.25)), True),
    "no slope below": (lambda one, x: one.add("Mul", x, of_channels(one)), False),
    "two constants": (lambda one, x: one.add("Mul", one.add("PRelu", x, of_channels(one)),
                                             of_channels(one, SLOPES + 1)), None),
    "a slope of each row": (lambda one, x: one.add("PRelu", x, one.constant(
        np.linspace(0, 1, SHAPE[2], dtype=np.float32).reshape(-1, 1))), True)}


@pytest.mark.parametrize("name", CHANNELS)
def test_constants_of_channels_are_found(float_model, name: str) -> None:
    """An operator that reads one of two constants is found alone."""
    form, found = CHANNELS[name]
    graph = convert(between(float_model, form, 1))
    matches = [*matches_of(graph, [of_slopes()]).values()]
    assert len(matches) == (found is not False)
    if found:
        (match,) = matches
        assert match.nodes[-1].op != "mul" and len(match.numbers) == 1
        numbers = {"one slope": [0.25]}.get(name, SLOPES if "row" not in name else np.linspace(
            0, 1, SHAPE[2]))
        np.testing.assert_allclose(match.numbers[0], numbers, rtol=1e-6)


def test_their_numbers_are_those_of_the_declaration(float_model, rng) -> None:
    made = quantize(between(float_model, CHANNELS["parts"][0], 1), samples(rng),
                    patterns=[of_slopes()])
    graph = optimize(made.graph)
    (node,) = (node for node in graph.nodes if node.op == "qmap")
    x, y = node.inputs[0], node.outputs[0]
    values = evaluate(graph, {"x": samples(rng, 1)}, [x, y])
    factors = np.rint(SLOPES * 64).astype(int).reshape(-1, 1, 1)
    np.testing.assert_array_equal(values[y], np.clip(np.rint(values[x] * factors / 64), -128, 127))
    again = optimize(convert(made.model))
    (same,) = (node for node in again.nodes if node.op == "qmap")
    np.testing.assert_array_equal(again.constants[same.inputs[1]], graph.constants[node.inputs[1]])


@pytest.mark.parametrize(("numbers", "reason"), [
    ({"factor": [1.0, 2.0], "shift": 0},
     "field factor must be a number, or one for each of 8 channels, not of shape (2,)"),
    ({"factor": True, "shift": 0}, "field factor must be integers, not bool"),
    ({"factor": 40000, "shift": 0},
     "field factor must be integers from -32768 to 32767, not 40000"),
    ({"factor": 1.5, "shift": 0}, "field factor must be integers from -32768 to 32767, not 1.5")])
def test_numbers_that_their_field_does_not_hold_are_declined(float_model, rng, numbers: dict,
                                                             reason: str) -> None:
    made = quantize(between(float_model, CHANNELS["the operator"][0]), samples(rng),
                    patterns=[of_slopes(lambda x, w, out: numbers)])
    assert [layer.declined for layer in made.layers if layer.declined] == [
        f"own is not used: {reason}"]
