"""Rows that are put at a place which a run decides: one stream, proved for all places."""

from dataclasses import replace

import numpy as np
import pytest

import lockstep
from accel.mapping.positions.puts import moved
from accel.mapping.segment import AccelSegment
from accel.mapping.target import AccelTarget
from accel.proof.legal import prove
from compiler.graph import Graph, evaluate
from runtime import load
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

SHAPE = [6, 3, 8]


def network(axis: int, whole: bool = False) -> tuple[Graph, Net]:
    """A row is put into a cache, of which a product is made; perhaps others read the cache."""
    net = Net(axis)
    cache = net.input(*SHAPE, name="cache")
    row = net.rescale(net.input(*(1 if i == axis else n for i, n in enumerate(SHAPE)), name="row"))
    at = net.input(1, name="position", dtype="int64")
    y = net.dense(net.add_node("qput", cache, row, at, axis=axis), 5)
    return net.graph(y, *([net.rescale(cache)] if whole else [])), net


def feeds(net: Net, position: int) -> dict[str, np.ndarray]:
    given = {name: array for name, array in net.samples().items() if name != "position"}
    return given | {"position": np.array([position])}


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_place_of_every_axis(axis: int) -> None:
    graph, net = network(axis)
    module = lockstep.compile(graph, "accel,cpu", machine=TINY)
    assert [segment.target for segment in module.partition.segments] == ["accel"]
    for position in range(SHAPE[axis]):
        given = feeds(net, position)
        np.testing.assert_array_equal(module(given)[graph.outputs[0]],
                                      evaluate(graph, given)[graph.outputs[0]])


@pytest.mark.parametrize("axis", [0, 2])
def test_the_proof_covers_all_places(axis: int) -> None:
    """What is proved of a stream that writes all places holds for each."""
    compiled = AccelTarget(TINY).compile(network(axis)[0])
    program, (put,) = compiled.program, compiled.puts
    assert put.places == SHAPE[axis]
    for place in range(put.places):
        words = program.words.copy()
        for index, word in moved(words, [put], {"position": place}).items():
            assert index in put.stores
            words[index] = word
        prove(TINY, replace(program, words=words))


def test_a_saved_module_puts_rows(tmp_path) -> None:
    graph, net = network(0)
    path = tmp_path / "net.lockstep"
    lockstep.compile(graph, "accel,cpu", machine=TINY).save(path)
    module, given = load(path), feeds(net, 4)
    np.testing.assert_array_equal(module(given)[graph.outputs[0]],
                                  evaluate(graph, given)[graph.outputs[0]])
    assert isinstance(module.accelerated[0], AccelSegment) and module.accelerated[0].puts


@pytest.mark.parametrize("position", [-1, 6])
def test_a_place_that_is_none_is_refused(position: int) -> None:
    graph, net = network(0)
    module = lockstep.compile(graph, "accel,cpu", machine=TINY)
    with pytest.raises(lockstep.Error, match=f"^position must be 0 to 5, not {position}$"):
        module(feeds(net, position))


def test_a_cache_that_others_read_stays_on_the_host() -> None:
    graph, net = network(0, whole=True)
    module = lockstep.compile(graph, "accel,cpu", machine=TINY)
    (node,) = (node for node in graph.nodes if node.op == "qput")
    assert "what others read" in module.partition.reasons[node.name]
    given = feeds(net, 2)
    found, wanted = module(given), evaluate(graph, given)
    assert all(np.array_equal(found[name], wanted[name]) for name in graph.outputs)
