"""Which operators are fused, and which are not."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.graph import Builder, Graph, TensorType
from compiler.graph.fusion import (MOST_COPIES, MOST_INPUTS, fuse,
                                   immediate_post_dominators, separate)
from compiler.ops.records.operator import Kind
from compiler.ops.registry import OPERATORS, find
from tests.support.attention import Heads
from tests.support.float_graphs import random_graph

PIXELS = (1, 4, 6, 6)
SAME = {"strides": (1, 1), "pads": (1, 1, 1, 1)}


class Net(Builder):
    """Each method returns the value that it makes; nodes are called a, b, c, ... in order."""

    def __init__(self):
        super().__init__("net")
        self.add_input("x", TensorType(PIXELS, "float32"))

    def op(self, op: str, *inputs: str, **attrs) -> str:
        name = "abcdefghijklmnopqrstuvwxyz"[len(self.nodes)]
        return self.emit(op, name, inputs, name.upper(), **attrs)

    def conv(self, x: str, **attrs) -> str:
        weight = self.add_constant(self.fresh("w"), np.ones((4, 4, 3, 3), np.float32))
        return self.op("conv2d", x, weight, **{**SAME, **attrs})


def groups(net: Builder, *outputs: str) -> list[str]:
    """Names of the nodes of each group."""
    return ["".join(node.name for node in group.nodes)
            for group in fuse(net.finish(outputs)).groups]


def test_what_follows_a_convolution_is_computed_with_it() -> None:
    net = Net()
    y = net.op("relu", net.op("add", net.conv("x"), "x"))
    assert groups(net, net.conv(y)) == ["abc", "d"]


def test_a_residual_sum_is_fused_into_the_last_of_its_convolutions() -> None:
    net = Net()
    net.op("relu", net.op("add", net.conv("x"), net.conv("x")))     # a, b; c; d
    assert groups(net, "D") == ["a", "bcd"]


def test_a_convolution_is_not_fused_where_its_result_is_read_twice() -> None:
    net = Net()
    a = net.conv("x")
    net.op("add", net.conv(net.op("relu", a)), a)
    assert groups(net, "D") == ["a", "b", "cd"]


def test_a_diamond_of_elementwise_operators_is_fused_as_a_whole() -> None:
    net = Net()
    a = net.conv("x")
    net.op("add", net.op("relu", a), net.op("leakyrelu", a, alpha=0.5))
    assert groups(net, "D") == ["abcd"]


def test_an_output_of_the_graph_ends_a_group() -> None:
    net = Net()
    net.op("relu", net.op("clip", net.conv("x"), lo=0.0, hi=1.0))
    assert groups(net, "C") == ["abc"]
    assert groups(net, "C", "B") == ["ab", "c"]


def test_injective_operators_are_fused_in_front_of_a_reduction_but_not_behind() -> None:
    net = Net()
    net.op("relu", net.op("globalavgpool", net.op("relu", net.op("add", "x", "x"))))
    assert groups(net, "D") == ["abc", "d"]


def test_injective_operators_are_not_fused_in_front_of_a_convolution() -> None:
    net = Net()
    net.conv(net.op("relu", "x"))
    assert groups(net, "B") == ["a", "b"]


def test_only_what_keeps_its_place_is_fused_behind_a_convolution() -> None:
    net = Net()
    net.op("relu", net.op("upsample", net.conv("x"), factors=(2, 2)))
    assert groups(net, "C") == ["a", "bc"]


def test_a_convolution_that_is_spread_over_an_image_is_not_computed_for_each_pixel() -> None:
    net = Net()
    pooled = net.op("globalavgpool", "x")
    weight = net.add_constant("one", np.ones((4, 4, 1, 1), np.float32))
    net.op("add", net.op("conv2d", pooled, weight, strides=(1, 1), pads=(0,) * 4), "x")
    assert groups(net, "C") == ["a", "b", "c"]


def test_elements_that_are_read_more_than_once_are_stored() -> None:
    net = Net()
    net.op("upsample", net.op("relu", "x"), factors=(2, 2))
    assert groups(net, "B") == ["a", "b"]


def test_parts_and_joins_are_fused() -> None:
    net = Net()
    a = net.op("relu", "x")
    halves = [net.op("slice", a, begin=(0, at, 0, 0), end=(1, at + 2, 6, 6), step=(1,) * 4)
              for at in (0, 2)]
    net.op("relu", net.op("concat", *reversed(halves), axis=1))
    assert groups(net, "E") == ["abcde"]


def test_opaque_operators_stay_alone(monkeypatch) -> None:
    monkeypatch.setitem(OPERATORS, "leakyrelu", replace(find("leakyrelu"), kind=Kind.OPAQUE))
    net = Net()
    net.op("relu", net.op("leakyrelu", net.op("relu", "x"), alpha=0.5))
    assert groups(net, "C") == ["a", "b", "c"]


def test_reshapes_at_the_ends_are_views() -> None:
    net = Net()
    a = net.op("reshape", "x", shape=(1, 4, 36))
    net.op("reshape", net.op("relu", net.op("relu", a)), shape=(4, 36))
    made = fuse(net.finish(["D"])).groups
    assert [[node.name for node in group.nodes] for group in made] == [["a"], ["b", "c"], ["d"]]
    assert [group.is_view for group in made] == [True, False, True]


@pytest.mark.parametrize(("begin", "end", "step", "is_view"), [
    ((0, 1, 0, 0), (1, 3, 6, 6), (1, 1, 1, 1), True),
    ((0, 1, 2, 0), (1, 2, 4, 6), (7, 7, 1, 1), True),
    ((0, 3, 5, 1), (1, 4, 6, 3), (1, 1, 1, 1), True),
    ((0, 1, 2, 0), (1, 3, 4, 6), (1, 1, 1, 1), False),
    ((0, 0, 0, 0), (1, 4, 6, 6), (1, 2, 1, 1), False),
    ((0, 0, 0, 0), (1, 1, 2, 3), (1, 1, 1, 1), False)])
def test_elements_that_follow_each_other_are_views(begin, end, step, is_view: bool) -> None:
    net = Net()
    net.op("relu", net.op("slice", "x", begin=begin, end=end, step=step))
    made = fuse(net.finish(["B"])).groups
    assert [group.is_view for group in made] == ([True, False] if is_view else [False])


def test_a_slice_that_is_a_result_is_computed_alone() -> None:
    net = Net()
    net.op("slice", net.op("relu", "x"), begin=(0,) * 4, end=(1, 1, 6, 6), step=(1,) * 4)
    assert groups(net, "B") == ["ab"]


def test_a_kernel_has_few_inputs() -> None:
    net = Builder("net")
    for place in range(2 * MOST_INPUTS):
        net.add_input(f"x{place}", TensorType((1,), "float32"))
    halves = [net.emit("concat", f"half{half}", net.inputs[half::2], f"h{half}", axis=0)
              for half in range(2)]
    net.emit("concat", "all", halves, "y", axis=0)
    assert max(len(group.inputs) for group in fuse(net.finish(["y"])).groups) == MOST_INPUTS


def test_doubling_ends_a_group() -> None:
    """x + x, ten times: written out, it would be 1024 terms."""
    net, value = Net(), "x"
    for _ in range(10):
        value = net.op("add", value, value)
    made = groups(net, value)
    assert len(made) > 1 and all(2 ** len(one) <= 2 * MOST_COPIES for one in made)


def test_an_operator_that_reads_its_input_several_times_counts_as_often() -> None:
    """x if x > 0 else a x, ten times: written out, it would have 3^10 terms."""
    net, value = Net(), "x"
    for _ in range(10):
        value = net.op("leakyrelu", value, alpha=0.1)
    made = groups(net, value)
    assert len(made) > 1 and all(3 ** len(one) <= 2 * MOST_COPIES for one in made)
    assert max(map(len, made)) > 2


def test_the_text_of_groups() -> None:
    net = Net()
    net.op("relu", net.conv("x"))
    assert str(fuse(net.finish(["B"]))) == "B = conv2d+relu(x, w)  # a, b\n"


def paths_meet_by_force(graph: Graph) -> dict[str, str | None]:
    """Immediate post-dominators from the sets of all post-dominators."""
    readers, everything = graph.consumers(), {node.name for node in graph.nodes}
    sets: dict[str, set[str]] = {}
    for node in reversed(graph.nodes):
        after = [reader.name for value in node.outputs for reader in readers[value]]
        common = set.intersection(*(sets[name] for name in after)) if after else set()
        sets[node.name] = {node.name} | (
            set() if set(graph.outputs) & set(node.outputs) else common)
    assert set(sets) == everything
    return {name: max(found - {name}, key=lambda other: len(sets[other]), default=None)
            for name, found in sets.items()}


@pytest.mark.parametrize("seed", range(20))
def test_post_dominators_of_random_graphs(seed: int) -> None:
    graph = random_graph(seed, 25)
    found = immediate_post_dominators(graph)
    assert {name: None if node is None else node.name
            for name, node in found.items()} == paths_meet_by_force(graph)


@pytest.mark.parametrize("seed", range(20))
def test_groups_of_random_graphs_keep_the_rules(seed: int) -> None:
    """Every node once; nothing inside is read outside; what is read is there; kinds fit."""
    graph = random_graph(seed, 25)
    found = fuse(graph).groups
    assert sorted(node.name for group in found for node in group.nodes) == sorted(
        node.name for node in graph.nodes)
    known = {*graph.inputs, *graph.constants}
    for group in found:
        assert known.issuperset(group.inputs)
        known.add(group.output)
        kinds = [find(node.op).kind for node in group.nodes]
        first, last = kinds[0], kinds[-1]
        assert len(kinds) == 1 or (
            Kind.OPAQUE not in kinds
            and (all(one is Kind.ELEMENTWISE for one in kinds if one is not Kind.COMPLEX)
                 and kinds.count(Kind.COMPLEX) == 1 if Kind.COMPLEX in kinds else
                 all(one <= Kind.INJECTIVE for one in kinds[:-1]) and last <= Kind.REDUCTION))
        assert first is not Kind.REDUCTION or len(kinds) == 1
    assert known.issuperset(graph.outputs)


def test_without_fusion_every_node_is_a_group() -> None:
    graph = random_graph(0)
    assert [group.nodes for group in separate(graph).groups] == [(n,) for n in graph.nodes]


def test_what_is_made_wider_for_one_reader_is_made_there() -> None:
    net = Net()
    narrow = net.op("cast", "x", to="float16")                              # a
    wide = net.op("cast", narrow, to="float32")                             # b
    assert groups(net, net.op("relu", net.op("add", net.conv("x"), wide)), narrow) == ["a", "bcde"]


def test_what_is_made_wider_for_several_or_larger_readers_is_made_once() -> None:
    net = Net()
    wide = net.op("cast", net.op("cast", "x", to="float16"), to="float32")      # a, b
    assert groups(net, net.op("add", net.conv("x"), wide), net.conv(wide)) == ["ab", "cd", "e"]
    net = Net()
    row = net.add_input("r", TensorType((1, 4, 1, 1), "float16"))
    wide = net.op("cast", row, to="float32")
    assert groups(net, net.op("add", net.conv("x"), wide)) == ["a", "bc"]


def test_a_wide_result_of_the_graph_is_made_by_itself() -> None:
    net = Net()
    narrow = net.op("cast", "x", to="float16")
    wide = net.op("cast", narrow, to="float32")
    assert groups(net, net.op("add", net.conv("x"), wide), wide, narrow) == ["a", "b", "cd"]


class Walked(tuple):
    """Nodes that count how often somebody goes through all of them."""

    walks = 0

    def __iter__(self):
        self.walks += 1
        return super().__iter__()

    def __reversed__(self):
        self.walks += 1
        return reversed(tuple(super().__iter__()))


def test_nodes_are_walked_as_often_however_many_there_are() -> None:
    """Work that grows with the number of nodes is done for the graph, not for each node."""
    def walks(heads: int) -> int:
        net = Heads(1, 2, 40, 56, 20)
        x = net.attend()
        for head in range(heads):
            weight = net.add_constant(f"w{head}", np.ones((20, 20), np.float32))
            x = net.emit("matmul", f"m{head}", [x, weight], f"m{head}")
            x = net.emit("reduce_max", f"t{head}", [x], f"t{head}", axes=(3,), keepdims=1)
            x = net.emit("add", f"a{head}", [x, "x"], f"a{head}")
        graph = net.finish([x])
        nodes = Walked(graph.nodes)
        fuse(replace(graph, nodes=nodes), lambda graph, group: True)
        return nodes.walks

    assert walks(3) == walks(30) > 0
