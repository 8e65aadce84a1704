"""Equal constants are kept once; what differs in a bit or in its type is not equal."""

import numpy as np

from compiler.graph import Builder, TensorType, evaluate, verify
from compiler.graph.lowering import ShareConstants


def test_equal_constants_are_one() -> None:
    net = Builder("net")
    x = net.add_input("x", TensorType((200,), "float32"))
    weights = np.arange(200, dtype=np.float32)
    other = weights.copy()
    other[101] = -1
    for place, array in enumerate((weights, weights.copy(), other, weights.copy())):
        name = net.add_constant(f"k{place}", array)
        x = net.emit("add", f"add{place}", [x, name], f"y{place}")
    graph = net.finish([x, "k3"])
    made = verify(ShareConstants()(graph))
    assert [node.inputs[1] for node in made.nodes] == ["k0", "k0", "k2", "k0"]
    assert list(made.constants) == ["k0", "k2", "k3"]           # the last is an output
    inputs = {"x": np.ones(200, np.float32)}
    for name, array in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(evaluate(made, inputs)[name], array)


def test_zeros_of_two_signs_and_of_two_types_differ() -> None:
    net = Builder("net")
    x = net.add_input("x", TensorType((2,), "float32"))
    for place, array in enumerate((np.array([0, 1], np.float32), np.array([-0.0, 1], np.float32))):
        x = net.emit("add", f"add{place}", [x, net.add_constant(f"k{place}", array)],
                     f"y{place}")
    net.add_constant("k2", np.array([0, 1], np.int32))
    graph = net.finish([x, "k2"])
    assert ShareConstants()(graph) is graph
