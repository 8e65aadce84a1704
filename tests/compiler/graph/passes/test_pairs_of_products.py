"""Arithmetic functions of products compute from two int8 of the sums: nearer than from one."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes
from tests.compiler.graph.passes.test_functions_of_products import (
    FORMS, FUNCTIONS, assert_on_accelerators, model_of)
from tests.support.slow_cases import each_once

HARDSWISH = FUNCTIONS["hardswish"]


def compared(one, model, shape, step: float, **options):
    """The graph of integers; nearly all of its results are those of floats, others a step off."""
    graph, plain = (optimize(convert(model), standard_passes(integerize=integerize, **options))
                    for integerize in (True, False))
    feeds = {"x": (2 * one.rng.normal(size=shape)).astype(np.float32)}
    found, wanted = (evaluate(each, feeds)[model.graph.output[0].name] for each in (graph, plain))
    apart = np.abs(found - wanted) / step
    assert wanted.std() > 10 * step and apart.max() <= 1.01
    return graph, np.mean(apart > 0.5)


@each_once("form, step", ["conv", "dense"], [(10 / 255, 8), (1.6 / 255, 50)], ids=str)
def test_few_results_are_other(qdq, form: str, step) -> None:
    scale, zero = step
    one = qdq(seed=2, opset=18)
    model = model_of(one, form, HARDSWISH, scale, zero)
    graph, other = compared(one, model, FORMS[form][1], scale)
    assert other < 0.06 and graph.notes == ()
    assert_on_accelerators(one, graph)


def test_a_table_is_what_costs_less(qdq) -> None:
    one = qdq(seed=2, opset=18)
    model = model_of(one, "conv", HARDSWISH)
    graph, _ = compared(one, model, FORMS["conv"][1], 10 / 255, twice=False)
    assert [node.op for node in graph.nodes][-3:-1] == ["qconv2d", "qtable"]


def gated(one, scale: float, zero: int, read: bool = False):
    """A hardswish times a gate of each channel; what is read besides is quantized, too."""
    x = one.requantized(one.input("x", 1, 4, 6, 5), 0.03, 5)
    y = HARDSWISH(one, one.add("Conv", x, one.weight(6, 4, 3, 3, scale=0.004)))
    mean = one.requantized(one.add("GlobalAveragePool", x), 0.01, 120)
    gate = one.add("HardSigmoid", one.add("Conv", mean, one.weight(6, 4, 1, 1, scale=0.004)),
                   alpha=1 / 6, beta=0.5)
    more = [one.requantized(y, 10 / 255, 8)] if read else []
    return one.model(one.requantized(one.add("Mul", y, gate), scale, zero), *more)


@pytest.mark.parametrize("read", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_two_products_meet_in_a_gate(qdq, read: bool) -> None:
    one = qdq(seed=4, opset=18)
    graph, other = compared(one, gated(one, 5 / 255, 16, read), (1, 4, 6, 5), 5 / 255)
    assert graph.notes == () and other < 0.1
    ops = [node.op for node in graph.nodes]
    assert (ops.count("qmap"), ops.count("qconv2d_add")) == (1 + read, 2)
    assert_on_accelerators(one, graph)


def test_factors_and_offsets_of_channels_are_operands(qdq) -> None:
    one = qdq(seed=3, opset=18)
    factors = one.constant(np.geomspace(0.4, 1, 6).astype(np.float32).reshape(6, 1, 1))
    offsets = one.constant(np.linspace(-1, 1, 6).astype(np.float32).reshape(6, 1, 1))
    model = model_of(one, "conv", lambda one, y: one.add("Add", one.add(
        "Mul", HARDSWISH(one, y), factors), offsets), 8 / 255, 40)
    graph, other = compared(one, model, FORMS["conv"][1], 8 / 255)
    assert other < 0.06 and [node.op for node in graph.nodes][-2] == "qmap"
    assert_on_accelerators(one, graph)


def test_a_residual_meets_the_sums_themselves(qdq) -> None:
    one = qdq(seed=3, opset=18)
    x = one.requantized(one.input("x", 7, 20), 0.03, 5)
    y = one.add("Add", one.add("Gemm", x, one.weight(20, 20, scale=0.015, axis=1)), x)
    graph = optimize(convert(one.model(one.requantized(y, 0.2, 128))))
    assert "qmap" not in [node.op for node in graph.nodes]
