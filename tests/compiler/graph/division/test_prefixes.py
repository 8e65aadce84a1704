"""Shorter forms of a step: the same to the bit where the position is small, or none at all."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.graph import Graph, evaluate
from compiler.graph.division.prefixes import Tail, counts_of, masks_of, shorter_forms
from compiler.graph.rewrite import with_nodes
from compiler.ops.families.row_functions import ROOTS
from tests.support.integer_graphs import Net
from tests.support.steps import attention, feeds, on_accelerator

PLACES = 40


def test_two_for_each_doubling() -> None:
    assert [*counts_of(16)] == []
    assert [*counts_of(17)] == [16]
    assert [*counts_of(1024)] == [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768]


def forms(graph: Graph) -> tuple[Graph, dict[int, Graph]]:
    part = on_accelerator(graph)
    return part, shorter_forms(part, masks_of(graph, part))


@pytest.mark.parametrize("batch", [(), (2,)])
def test_they_give_the_same_below_their_count(batch: tuple[int, ...]) -> None:
    """Whatever the cache holds behind the position; at the count itself they do not."""
    graph, net = attention(PLACES, batch=batch)
    part, shorter = forms(graph)
    (mask,) = masks_of(graph, part)
    assert [*shorter] == [16, 32]
    assert masks_of(graph, part)[mask] == Tail(2 + len(batch), -128)
    for count, short in shorter.items():
        assert (short.inputs, short.outputs) == (part.inputs, part.outputs)
        assert {node.name for node in part.nodes} <= {node.name for node in short.nodes}
        differ = []
        for position in range(count + 1):
            given = feeds(net, position)
            seen = evaluate(graph, given, [mask])[mask]
            values = {name: seen if name == mask else given[name] for name in part.inputs}
            wanted, found = (evaluate(one, values)[part.outputs[0]] for one in (part, short))
            if not np.array_equal(wanted, found):
                differ.append(position)
        assert differ == [count]


def test_a_bound_before_the_mask_changes_nothing() -> None:
    """As integers have it where the least element that counts would be one that is masked."""
    graph, _ = attention(PLACES)
    (second,) = (node for node in graph.nodes if node.op == "qmap" and any(
        made.op == "qbelow_max" and made.outputs[0] in node.inputs for made in graph.nodes))
    bounded = replace(second, attrs={"function": "min(max(x0, -127), x1)"})
    _, shorter = forms(with_nodes(graph, [
        bounded if node is second else node for node in graph.nodes]))
    assert [*shorter] == [16, 32]


def test_all_that_has_places_is_shorter() -> None:
    part, shorter = forms(attention(PLACES)[0])
    whole = [node.outputs[0] for node in part.nodes if PLACES in part.values[
        node.outputs[0]].shape and node.op != "qput"]
    assert len(whole) == 7
    for value in whole:
        assert shorter[16].values[value].shape == tuple(
            16 if extent == PLACES else extent for extent in part.values[value].shape)


def test_no_mask_no_shorter_form() -> None:
    assert forms(attention(PLACES, masked=False)[0])[1] == {}


@pytest.mark.parametrize("changes", [{"mask": (127, -127)}, {"zero": 3}])
def test_what_is_behind_the_position_must_count_for_nothing(changes) -> None:
    """A mask that leaves something of scores; weights that are not 0 to the product."""
    assert forms(attention(PLACES, **changes)[0])[1] == {}


def with_end(op: str, *constants: np.ndarray, **attrs) -> Graph:
    """Another operator reads the cache of keys as well, with places along its last axis."""
    graph, net = attention(PLACES)
    put = next(node for node in graph.nodes if node.op == "qput")
    y = net.add_node(op, net.transpose(put.outputs[0], 1, 2, 0), *map(net.constant, constants),
                     **attrs)
    return replace(net.graph(*graph.outputs, y))


@pytest.mark.parametrize("graph", [
    with_end("qrms_norm", np.full(PLACES, 40000, np.int32), np.full(PLACES, 24, np.int32), ROOTS,
             epsilon=50, zero=0, zp=0, lo=-128, hi=127),
    with_end("qtable", np.arange(256).astype(np.int8)),
    with_end("reshape", shape=(2, 8 * PLACES)),
    with_end("qbelow_max")], ids=["norm", "output", "reshape", "maximum"])
def test_a_cache_that_others_need_whole(graph: Graph) -> None:
    assert forms(graph)[1] == {}


def compared(op: str, turned: bool) -> Graph:
    """The step with another comparison of places and position in its mask."""
    graph, _ = attention(PLACES)
    return replace(graph, nodes=tuple(
        replace(node, op=op, inputs=node.inputs[::-1] if turned else node.inputs)
        if node.op == "less_equal" else node for node in graph.nodes))


@pytest.mark.parametrize(("op", "turned", "beyond"), [
    ("less", False, -128), ("equal", False, -128), ("less_equal", True, 127)])
def test_masks_are_found_by_their_numbers(op: str, turned: bool, beyond: int) -> None:
    graph = compared(op, turned)
    part, shorter = forms(graph)
    assert [*masks_of(graph, part).values()] == [Tail(2, beyond)]
    assert [*shorter] == ([16, 32] if beyond == -128 else [])


def test_what_follows_from_more_than_the_position_is_no_mask() -> None:
    graph, _ = attention(PLACES)
    part = on_accelerator(graph)
    graph = replace(graph, inputs=(*graph.inputs, "other"), nodes=tuple(
        replace(node, inputs=(node.inputs[0], "other")) if node.op == "less_equal" else node
        for node in graph.nodes), values={**graph.values, "other": graph.values["position"]})
    assert masks_of(graph, part) == {}


def test_without_a_cache_there_is_nothing_to_cut() -> None:
    net = Net(3)
    graph = net.graph(net.rescale(net.input(1, 1, PLACES, name="x")))
    assert shorter_forms(graph, {"x": Tail(2, 0)}) == {}
