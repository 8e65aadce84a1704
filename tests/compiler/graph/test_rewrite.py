"""Building graphs and replacing parts of them."""

import numpy as np
import pytest

from compiler.graph import (
    Builder,
    Graph,
    Node,
    TensorType,
    TypeRefused,
    eliminate_dead_code,
    replace_nodes,
    verify,
    with_nodes,
)


@pytest.fixture
def chain() -> Graph:
    builder = Builder("chain")
    builder.add_input("x", TensorType((2,), "float32"))
    builder.add_input("unused", TensorType((1,), "int8"))
    builder.add_constant("one", np.ones(2, np.float32))
    builder.add_constant("two", np.full(2, 2, np.float32))
    builder.emit("add", "first", ["x", "one"], "a")
    builder.emit("add", "dead", ["a", "two"], "b")
    builder.emit("relu", "dead_too", ["b"], "c")
    builder.emit("relu", "last", ["a"], "y")
    return builder.finish(["y"])


def test_dead_code(chain: Graph) -> None:
    live = verify(eliminate_dead_code(chain))
    assert [node.name for node in live.nodes] == ["first", "last"]
    assert list(live.constants) == ["one"]
    assert list(live.values) == ["x", "unused", "one", "a", "y"]
    assert live.inputs == ("x", "unused")
    assert eliminate_dead_code(live) is live


def test_replace_nodes(chain: Graph) -> None:
    def twice(node: Node) -> tuple[Node, ...] | None:
        if node.op != "relu":
            return None
        middle = f"{node.name}.middle"
        return (Node("identity", middle, node.inputs, (middle,)),
                Node("relu", node.name, (middle,), node.outputs))
    made = verify(replace_nodes(chain, twice))
    assert [node.name for node in made.nodes] == [
        "first", "dead", "dead_too.middle", "dead_too", "last.middle", "last"]
    assert made.values["last.middle"] == TensorType((2,), "float32")


def test_what_changes_nothing_gives_the_graph_itself(chain: Graph) -> None:
    assert with_nodes(chain, list(chain.nodes)) is chain
    assert replace_nodes(chain, lambda node: None) is chain
    assert with_nodes(chain, chain.nodes, {"three": np.ones(1, np.float32)}) is not chain


def test_with_nodes_and_constants(chain: Graph) -> None:
    node = Node("add", "sum", ("x", "three"), ("y",))
    made = verify(with_nodes(chain, [node], {"three": np.full(2, 3, np.float32)}))
    assert made.nodes == (node,)
    assert made.constants["three"].tolist() == [3, 3]


def test_fresh_names_meet_no_other(chain: Graph) -> None:
    builder = Builder.like(chain)
    assert [builder.fresh("y"), builder.fresh("y"), builder.fresh("z")] == ["y_1", "y_2", "z"]
    assert [builder.fresh_node("last"), builder.fresh_node("last")] == ["last_1", "last_2"]


def test_builder_type_wrong() -> None:
    builder = Builder("g")
    builder.add_input("x", TensorType((2,), "int8"))
    with pytest.raises(TypeRefused, match=r"^r: input 'x' must be float32, not int8$"):
        builder.emit("relu", "r", ["x"], "y")
