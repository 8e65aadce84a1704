"""The verifier: each rule broken once."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.graph import Builder, Graph, GraphRefused, Node, TensorType, TypeRefused, verify


@pytest.fixture
def graph() -> Graph:
    builder = Builder("g")
    builder.add_input("x", TensorType((1, 4), "int8"))
    builder.add_constant("w", np.ones((2, 4), np.int8))
    for name, value in (("bias", 0), ("mult", 40000), ("shift", 46)):
        builder.add_constant(name, np.full(2, value, np.int32))
    inputs = ["x", "w", "bias", "mult", "shift"]
    builder.emit("qdense", "fc", inputs, "h", zp=0, lo=-128, hi=127)
    builder.add_constant("s", np.array(0.5, np.float32))
    builder.add_constant("z", np.array(0, np.int8))
    builder.emit("dequantizelinear", "real", ["h", "s", "z"], "y", axis=0)
    return builder.finish(["y"])


def with_constant(graph: Graph, name: str, array: np.ndarray) -> Graph:
    return replace(graph, constants={**graph.constants, name: array})


def refused(graph: Graph, sentence: str) -> None:
    with pytest.raises(GraphRefused) as refusal:
        verify(graph)
    assert str(refusal.value) == f"graph g: {sentence}"


def test_accepts(graph: Graph) -> None:
    assert verify(graph) is graph


def test_no_refusal_is_worded_for_a_sound_graph(monkeypatch) -> None:
    builder = Builder("g")
    builder.add_input("x", TensorType((1, 4), "float32"))
    builder.emit("relu", "kept", ["x"], "y")
    graph = builder.finish(["y"])

    def unwanted(self: TensorType) -> str:
        raise AssertionError("a type was written out")

    monkeypatch.setattr(TensorType, "__str__", unwanted)
    assert verify(graph) is graph


def test_unknown_value_wrong(graph: Graph) -> None:
    node = replace(graph.nodes[1], inputs=("nowhere", "s", "z"))
    refused(replace(graph, nodes=(graph.nodes[0], node)),
            "real: input 'nowhere' must be a known value")


def test_order_wrong(graph: Graph) -> None:
    refused(replace(graph, nodes=graph.nodes[::-1]),
            "real: input 'h' must be defined before its use")


def test_cycle_wrong(graph: Graph) -> None:
    loop = Node("relu", "loop", ("y2",), ("y2",))
    values = {**graph.values, "y2": TensorType((1, 2), "float32")}
    refused(replace(graph, nodes=(*graph.nodes, loop), values=values),
            "loop: input 'y2' must be defined before its use")


def test_declared_type_wrong(graph: Graph) -> None:
    values = {**graph.values, "y": TensorType((1, 3), "float32")}
    refused(replace(graph, values=values), "real: output 'y' must be float32[1,2] by the rule of "
            "dequantizelinear, not float32[1,3]")


def test_defined_twice_wrong(graph: Graph) -> None:
    again = replace(graph.nodes[0], name="again")
    refused(replace(graph, nodes=(*graph.nodes, again)),
            "again: output 'h' must be defined once")


def test_node_name_twice_wrong(graph: Graph) -> None:
    refused(replace(graph, nodes=(*graph.nodes, graph.nodes[0])),
            "node names must be unique, not twice 'fc'")


def test_output_wrong(graph: Graph) -> None:
    refused(replace(graph, outputs=("q",)), "output 'q' must be defined by a node or an input")


def test_left_over_value_wrong(graph: Graph) -> None:
    values = {**graph.values, "old": TensorType((1,), "int8")}
    refused(replace(graph, values=values), "value 'old' must be defined by a node or an input")


def test_input_without_type_wrong(graph: Graph) -> None:
    refused(replace(graph, inputs=("x", "x2")), "input 'x2' must have a type")


def test_constant_input_wrong(graph: Graph) -> None:
    refused(replace(graph, inputs=("x", "w")), "input 'w' must not be a constant")


def test_constant_type_wrong(graph: Graph) -> None:
    refused(with_constant(graph, "w", np.ones((2, 4), np.uint8)),
            "constant 'w' must be int8[2,4], not uint8[2,4]")


def test_computed_weight_wrong(graph: Graph) -> None:
    constants = {name: array for name, array in graph.constants.items() if name != "w"}
    refused(replace(graph, inputs=("x", "w"), constants=constants),
            "fc: input 'w' must be a constant")


@pytest.mark.parametrize("value", [-1, 1, 32767, 65536])
def test_multiplier_wrong(graph: Graph, value: int) -> None:
    refused(with_constant(graph, "mult", np.array([0, value], np.int32)),
            f"fc: every multiplier must be 0 or 32768 to 65535, not {value}")


@pytest.mark.parametrize("value", [-1, 47])
def test_shift_wrong(graph: Graph, value: int) -> None:
    refused(with_constant(graph, "shift", np.array([0, value], np.int32)),
            f"fc: every shift must be 0 to 46, not {value}")


@pytest.mark.parametrize("value", [-1, np.inf, np.nan])
def test_scale_of_sums_wrong(graph: Graph, value: float) -> None:
    scale = np.array([0.5, value], np.float32)
    nodes = tuple(replace(node, inputs=(*node.inputs[:3], "scale")) if node.name == "fc" else node
                  for node in graph.nodes)
    values = {**graph.values, "scale": TensorType.of(scale)}
    refused(replace(with_constant(graph, "scale", scale), nodes=nodes, values=values),
            f"fc: every scale must be 0 or above, and finite, not {float(value)}")


def test_scale_wrong(graph: Graph) -> None:
    refused(with_constant(graph, "s", np.array(0, np.float32)),
            "real: every scale must be positive, not 0.0")


def test_operator_rule_wrong(graph: Graph) -> None:
    node = replace(graph.nodes[0], inputs=("x", "w", "bias", "mult", "s"))
    with pytest.raises(TypeRefused, match=r"^fc: input 's' must be int32, not float32$"):
        verify(replace(graph, nodes=(node, graph.nodes[1])))
