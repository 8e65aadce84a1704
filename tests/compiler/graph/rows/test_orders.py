"""The first elements in order as integer operators: where they are put, and that nothing changes.
"""

import numpy as np
import pytest

from compiler.graph import Builder, Graph, TensorType, evaluate, optimize, standard_passes
from compiler.graph.rows.lookups import every_row, no_row
from compiler.graph.rows.orders import OrdersAsRows


def network(elements: int = 300, count: int = 4, largest: int = 1, axis: int = 1,
            scale: float = 0.5) -> Graph:
    """What a TopK of dequantized bytes is: places, and the elements there."""
    net = Builder("top")
    net.add_input("q", TensorType((3, elements), "int8"))
    net.emit("dequantize", "dq", ["q"], "x", scale=scale, zp=3)
    net.emit("sorted_places", "top", ["x"], "places", axis=axis, count=count, largest=largest)
    net.emit("gather_elements", "there", ["x", "places"], "values", axis=axis)
    return net.finish(["values", "places"])


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize(("elements", "count", "parts"), [
    (300, 4, 3), (256, 16, 2), (5, 5, 2), (1, 1, 2), (2000, 1, 3)])
@pytest.mark.parametrize("largest", [0, 1])
def test_places_and_elements_are_those_of_bytes(elements, count, parts, largest) -> None:
    graph = network(elements, count, largest)
    found = OrdersAsRows()(graph)
    assert ops(found).count("qorder") == parts
    assert not {"sorted_places", "gather_elements"} & {*ops(found)}
    rows = np.random.default_rng(elements).integers(-9, 9, (3, elements)).astype(np.int8)
    before, after = (evaluate(one, {"q": rows}) for one in (graph, found))
    for value in graph.outputs:
        np.testing.assert_array_equal(before[value], after[value])


def test_what_is_sorted_across_rows_stays() -> None:
    graph = network(axis=0, count=2)
    assert OrdersAsRows()(graph) is graph


def test_steps_that_do_not_keep_numbers_apart_stay() -> None:
    graph = network(scale=float(np.finfo(np.float32).max) / 200)
    assert OrdersAsRows()(graph) is graph


def test_elements_of_another_tensor_stay() -> None:
    net = Builder("top")
    net.add_input("q", TensorType((3, 9), "int8"))
    net.add_input("other", TensorType((3, 9), "float32"))
    net.emit("sorted_places", "top", ["q"], "places", axis=1, count=2, largest=1)
    graph = net.finish([net.emit("gather_elements", "there", ["other", "places"], "y", axis=1)])
    assert ops(OrdersAsRows()(graph))[-1] == "gather_elements"


def test_nothing_changes_where_no_target_asks() -> None:
    graph = network()
    assert OrdersAsRows(no_row)(graph) is graph
    assert "qorder" not in ops(optimize(graph, standard_passes()))
    few = OrdersAsRows(lambda operator, elements, attrs: attrs["count"] < 4)
    assert few(graph) is graph and few(network(count=3)) is not graph
    assert "qorder" in ops(optimize(graph, standard_passes(takes=every_row)))
