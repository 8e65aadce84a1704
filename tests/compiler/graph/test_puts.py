"""A choice of one computed place is what exporters write for a new row of a cache."""

import numpy as np
import onnx
import pytest

from compiler.frontend import convert
from compiler.frontend.onnx.exporting import exported_model
from compiler.graph import evaluate, optimize

SHAPE = (5, 4)


def choice(one, axis: int = 0, row_axis: int | None = None, dtype: str = "int64",
           places: np.ndarray | None = None):
    """where(places == position, row, cache)"""
    cache, position = one.input("cache", *SHAPE), one.input("position", 1, dtype=dtype)
    row_axis = axis if row_axis is None else row_axis
    row = one.input("row", *(1 if i == row_axis else n for i, n in enumerate(SHAPE)))
    numbers = np.arange(SHAPE[axis]) if places is None else places
    at = one.add("Equal", one.constant(numbers.reshape(-1, 1) if axis == 0 else numbers), position)
    return one.add("Where", at, row, cache)


def feeds(axis: int, position: int) -> dict[str, np.ndarray]:
    cache = np.arange(20, dtype=np.float32).reshape(SHAPE)
    return {"cache": cache, "row": -np.ones_like(cache.take([0], axis)),
            "position": np.array([position])}


@pytest.mark.parametrize("axis", [0, 1])
def test_it_is_a_put(qdq, axis: int) -> None:
    one = qdq()
    model = one.model(choice(one, axis))
    plain, graph = convert(model, "net"), optimize(convert(model, "net"))
    assert [node.op for node in graph.nodes] == ["put_place"]
    for position in (0, 3, -1, 7):
        given = feeds(axis, position)
        (wanted,), (found,) = (evaluate(one, given).values() for one in (plain, graph))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("changes", [
    {"row_axis": 1}, {"places": np.arange(5) + 1}, {"places": np.array([0, 1, 2, 3, 3])}], ids=str)
def test_another_choice_stays_what_it_is(qdq, changes) -> None:
    one = qdq()
    graph = optimize(convert(one.model(choice(one, **changes)), "net"))
    assert "where" in [node.op for node in graph.nodes]


def test_it_is_written_as_onnx(qdq) -> None:
    one = qdq()
    graph = optimize(convert(one.model(choice(one)), "net"))
    model = exported_model(graph)
    onnx.checker.check_model(model, full_check=True)
    again, given = optimize(convert(model, "net")), feeds(0, 2)
    assert [node.op for node in again.nodes] == ["put_place"]
    (wanted,), (found,) = (evaluate(one, given).values() for one in (graph, again))
    np.testing.assert_array_equal(found, wanted)


def test_scales_that_differ_keep_it_in_float(qdq) -> None:
    one = qdq()
    cache, position = one.input("cache", *SHAPE), one.input("position", 1, dtype="int64")
    row = one.requantized(one.input("row", 1, 4), 0.1)
    at = one.add("Equal", one.constant(np.arange(5).reshape(-1, 1)), position)
    put = one.add("Where", at, row, one.requantized(cache, 0.05))
    graph = optimize(convert(one.model(one.requantized(put, 0.05)), "net"))
    assert any("what is put has another scale" in note for note in graph.notes)
