"""States of a step are kept as the integers that they are."""

import numpy as np
import pytest

from compiler.errors import ArgumentError
from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize
from compiler.graph.division.states import with_stored_states

SCALE, ZERO = 0.05, 7


def step(qdq, row_scale: float = SCALE, shape=(3, 4)) -> Graph:
    """A product joined with rows of a cache [5, 4]: the sum of their columns is the result."""
    one = qdq()
    past = one.input("past", 5, 4)
    x = one.input("x", 1, 3)
    row = one.add("Relu", one.add("MatMul", one.requantized(x, 0.02, 128),
                                  one.weight(3, 4, axis=1)))
    row = one.requantized(row, row_scale, ZERO, "int8")
    whole = one.add("Concat", one.requantized(past, SCALE, ZERO, "int8"), row, axis=0)
    whole = one.requantized(whole, SCALE, ZERO, "int8")
    y = one.add("MatMul", whole, one.weight(4, 2, axis=1))
    return optimize(convert(one.model(one.requantized(y, 0.5, 128), row), "net"))


def rows_of(graph: Graph) -> dict[str, str]:
    return {"past": graph.outputs[1]}


def test_a_cache_and_its_row_lose_their_quantization(qdq, rng) -> None:
    graph = step(qdq)
    kept, (state,) = with_stored_states(graph, rows_of(graph))
    assert kept.inputs == graph.inputs and kept.outputs == graph.outputs
    assert {kept.values[value].dtype for value in (state.cache, state.row)} == {"int8"}
    assert (state.axis, state.places, state.zp) == (0, 5, ZERO)
    x = {"x": rng.normal(size=(1, 3)).astype(np.float32)}
    past = rng.normal(size=(5, 4)).astype(np.float32)
    wanted = evaluate(graph, x | {"past": past})
    found = evaluate(kept, x | {"past": state.stored(past)})
    np.testing.assert_array_equal(found[graph.outputs[0]], wanted[graph.outputs[0]])
    np.testing.assert_array_equal(found[state.row], state.stored(wanted[state.row]))


def test_other_scales_stay_in_float(qdq) -> None:
    graph = step(qdq, 2 * SCALE)
    kept, (state,) = with_stored_states(graph, rows_of(graph))
    assert kept.values["past"].dtype == "float32" and state.scale == 0
    real = np.ones((1, 4), np.float32)
    assert state.stored(real) is real


def test_rows_are_put_along_their_axis(qdq) -> None:
    graph = step(qdq)
    _, (state,) = with_stored_states(graph, rows_of(graph))
    cache = state.empty()
    state.put(cache, np.ones((2, 4), np.int8), 2)
    state.put(cache, np.full((3, 4), 2, np.int8), 4)
    assert cache[:, 0].tolist() == [ZERO, ZERO, 1, 1, 2]


@pytest.mark.parametrize("states, message", [
    ({"other": "x"}, "a cache must be one of the inputs past, x, not 'other'"),
    ({"past": "other"}, r"the row of past must be one of the outputs .*, not 'other'")])
def test_states_wrong(qdq, states, message) -> None:
    with pytest.raises(ArgumentError, match=f"^{message}$"):
        with_stored_states(step(qdq), states)


def test_what_is_no_row_of_a_cache_is_refused(qdq) -> None:
    graph = step(qdq)
    with pytest.raises(ArgumentError, match=r"must be one place of past, which is .*, not .*$"):
        with_stored_states(graph, {"past": graph.outputs[0]})
