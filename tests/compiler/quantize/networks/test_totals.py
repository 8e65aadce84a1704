"""Sums of a term along the last axis, which products of a machine's own stand for."""

import numpy as np
import pytest

from compiler import te
from compiler.frontend import convert
from compiler.graph import optimize
from compiler.ops.records.integer_forms import StaysFloat, Stored
from compiler.ops.term_patterns import TermPattern
from compiler.quantize import quantize
from compiler.quantize.networks.totals import totals_of

X, W = te.Var("x", "float32"), te.Var("w", "float32")
X0, X1 = te.Var("x0", "int32"), te.Var("x1", "int32")


def squared(x: te.Expr, w: te.Expr) -> te.Expr:
    return (x - w) * (x - w)


SQUARES = TermPattern("squares", (X, W), squared(X, W), squared(X0, X1))
PRODUCTS = TermPattern("products", (X, W), X * W, X0 * X1)
ROWS = np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)


def network(float_model, terms, axis: int = -1, keepdims: int = 0, place: int = 1, rows=ROWS,
            name: str = ""):
    one = float_model()
    x = one.input("x", 7, 4)
    apart = one.add("Unsqueeze", x, one.constant(np.array([place])))
    made = terms(one, apart, one.constant(rows))
    return one.model(one.add("ReduceSum", made, one.constant(np.array([axis])), keepdims=keepdims,
                             **{"name": name} if name else {}))


def by_product(one, x: str, w: str) -> str:
    off = one.add("Sub", x, w)
    return one.add("Mul", off, off)


def by_power(one, x: str, w: str) -> str:
    return one.add("Pow", one.add("Sub", w, x), one.constant(np.float32(2)))


def cubed(one, x: str, w: str) -> str:
    off = one.add("Sub", x, w)
    return one.add("Mul", one.add("Mul", off, off), off)


@pytest.mark.parametrize("terms", [by_product, by_power])
def test_every_way_of_writing_it_is_found(float_model, terms) -> None:
    graph = convert(network(float_model, terms))
    (match,) = totals_of(graph, [PRODUCTS, SQUARES]).values()
    assert match.pattern is SQUARES and match.sources == ("x",)
    assert match.nodes[0].op == "reshape" and match.nodes[-1].op == "reduce_sum"
    np.testing.assert_array_equal(graph.constants[match.weight], ROWS)


@pytest.mark.parametrize("options", [
    {"terms": cubed}, {"terms": by_product, "axis": 1}, {"terms": by_product, "keepdims": 1},
    {"terms": by_product, "rows": ROWS[:, :1]},
    {"terms": lambda one, x, w: by_product(one, x, one.add("Mul", w, x))}])
def test_other_sums_are_not(float_model, options) -> None:
    assert not totals_of(convert(network(float_model, **options)), [SQUARES])


def test_what_is_read_elsewhere_stays(float_model) -> None:
    one = float_model()
    apart = one.add("Unsqueeze", one.input("x", 7, 4), one.constant(np.array([1])))
    made = by_product(one, apart, one.constant(ROWS))
    total = one.add("ReduceSum", made, one.constant(np.array([-1])), keepdims=0)
    graph = convert(one.model(total, one.add("Neg", made)))
    assert not totals_of(graph, [SQUARES])


def test_scales_and_zero_points_are_what_the_term_needs(float_model, rng) -> None:
    """Differences have one scale, and products zero points of 0."""
    assert (SQUARES.moves, SQUARES.shares) == (True, True)
    assert (PRODUCTS.moves, PRODUCTS.shares) == (False, False)
    x = {"x": np.abs(rng.normal(size=(8, 7, 4))).astype(np.float32) * 9}
    squares = quantize(network(float_model, by_product), x, patterns=[SQUARES])
    products = quantize(network(float_model, lambda one, x, w: one.add("Mul", x, w)), x,
                        patterns=[PRODUCTS])
    (squares_node,), (products_node,) = (
        [node for node in made.graph.nodes if node.op == "quantized_terms"]
        for made in (squares, products))
    scale = float(squares.graph.constants["x_scale"])
    zero = int(squares.graph.constants["x_zero_point"])
    np.testing.assert_array_equal(squares.graph.constants[squares_node.inputs[1]],
                                  np.rint(ROWS / scale) + zero)
    assert int(products.graph.constants["x_zero_point"]) == 128
    assert np.abs(products.graph.constants[products_node.inputs[1]].astype(int) - 128).max() > 126


def test_sums_that_int32_does_not_hold_are_declined(float_model, rng) -> None:
    rows = np.resize(ROWS, (2, 40000)).astype(np.float32)
    one = float_model()
    apart = one.add("Unsqueeze", one.input("x", 1, 40000), one.constant(np.array([1])))
    total = one.add("ReduceSum", by_product(one, apart, one.constant(rows)),
                    one.constant(np.array([-1])), keepdims=0)
    made = quantize(one.model(total), {"x": rng.normal(size=(2, 1, 40000)).astype(np.float32)},
                    patterns=[SQUARES])
    (layer,) = (layer for layer in made.layers if layer.declined)
    assert layer.declined.startswith("squares is not used: ") and not layer.by
    assert "qterms" not in [node.op for node in optimize(made.graph).nodes]


def test_zero_points_that_it_does_not_take_are_refused() -> None:
    with pytest.raises(StaysFloat, match="^its term is no multiple of the real one with zero "
                                         "points 3 and 3$"):
        PRODUCTS.attributes(Stored("x", 0.5, 3), Stored("w", 0.5, 3), Stored("y", 1.0, 0), 4)
