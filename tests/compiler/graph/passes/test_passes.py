"""Folding, identities, sinking, dead code, and the pipeline that lists them."""

import importlib
import pkgutil
from typing import ClassVar

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import (
    Builder,
    Graph,
    GraphRefused,
    TensorType,
    dump_into,
    evaluate,
    optimize,
    standard_passes,
    verify,
)
from compiler.graph import passes
from compiler.graph.passes import (
    BoundsBeforeQuantize,
    EliminateDeadCode,
    FoldConstants,
    SinkDequantize,
)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in verify(graph).nodes]


def build(*nodes: tuple, outputs: tuple[str, ...] = ("y",), dtype: str = "float32") -> Graph:
    """Nodes as (op, inputs, output, attributes); input x [2,3], constants k (float) and s, z."""
    builder = Builder("g")
    builder.add_input("x", TensorType((2, 3), dtype))
    builder.add_constant("k", np.arange(6, dtype=np.float32).reshape(2, 3))
    builder.add_constant("s", np.array(0.5, np.float32))
    builder.add_constant("z", np.array(3, np.int8))
    for op, inputs, output, attrs in nodes:
        builder.emit(op, output, inputs.split(), output, **attrs)
    return verify(builder.finish(outputs))


FLAT = {"shape": (6,)}
AXIS = {"axis": 0}


def test_fold_constants() -> None:
    graph = build(("relu", "k", "a", {}), ("add", "a k", "b", {}), ("add", "b x", "y", {}))
    folded = FoldConstants()(graph)
    assert ops(folded) == ["add"]
    assert folded.constants["b"].tolist() == [[0, 2, 4], [6, 8, 10]]


def test_fold_constants_keeps_dequantized_integers_when_told() -> None:
    graph = build(("quantizelinear", "k s z", "q", AXIS), ("dequantizelinear", "q s z", "d", AXIS),
                  ("add", "d x", "y", {}))
    kept = FoldConstants(dequantize=False)(graph)
    assert ops(kept) == ["dequantizelinear", "add"]
    assert kept.constants["q"].dtype == np.int8
    assert ops(FoldConstants()(kept)) == ["add"]


def test_fold_constants_may_leave_a_constant_output() -> None:
    folded = FoldConstants()(build(("relu", "k", "y", {})))
    assert ops(folded) == []
    assert evaluate(folded, {"x": np.zeros((2, 3), np.float32)})["y"].sum() == 15


def test_sink_dequantize_through_a_chain() -> None:
    graph = build(("dequantizelinear", "x s z", "d", AXIS),
                  ("reshape", "d", "image", {"shape": (1, 1, 2, 3)}),
                  ("maxpool", "image", "m", {"kernel": (2, 2), "strides": (1, 1),
                                             "pads": (1, 1, 1, 1)}),
                  ("reshape", "m", "y", {"shape": (3, 4)}), dtype="int8")
    sunk = EliminateDeadCode()(SinkDequantize()(graph))
    assert ops(sunk) == ["reshape", "maxpool", "reshape", "dequantizelinear"]
    assert [node.name for node in sunk.nodes] == ["image", "m", "y", "y_dequantize"]
    x = np.array([[-128, -3, 5], [0, 127, 2]], np.int8)
    np.testing.assert_array_equal(evaluate(sunk, {"x": x})["y"], evaluate(graph, {"x": x})["y"])


def test_sink_dequantize_leaves_other_readers_and_constants() -> None:
    graph = build(("dequantizelinear", "x s z", "d", AXIS), ("reshape", "d", "a", FLAT),
                  ("relu", "d", "b", {}), ("quantizelinear", "k s z", "q", AXIS),
                  ("dequantizelinear", "q s z", "w", AXIS), ("reshape", "w", "c", FLAT),
                  outputs=("a", "b", "c"), dtype="int8")
    sunk = SinkDequantize()(FoldConstants(dequantize=False)(graph))
    assert ops(sunk) == ["dequantizelinear", "reshape", "dequantizelinear", "relu",
                         "dequantizelinear", "reshape"]


def test_sink_dequantize_leaves_scales_of_channels() -> None:
    builder = Builder("g")
    builder.add_input("x", TensorType((2, 3), "int8"))
    builder.add_constant("s", np.array([0.5, 2], np.float32))
    builder.add_constant("z", np.zeros(2, np.int8))
    builder.emit("dequantizelinear", "d", ["x", "s", "z"], "d", axis=0)
    builder.emit("reshape", "y", ["d"], "y", shape=(6,))
    graph = builder.finish(["y"])
    assert SinkDequantize()(graph) is graph
    assert ops(graph) == ["dequantizelinear", "reshape"]


@pytest.mark.parametrize("order", [("maximum", "minimum"), ("minimum", "maximum")])
def test_bounds_before_quantize(order, rng) -> None:
    """The same integers, by whichever bound first, and with the constant on either side."""
    bounds = {"maximum": -7, "minimum": 6}
    builder = Builder("g")
    builder.add_input("x", TensorType((2, 99), "float32"))
    for name, number in (("s", np.float32(0.3)), ("z", np.int8(2)),
                         *((op, np.int8(bound)) for op, bound in bounds.items())):
        builder.add_constant(name, np.array(number))
    builder.emit("quantizelinear", "q", ["x", "s", "z"], "q", axis=0)
    builder.emit(order[0], "a", ["q", order[0]], "a")
    builder.emit(order[1], "y", [order[1], "a"], "y")
    graph = verify(builder.finish(["y"]))
    moved = BoundsBeforeQuantize()(graph)
    assert ops(moved) == ["clip", "clip", "quantizelinear"]
    x = {"x": (rng.normal(size=(2, 99)) * 4).astype(np.float32)}
    np.testing.assert_array_equal(evaluate(moved, x)["y"], evaluate(graph, x)["y"])


def test_bounds_stay_where_the_quantization_is_read_or_has_several_scales() -> None:
    kept = build(("quantizelinear", "x s z", "q", AXIS), ("minimum", "q z", "y", {}),
                 outputs=("y", "q"))
    assert BoundsBeforeQuantize()(kept) is kept
    builder = Builder("g")
    builder.add_input("x", TensorType((2, 3), "float32"))
    builder.add_constant("s", np.array([0.5, 1], np.float32))
    builder.add_constant("z", np.zeros(2, np.int8))
    builder.add_constant("k", np.array(3, np.int8))
    builder.emit("quantizelinear", "q", ["x", "s", "z"], "q", axis=0)
    builder.emit("minimum", "y", ["q", "k"], "y")
    graph = verify(builder.finish(["y"]))
    assert BoundsBeforeQuantize()(graph) is graph


def test_pipeline_is_one_list() -> None:
    assert [one.name for one in standard_passes()] == [
        "fold-constants", "gathers-as-slices", "sequences-as-images", "clean-up", "wheres-as-puts",
        "float-products", "quantized-constants", "data-of-channels", "reductions-as-pools",
        "bounds-before-quantize",
        "sink-dequantize", "weights-on-grids", "fold-scales", "raise-quantize",
        "functions-of-products", "raise-quantize", "lookups-as-rows", "integerize",
        "orders-as-rows", "products-in-parts", "products-as-sums", "fold-constants", "clean-up",
        "pads-in-windows", "fold-scales", "transpose-weights", "eliminate-dead-code"]
    assert [one.name for one in standard_passes(integerize=False)] == [
        "fold-constants", "gathers-as-slices", "sequences-as-images", "clean-up", "wheres-as-puts",
        "fold-constants", "clean-up", "pads-in-windows", "fold-scales", "transpose-weights",
        "eliminate-dead-code"]


def test_pipeline_without_integers_keeps_float_meaning(qdq, rng) -> None:
    one = qdq()
    y = one.requantized(one.add("Conv", one.requantized(one.input("x", 1, 2, 4, 4)),
                                one.weight(3, 2, 3, 3)))
    graph = convert(one.model(y))
    plain = optimize(graph, standard_passes(integerize=False))
    assert ops(plain) == ["quantizelinear", "dequantizelinear", "conv2d", "quantizelinear",
                          "dequantizelinear"]
    feeds = {"x": rng.normal(size=(1, 2, 4, 4)).astype(np.float32)}
    np.testing.assert_array_equal(evaluate(plain, feeds)[y], evaluate(graph, feeds)[y])


def test_pipeline_hook_sees_every_graph(tmp_path) -> None:
    graph = build(("relu", "k", "a", {}), ("add", "a x", "y", {}))
    seen = []

    def note(index, name, result) -> None:
        assert isinstance(result, Graph)
        seen.append((index, name, len(result.nodes)))

    optimize(graph, after=note)
    assert seen[:3] == [(0, "import", 2), (1, "fold-constants", 1), (2, "gathers-as-slices", 1)]
    last = optimize(graph, after=dump_into(tmp_path / "dump"))
    files = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert files[:2] == ["00-import.txt", "01-fold-constants.txt"]
    assert len(files) == 28
    assert (tmp_path / "dump" / files[-1]).read_text() == str(last)


def test_pipeline_verifies_after_each_pass() -> None:
    graph = build(("relu", "x", "y", {}))

    class Breaks:
        name: ClassVar[str] = "breaks"

        def __call__(self, graph: Graph) -> Graph:
            return Graph(graph.name, graph.inputs, ("gone",), graph.nodes, graph.values,
                         graph.constants)

    with pytest.raises(GraphRefused, match=r"^graph g: output 'gone' must be defined by a node or "
                                           r"an input$"):
        optimize(graph, [Breaks()])


def test_every_pass_of_the_folder_is_in_the_pipeline():
    modules = [importlib.import_module(f"{passes.__name__}.{found.name}")
               for found in pkgutil.iter_modules(passes.__path__)]
    names = {one.name for module in modules for one in vars(module).values()
             if isinstance(one, type) and isinstance(getattr(one, "name", None), str)}
    assert names == {one.name for one in standard_passes()}
