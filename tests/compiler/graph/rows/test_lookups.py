"""Rows of constant tables as an integer operator: where it is put, and that nothing changes."""

import numpy as np
import pytest

from compiler.graph import Builder, Graph, evaluate, optimize, standard_passes
from compiler.graph.graph import TensorType
from compiler.graph.rows.lookups import LookupsAsRows, every_row, no_row

STEPS = np.array(0.05, np.float32)


def network(dtype: str = "int8", axis: int = 0, also: bool = False, places: int = 2) -> Graph:
    """dequantize(table) -> gather -> quantize -> dequantize, twice from the same places."""
    rng, net = np.random.default_rng(3), Builder("lookups")
    net.add_input("ids", _ids(places))
    outputs = []
    for name in "ab":
        stored = rng.integers(0, 256, (300, 5)).astype(np.uint8).astype(dtype)
        for role, array in (("table", stored), ("scale", STEPS), ("zero", np.array(3, dtype))):
            net.add_constant(f"{name}:{role}", array)
        steps = [f"{name}:scale", f"{name}:zero"]
        net.emit("dequantizelinear", f"{name}_float", [f"{name}:table", *steps], f"{name}:f",
                 axis=0)
        net.emit("gather", f"{name}_rows", [f"{name}:f", "ids"], f"{name}:rows", axis=axis)
        net.emit("quantizelinear", f"{name}_quantize", [f"{name}:rows", *steps], f"{name}:q",
                 axis=0)
        net.emit("dequantizelinear", f"{name}_back", [f"{name}:q", *steps], f"{name}:y", axis=0)
        outputs += [f"{name}:y", *[f"{name}:rows"] * also]
    return net.finish(outputs)


def _ids(dimensions: int) -> TensorType:
    return TensorType((1, 7)[:dimensions], "int64")


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_rows_are_taken_from_bytes(dtype: str) -> None:
    graph = network(dtype)
    found = LookupsAsRows()(graph)
    assert ops(found).count("qgather") == 2 and "gather" not in ops(found)
    assert ops(found).count("numbers_in_bytes") == 1
    assert "quantizelinear" not in ops(found) and found.constants["a_rows:table"].dtype == np.int8
    assert {node.name for node in found.nodes if node.op == "qgather"} == {"a_rows", "b_rows"}
    ids = np.array([[0, 299, -1, -300, 256, 41, 7]])
    before, after = (evaluate(one, {"ids": ids}) for one in (graph, found))
    for value in graph.outputs:
        np.testing.assert_array_equal(before[value], after[value])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_what_reads_them_is_an_integer_operator(dtype: str) -> None:
    whole = optimize(network(dtype), standard_passes(takes=every_row))
    assert "qgather" in ops(whole) and "gather" not in ops(whole)
    assert ops(whole).count("dequantize") == 2


def test_what_others_read_stays_beside_it() -> None:
    found = LookupsAsRows()(network(also=True))
    assert ops(found).count("gather") == ops(found).count("qgather") == 2
    assert {node.name for node in found.nodes if node.op == "gather"} == {"a_rows", "b_rows"}


def test_a_table_of_int8_needs_no_quantization() -> None:
    net = Builder("bytes")
    net.add_input("ids", _ids(2))
    net.add_constant("table", np.arange(-60, 60, dtype=np.int8).reshape(24, 5))
    graph = net.finish([net.emit("gather", "rows", ["table", "ids"], "y", axis=0)])
    found = LookupsAsRows()(graph)
    assert ops(found) == ["numbers_in_bytes", "qgather"]
    ids = np.array([[0, 23, -1, -24, 5, 6, 7]])
    np.testing.assert_array_equal(evaluate(graph, {"ids": ids})["y"],
                                  evaluate(found, {"ids": ids})["y"])


@pytest.mark.parametrize("graph", [network(axis=1), network(places=0)],
                         ids=["columns", "one row"])
def test_other_lookups_stay(graph: Graph) -> None:
    assert ops(LookupsAsRows()(graph)) == ops(graph)


def test_nothing_changes_where_no_machine_asks() -> None:
    graph = network()
    assert LookupsAsRows(no_row)(graph) is graph
    assert "qgather" not in ops(optimize(graph, standard_passes()))
