"""Why a pattern is no match: a test takes each condition away, and it is one."""

from collections.abc import Callable

import numpy as np
from typing import Any

import pytest

from compiler import te
from compiler.frontend import convert
from compiler.quantize import quantize
from compiler.quantize.networks.matching import matches_of
from compiler.quantize.networks.misses import why_unmatched
from compiler.quantize.networks.totals import totals_of
from tests.compiler.quantize.networks.test_functions import between, samples
from tests.compiler.quantize.networks.test_matching import X, X0, X1, Y, clamped, pattern
from tests.compiler.quantize.networks.test_totals import ROWS, SQUARES, by_product, network

ADDRELU = pattern(te.maximum(X + Y, 0.0), name="addrelu", inputs=(X, Y), body=clamped(X0 + X1))


def added(one, x: str, other: str) -> tuple[str, str]:
    total = one.add("Add", x, other, name="total")
    return total, one.add("Relu", total, name="last")


def read_twice(one, x: str) -> str:
    total, result = added(one, x, one.conv(x, 8, 8))
    return one.add("Mul", result, one.add("GlobalAveragePool", total, name="reader"))


def read_once(one, x: str) -> str:
    _, result = added(one, x, one.conv(x, 8, 8))
    return one.add("Mul", result, one.add("GlobalAveragePool", result, name="reader"))


def constant(one, x: str) -> str:
    return added(one, x, one.constant(np.ones((8, 1, 1), np.float32)))[1]


def computed(one, x: str) -> str:
    return added(one, x, one.add("GlobalAveragePool", x))[1]


@pytest.mark.parametrize(("hindered", "free", "reason"), [
    (read_twice, read_once,
     "nearest is last (relu), but reader (globalavgpool) reads total (add), too"),
    (constant, computed,
     "nearest is last (relu), where a constant of shape (8, 1, 1) stands for a value")])
def test_a_condition_and_the_match_without_it(float_model, hindered: Callable, free: Callable,
                                              reason: str) -> None:
    graph = convert(between(float_model, hindered, 1))
    assert not matches_of(graph, [ADDRELU]) and why_unmatched(graph, ADDRELU) == reason
    assert matches_of(convert(between(float_model, free, 1)), [ADDRELU])


@pytest.mark.parametrize(("options", "reason"), [
    ({"axis": 1}, "but total (reduce_sum) is no sum along the last axis that leaves it out"),
    ({"terms": lambda *at: at[0].add("Neg", by_product(*at))}, "which no sum reads"),
    ({"rows": ROWS[0]}, "whose terms are not those of a value and of each row of a constant")])
def test_what_a_sum_of_terms_lacks(float_model, options: dict, reason: str) -> None:
    given: dict[str, Any] = {"terms": by_product, "name": "total"} | options
    graph = convert(network(float_model, **given))
    (near,) = (node for node in graph.nodes if node.op in ("mul", "pow"))
    assert not totals_of(graph, [SQUARES])
    assert why_unmatched(graph, SQUARES) == f"nearest is {near.name} ({near.op}), {reason}"
    assert totals_of(convert(network(float_model, by_product)), [SQUARES])


def test_no_terms_near(float_model) -> None:
    graph = convert(network(float_model, lambda one, x, w: one.add("Add", x, w)))
    assert why_unmatched(graph, SQUARES) == (
        "no operators compute (x - w) * (x - w), the term of its sum")


def test_nothing_near(float_model, rng) -> None:
    made = quantize(between(float_model, lambda one, x: one.add("Tanh", x)), samples(rng),
                    patterns=[ADDRELU])
    assert made.unused == {"addrelu": "no operators compute max(x + y, 0.0)"}


def test_a_softmax_stays_whole(float_model, rng) -> None:
    """A quotient inside it is no match, or else its exponentials had no scale."""
    ratio = pattern(X / Y, name="ratio", inputs=(X, Y), body=clamped(X0 + X1))

    def softmax(one, x: str) -> str:
        powers = one.add("Exp", one.add("Sub", x, one.add("ReduceMax", x, axes=[3])))
        return one.add("Div", powers, one.add("ReduceSum", powers, one.constant(np.array([3]))),
                       name="last")

    made = quantize(between(float_model, softmax), samples(rng), patterns=[ratio])
    assert made.unused == {
        "ratio": "nearest is last (div), but another layer has some of its operators"}
    assert all(layer.quantized for layer in made.layers)
