"""Elementwise functions of one value of 16 bits become polynomials of pieces."""

import numpy as np
import pytest

from accel.mapping.selecting.selection import select
from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.graph.division.partition import ACCEL
from compiler.graph.passes.pipeline import standard_passes
from examples.machines.int16 import machine as SHALLOW
from examples.machines.int16_deep import machine as DEEP
from runtime import compile as compile_model

EVERYTHING = np.arange(1 << 16).astype(np.uint16)


def erf(one, x):
    return one.add("Erf", one.add("Div", x, one.constant(np.float32(2**0.5))))


def gelu(one, x):
    half = one.add("Mul", x, one.constant(np.float32(0.5)))
    return one.add("Mul", half, one.add("Add", erf(one, x), one.constant(np.float32(1))))


def own(op, **attrs):
    return lambda one, x: one.add(op, x, **attrs)


def functions(one, function, dtype, scale, zeros, out):
    """A model of one function between quantizations, and the name of its result."""
    x = one.dequantize(one.input("x", 64, 1024, dtype=dtype), scale, zeros[0], dtype)
    q = one.quantize(function(one, x), out, zeros[1], dtype)
    return convert(one.model(q, dtypes={q: dtype}), "net"), q


@pytest.mark.parametrize(("function", "scale", "out", "dtype"), [
    (erf, 4 / 32768, 1 / 32768, "int16"), (gelu, 4 / 32768, 4 / 32768, "uint16"),
    (gelu, 12 / 32768, 12 / 32768, "int16"), (gelu, 4 / 32768, 0.5 / 32768, "int16"),
    (own("Sigmoid"), 3e-4, 1 / 65535, "int16"), (own("Elu", alpha=1.0), 1e-4, 1.1e-4, "int16"),
    (own("Exp"), 5e-5, 2e-4, "uint16")])
def test_a_function_is_within_a_step_for_every_number(qdq, function, scale, out, dtype) -> None:
    """Some results lie beyond the type."""
    middle = 0 if dtype == "int16" else 1 << 15
    model, q = functions(qdq(opset=21), function, dtype, scale, (middle + 77, middle - 99), out)
    feeds = {"x": EVERYTHING.view(dtype).reshape(64, 1024)}
    graph, real = optimize(model), optimize(model, standard_passes(integerize=False))
    (node,) = [node for node in graph.nodes if not node.op.startswith("to_")]
    assert node.op == "qpieces" and graph.notes == ()
    found, wanted = (evaluate(each, feeds)[q].astype(int) for each in (graph, real))
    assert np.ptp(wanted) > 10000 and np.abs(found - wanted).max() <= 1
    assert (found != wanted).mean() < 0.1
    for machine in (DEEP, SHALLOW):
        assert select(machine, graph, node).steps


def test_the_accelerator_computes_the_same(qdq) -> None:
    """Behind a product, as in a transformer; rows and channels fill no blocks."""
    one = qdq(opset=21)
    x = one.requantized(one.input("x", 3, 7, 5), 1e-4, 0, "int16")
    weight = one.add("DequantizeLinear", one.constant(one.rng.integers(-9, 10, (5, 6), np.int8)),
                     one.constant(np.float32(0.05)), one.constant(np.int8(0)))
    y = one.requantized(one.add("MatMul", x, weight), 2e-4, 0, "int16")
    z = one.requantized(erf(one, y), 1 / 32768, 0, "int16")
    model = one.model(z)
    module = compile_model(model, "accel", machine=DEEP, cache=False)
    feeds = {"x": one.rng.normal(size=(3, 7, 5)).astype(np.float32)}
    assert [node.op for segment in module.partition.segments if segment.target == ACCEL
            for node in segment.nodes] == ["qdense", "qpieces"]
    wanted = compile_model(model, "cpu", cache=False)(feeds)
    np.testing.assert_array_equal(module(feeds)[z], wanted[z])


@pytest.mark.parametrize("function", [own("Erf"), own("Floor")])
def test_what_is_not_smooth_says_how_far_off_it_would_be(qdq, function) -> None:
    model, _ = functions(qdq(opset=21), function, "int16", 0.01, (0, 0), 1e-4)
    graph = optimize(model)
    assert "qpieces" not in [node.op for node in graph.nodes]
    assert any("its polynomials, of 256 numbers each, would be up to" in note
               for note in graph.notes), graph.notes
