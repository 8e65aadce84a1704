"""Products with constant matrices read them packed, each matrix once."""

import numpy as np
import pytest

from compiler.graph import Builder, Graph, TensorType, evaluate, verify
from compiler.graph.lowering import PackProducts
from tests.support.float_graphs import assert_near, inputs_of
from tests.support.integer_graphs import Net


def packed(graph: Graph) -> list[str]:
    made = verify(PackProducts()(graph))
    inputs = inputs_of(graph)
    for name, array in evaluate(graph, inputs).items():
        assert_near(evaluate(made, inputs)[name], array)
    return [node.op for node in made.nodes]


def net(*shape: int) -> Builder:
    builder = Builder("net")
    builder.add_input("x", TensorType(shape, "float32"))
    return builder


def matrix(builder: Builder, name: str, *shape: int) -> str:
    return builder.add_constant(name, np.random.default_rng(0).standard_normal(
        shape).astype(np.float32))


@pytest.mark.parametrize("turned", [0, 1])
def test_dense_layers(turned: int) -> None:
    builder = net(3, 20)
    w = matrix(builder, "w", *((32, 20) if turned else (20, 32)))
    builder.emit("dense", "fc", ["x", w, matrix(builder, "b", 32)], "y", trans_b=turned)
    assert packed(builder.finish(["y"])) == ["packed_matmul", "add"]


def test_a_matrix_is_packed_once() -> None:
    builder = net(2, 3, 16)
    w = matrix(builder, "w", 16, 16)
    builder.emit("matmul", "second", [builder.emit("matmul", "first", ["x", w], "t"), w], "y")
    graph = builder.finish(["y"])
    assert packed(graph) == ["packed_matmul", "packed_matmul"]
    assert len(PackProducts()(graph).constants) == 1


@pytest.mark.parametrize(("rows", "columns"), [(1, 10), (3, 17), (4, 1000)])
def test_columns_of_any_number(rows: int, columns: int) -> None:
    builder = net(rows, 20)
    bias = builder.add_input("b", TensorType((1, columns), "float32"))
    builder.emit("dense", "fc", ["x", matrix(builder, "w", 20, columns), bias], "y", trans_b=0)
    assert packed(builder.finish(["y"])) == ["packed_matmul", "add"]


@pytest.mark.parametrize(("a", "b"), [((8, 20), (20, 16)), ((2, 3, 9, 5), (2, 3, 5, 40))])
def test_computed_matrices_are_packed_when_they_are_there(a, b) -> None:
    builder = net(*a)
    z = builder.emit("tanh", "tanh", [builder.add_input("z", TensorType(b, "float32"))], "t")
    builder.emit("matmul", "product", ["x", z], "y")
    assert packed(builder.finish(["y"])) == ["tanh", "block_columns", "packed_matmul"]


@pytest.mark.parametrize(("used", "products"), [((2, 0, 1), 1), ((3, 4), 2)])
def test_rows_of_one_tensor_are_multiplied_together(used: tuple[int, ...], products: int) -> None:
    """Where more than half of the rows are; here of a tensor that is itself computed."""
    builder = net(5, 1, 16)
    x, w = builder.emit("tanh", "tanh", ["x"], "t"), matrix(builder, "w", 16, 32)
    ends = []
    for row in used:
        part = builder.emit("slice", f"slice{row}", [x], f"s{row}", begin=(row, 0, 0),
                            end=(row + 1, 1, 16), step=(1, 1, 1))
        flat = builder.emit("reshape", f"flat{row}", [part], f"f{row}", shape=(1, 16))
        ends.append(builder.emit("dense", f"fc{row}", [flat, w, matrix(builder, f"b{row}", 32)],
                                 f"y{row}", trans_b=0))
    assert packed(builder.finish(ends)).count("packed_matmul") == products


def test_few_rows_or_columns_stay() -> None:
    builder = net(7, 16)
    builder.add_input("w", TensorType((16, 16), "float32"))
    builder.add_input("z", TensorType((2, 7, 16), "float32"))
    builder.emit("matmul", "computed", ["x", "w"], "a")
    builder.emit("matmul", "narrow", ["x", matrix(builder, "k", 16, 15)], "b")
    builder.emit("matmul", "shared", ["z", "w"], "c")
    t = builder.add_input("t", TensorType((9, 16), "float32"))
    builder.emit("matmul", "turned", [t, "w"], "d", trans_b=1)
    graph = builder.finish(["a", "b", "c", "d"])
    assert PackProducts()(graph) is graph


@pytest.mark.parametrize(("rows", "depth", "columns"), [((1,), 7, 10), ((3, 5), 64, 32)])
def test_quantized_products(rows: tuple[int, ...], depth: int, columns: int) -> None:
    net = Net(columns)
    graph = net.graph(net.dense(net.input(*rows, depth), columns))
    made, inputs = verify(PackProducts()(graph)), net.samples()
    found, wanted = (evaluate(each, inputs)[graph.outputs[0]] for each in (made, graph))
    np.testing.assert_array_equal(found, wanted)
    assert [node.op for node in made.nodes] == ["qpacked_matmul", "slice"][:1 + (columns % 16 > 0)]


@pytest.mark.parametrize("columns", [32, 21])
def test_quantized_products_that_meet_a_residual(columns: int) -> None:
    net = Net(columns)
    graph = net.graph(net.dense(net.input(2, 5, 18), columns,
                                met=net.input(2, 5, columns, name="r")))
    made, inputs = verify(PackProducts()(graph)), net.samples()
    found, wanted = (evaluate(each, inputs)[graph.outputs[0]] for each in (made, graph))
    np.testing.assert_array_equal(found, wanted)
    assert [node.op for node in made.nodes][0] == "qpacked_matmul_add"


@pytest.mark.parametrize(("shape", "columns", "turned", "zeros"), [
    ((2, 3, 9, 10), 20, False, (0, 0)), ((8, 64), 32, True, (-128, 0)),
    ((2, 8, 5), 3, True, (7, 0)), ((9, 12), 16, False, (3, 1)), ((7, 12), 16, False, (0, 0))])
def test_products_of_computed_bytes(shape, columns: int, turned: bool, zeros) -> None:
    """Those whose second matrix has a zero point, and those of few rows, stay as they are."""
    net = Net(columns)
    *leading, rows, depth = shape
    b = net.input(*leading, *((columns, depth) if turned else (depth, columns)), name="b")
    graph = net.graph(net.matmul(net.input(*shape), b, turned, zeros))
    made, inputs = verify(PackProducts()(graph)), net.samples()
    found, wanted = (evaluate(each, inputs)[graph.outputs[0]] for each in (made, graph))
    np.testing.assert_array_equal(found, wanted)
    ops = ["group_columns", "grouped_matmul", "grouped_matmul", "qproducts", "slice"]
    assert [node.op for node in made.nodes] == (
        ["qmatmul"] if zeros[1] or rows < 8 else ops[:4 + (columns % 16 > 0)])
