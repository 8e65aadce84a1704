"""Division between targets: order, maximal runs, copies, reasons."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.graph import (Builder, Copy, Graph, Node, Partition, TensorType, evaluate, partition,
                            subgraph)
from compiler.graph import verify as verified
from compiler.graph.division.partition import ACCEL, HOST, by_preference, divide, runs


def takes_relu(node: Node) -> str | None:
    return None if node.op == "relu" else f"{node.op} is no business of mine"


def build(*nodes: tuple[str, str, str], outputs: str) -> Graph:
    """Nodes as (op, inputs, output) over the input x [3] and the constant k [3]."""
    builder = Builder("g")
    builder.add_input("x", TensorType((3,), "float32"))
    builder.add_constant("k", np.ones(3, np.float32))
    for op, inputs, output in nodes:
        builder.emit(op, f"{output}_node", inputs.split(), output)
    return verified(builder.finish(outputs.split()))


CHAIN = """\
host(x) -> (a): a_node
copy a: host -> accel
accel(a) -> (c): b_node, c_node
copy c: accel -> host
host(c) -> (y): y_node
host because a_node: add is no business of mine
host because y_node: add is no business of mine
"""


def test_text_of_a_chain() -> None:
    graph = build(("add", "x k", "a"), ("relu", "a", "b"), ("relu", "b", "c"),
                  ("add", "c k", "y"), outputs="y")
    assert str(partition(graph, takes_relu)) == CHAIN


def test_all_on_the_accelerator() -> None:
    graph = build(("relu", "x", "a"), ("relu", "a", "y"), outputs="y")
    divided = partition(graph, lambda node: None)
    assert [segment.target for segment in divided.segments] == ["accel"]
    assert divided.copies == (Copy("x", "host", "accel"), Copy("y", "accel", "host"))
    assert dict(divided.reasons) == {}


def test_all_on_the_host() -> None:
    graph = build(("relu", "x", "a"), ("relu", "a", "y"), outputs="a y")
    divided = partition(graph, lambda node: "no")
    assert [str(step) for step in divided.steps] == ["host(x) -> (a, y): a_node, y_node"]
    assert dict(divided.reasons) == {"a_node": "no", "y_node": "no"}


def test_runs_are_joined_across_other_work() -> None:
    """Two branches in turn, a host and an accelerator node each, make two segments, not four."""
    graph = build(("add", "x k", "a"), ("relu", "a", "b"), ("add", "x x", "c"),
                  ("relu", "c", "d"), outputs="b d")
    divided = partition(graph, takes_relu)
    assert [[node.name for node in segment.nodes] for segment in divided.segments] == [
        ["a_node", "c_node"], ["b_node", "d_node"]]


def test_the_better_first_target_is_taken() -> None:
    graph = build(("add", "x k", "a"), ("relu", "x", "b"), ("add", "b k", "c"), outputs="a c")
    divided = partition(graph, takes_relu)
    assert [segment.target for segment in divided.segments] == ["accel", "host"]


def test_a_value_is_copied_once() -> None:
    graph = build(("relu", "x", "a"), ("add", "a k", "b"), ("relu", "b", "c"),
                  ("add", "a c", "d"), ("relu", "d", "e"), ("add", "e a", "y"), outputs="y a")
    divided = partition(graph, takes_relu)
    assert [copy.value for copy in divided.copies] == ["x", "a", "b", "c", "d", "e"]


def test_an_input_that_is_an_output_needs_no_step() -> None:
    graph = build(outputs="x k")
    assert partition(graph, takes_relu).steps == ()


def test_subgraph_runs_alone() -> None:
    graph = build(("relu", "x", "a"), ("add", "a k", "b"), ("add", "b a", "y"), outputs="y b")
    host = partition(graph, takes_relu).segments[1]
    alone = verified(subgraph(graph, host))
    assert (alone.name, alone.inputs, alone.outputs) == ("g.b_node", ("a",), ("b", "y"))
    found = evaluate(alone, {"a": np.array([0, 1, 2], np.float32)})
    assert found["y"].tolist() == [1, 3, 5]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    builder = Builder("random")
    values = [builder.add_input(name, TensorType((3,), "float32")) for name in ("x0", "x1")]
    values.append(builder.add_constant("k", np.ones(3, np.float32)))
    for index in range(draw(st.integers(1, 12))):
        op = draw(st.sampled_from(["relu", "add", "identity"]))
        read = [draw(st.sampled_from(values)) for _ in range(2 if op == "add" else 1)]
        values.append(builder.emit(op, f"n{index}", read, f"v{index}"))
    return builder.finish(draw(st.lists(st.sampled_from(values), min_size=1, unique=True)))


def check_steps(graph: Graph, divided: Partition) -> None:
    """The steps, run with one memory a target, give what the whole graph gives."""
    feeds = {"x0": np.array([-1, 0, 1], np.float32), "x1": np.array([2, -3, 4], np.float32)}
    memory = {one: dict(graph.constants) for one in (HOST, ACCEL, "third")}
    memory[HOST] |= feeds
    for step in divided.steps:
        if isinstance(step, Copy):
            assert step.value not in memory[step.target] and HOST in (step.source, step.target)
            memory[step.target][step.value] = memory[step.source][step.value]
        else:
            feed = {name: memory[step.target][name] for name in step.inputs}
            memory[step.target] |= evaluate(verified(subgraph(graph, step)), feed)
    for name, array in evaluate(graph, feeds).items():
        np.testing.assert_array_equal(memory[HOST][name], array)
    assert sorted(n.name for s in divided.segments for n in s.nodes) == sorted(
        n.name for n in graph.nodes)
    assert all(a.target != b.target for a, b in pairwise(divided.segments))


@given(graphs())
def test_any_graph_runs_in_steps(graph: Graph) -> None:
    check_steps(graph, partition(graph, takes_relu))


@given(graphs(), st.data())
def test_any_graph_runs_in_steps_on_three_targets(graph: Graph, data: st.DataObject) -> None:
    targets = {node.name: data.draw(st.sampled_from([HOST, ACCEL, "third"]))
               for node in graph.nodes}
    check_steps(graph, divide(graph, targets, {}))


def alternated(graph: Graph, targets: Mapping[str, str], target: str) -> list[list[str]]:
    """Takes every node of the one target that is ready, then of the other, and so on."""
    done = {*graph.inputs, *graph.constants}
    waiting, found = list(graph.nodes), []
    while waiting:
        run = []
        for node in waiting:
            if targets[node.name] == target and done.issuperset(node.inputs):
                run.append(node.name)
                done.update(node.outputs)
        waiting = [node for node in waiting if node.name not in run]
        found += [run] if run else []
        target = HOST if target == ACCEL else ACCEL
    return found


@given(graphs(), st.data())
def test_two_targets_take_turns(graph: Graph, data: st.DataObject) -> None:
    targets = {node.name: data.draw(st.sampled_from([HOST, ACCEL])) for node in graph.nodes}
    starts = {HOST: data.draw(st.integers(0, 3)), ACCEL: data.draw(st.integers(0, 3))}
    wanted = min((alternated(graph, targets, first) for first in (HOST, ACCEL)),
                 key=lambda found: sum(starts[targets[run[0]]] for run in found))
    found = runs(graph, targets, starts.__getitem__)
    assert [[node.name for node in run] for run in found] == wanted


PREFERRED = """\
copy x: host -> third
third(x) -> (a): a_node
copy a: third -> host
copy a: host -> accel
accel(a) -> (b): b_node
copy b: accel -> host
copy b: host -> third
third(b) -> (c): c_node
copy c: third -> host
host(c) -> (y): y_node
accel because b_node: not even
host because y_node: third: not even; accel: add is no business of mine
"""


def test_text_of_a_preference() -> None:
    """The first that takes a node gets it; the reasons tell why those before it have not."""
    graph = build(("relu", "x", "a"), ("relu", "a", "b"), ("relu", "b", "c"), ("add", "c k", "y"),
                  outputs="y")
    even = ("a_node", "c_node")
    divided = by_preference(graph, {
        "third": lambda node: None if node.name in even else "not even", ACCEL: takes_relu})
    assert str(divided) == PREFERRED


def test_the_home_may_come_first_and_gets_what_nobody_takes() -> None:
    graph = build(("relu", "x", "a"), ("add", "a k", "b"), ("neg", "b", "y"), outputs="y")
    divided = by_preference(graph, {
        HOST: lambda node: None if node.op == "add" else "no sum", ACCEL: takes_relu})
    assert [(one.target, [node.name for node in one.nodes]) for one in divided.segments] == [
        (ACCEL, ["a_node"]), (HOST, ["b_node", "y_node"])]
    assert dict(divided.reasons) == {
        "a_node": "no sum", "y_node": "host: no sum; accel: neg is no business of mine"}


@pytest.mark.parametrize("reason", ["too wide", ""])
def test_any_reason_counts_as_a_refusal(reason: str) -> None:
    graph = build(("relu", "x", "y"), outputs="y")
    divided = partition(graph, lambda node: reason)
    assert [segment.target for segment in divided.segments] == ["host"]
    assert divided.reasons["y_node"] == reason
