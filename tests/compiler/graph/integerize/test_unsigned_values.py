"""Tensors without a sign have a stored form, and whoever reads their names gets the numbers."""

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import TensorProto

from accel.mapping.target import AccelTarget
from compiler.errors import Error
from compiler.frontend import convert
from compiler.graph import Graph, TensorType, evaluate, optimize
from compiler.graph.graph import Node
from compiler.graph.passes.pipeline import standard_passes
from compiler.graph.rewrite import Builder
from compiler.ops.records.operator import Numbers, Operator
from compiler.ops.registry import OPERATORS, infer
from runtime import SimulatedDevice, compile_graph, simulator
from tests.support.machines import TINY
from tests.support.operator_cases import CASES

SHAPE = (1, 4, 4, 4)
SOURCES = [*((source, dtype) for source in ("input", "quantized", "output")
             for dtype in ("uint8", "uint16")), ("quantized", "int8"), ("quantized", "int16")]
SLICED = {"begin": (0, 1, 0, 0), "end": (1, 4, 4, 3), "step": (1, 1, 2, 1)}
ATTRS = {"reshape": {"shape": (2, 4, 8)}, "upsample": {"factors": (2, 1)}, "slice": SLICED,
         "transpose": {"perm": (0, 2, 3, 1)},
         "maxpool": {"kernel": (2, 2), "strides": (1, 2), "pads": (1, 0, 0, 1)},
         "pad": {"before": (0, 0, 1, 0), "after": (0, 0, 1, 2), "mode": "constant"},
         "identity": {}}


def movers() -> list[str]:
    """The operators that integers are moved by, as the registry says."""
    return [name for name, operator in OPERATORS.items()
            if operator.picks or operator.fills] + ["identity"]


def readers(type_: TensorType) -> Iterator[tuple[Operator, dict, tuple[np.ndarray | None, ...]]]:
    """Each operator that takes a tensor of a type, with attributes, and what it reads of it: None
    stands for the tensor.
    """
    rank, axis = len(type_.shape), len(type_.shape) - 1
    attrs = {"to": "float32", "axes": (axis,), "axis": axis, "keepdims": 1, "count": 2,
             "largest": 1, "exclusive": 0, "reverse": 0, "shape": (3, *type_.shape),
             "equation": "abcd"[:rank] + "->a", "kernel": (2, 2), "strides": (1, 1),
             "pads": (0,) * 4}
    places = np.array([[1], [0]])
    other = (np.arange(np.prod(type_.shape)) * 37 % 113 + 1).reshape(type_.shape)
    inputs = [(None,), (None, other.astype(type_.dtype)), (None, None), (None, None, None),
              (None, places), (None, np.zeros(type_.shape, np.int64)),
              (other % 3 == 0, None, other.astype(type_.dtype))]
    for operator in OPERATORS.values():
        # Networks are not written in operators of integers; an identity is the tensor itself.
        if operator.numbers is Numbers.INTEGER or operator.name == "identity":
            continue
        cases = [(case.attrs, (None, *case.inputs[1:])) for case in CASES
                 if case.op == operator.name] + [
                     (attrs, given) for given in inputs]
        fitting = next((case for case in cases if _takes(operator, *case, type_)), None)
        if fitting is not None:
            yield operator, *fitting


def _takes(operator: Operator, attrs: dict, inputs: tuple, type_: TensorType) -> bool:
    names = tuple(f"x{place}" for place in range(len(inputs)))
    types = [type_ if array is None else TensorType.of(array) for array in inputs]
    try:
        infer(Node(operator.name, "one", names, ("y",), attrs), types)
    except (Error, LookupError, ValueError, TypeError):
        return False
    if operator.joins and len(inputs) == 1:             # that would be the tensor itself
        return False
    return operator.parameters is None or all(
        array is not None for array in inputs[operator.data_inputs:])


def network(source: str, mover: str, dtype: str) -> Graph:
    """A tensor, moved, and read by all that take it; an input, or quantized, then perhaps an output
    as what is moved."""
    builder = Builder("net")
    if source == "input":
        builder.add_input("q", TensorType(SHAPE, dtype))
    else:
        builder.add_input("x", TensorType(SHAPE, "float32"))
        scale = builder.add_constant("scale", np.array(0.03, np.float32))
        zero = builder.add_constant("zero", np.array(7, dtype))
        builder.emit("quantizelinear", "quantize", ["x", scale, zero], "q", axis=1)
    value = [builder.add_constant("v", np.array(9, dtype))] if mover == "pad" else []
    builder.emit(mover, "move", ["q", *value], "moved", **ATTRS[mover])
    outputs = ["q", "moved"] if source == "output" else []
    for place, (operator, attrs, inputs) in enumerate(readers(builder.values["moved"])):
        names = ["moved" if array is None else builder.add_constant(f"k{place}_{role}", array)
                 for role, array in enumerate(inputs)]
        outputs.append(builder.emit(operator.name, f"{operator.name}{place}", names, f"y{place}",
                                    **attrs))
    return builder.finish(outputs)


def feeds_of(graph: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    name, type_ = graph.inputs[0], graph.values[graph.inputs[0]]
    if type_.dtype == "float32":
        return {name: (9 * rng.normal(size=type_.shape)).astype(np.float32)}
    return {name: rng.integers(0, 2**16, type_.shape).astype(type_.dtype)}


def test_every_mover_has_attributes() -> None:
    assert sorted({*movers()}) == sorted(ATTRS)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("source", "dtype"), SOURCES)
@pytest.mark.parametrize("mover", ATTRS)
@np.errstate(all="ignore")
def test_every_reader_gets_the_numbers(rng, source, mover, dtype) -> None:
    graph = network(source, mover, dtype)
    feeds = feeds_of(graph, rng)
    read = {node.op for node in graph.nodes}
    assert {"cast", "equal", "less", "add", "gather", "concat"} <= read and len(read) > 36
    found = evaluate(optimize(graph), feeds)
    wanted = evaluate(optimize(graph, standard_passes(integerize=False)), feeds)
    for node in graph.nodes:
        value = node.outputs[0]
        if value in graph.outputs:
            assert found[value].dtype == wanted[value].dtype, node
            np.testing.assert_array_equal(found[value], wanted[value], err_msg=str(node))


def test_numbers_are_made_where_somebody_reads_them() -> None:
    """Once for all readers, and not at all where all are integer operators."""
    builder = Builder("net")
    builder.add_input("q", TensorType(SHAPE, "uint8"))
    builder.emit("transpose", "move", ["q"], "moved", perm=(0, 2, 3, 1))
    builder.emit("cast", "number", ["moved"], "y", to="int32")
    builder.emit("equal", "same", ["moved", "moved"], "z")
    twice, once = builder.finish(["y", "z"]), builder.finish(["moved"])
    for graph, wanted in ((twice, ["to_int8", "transpose", "to_uint8", "cast", "equal"]),
                          (once, ["to_int8", "transpose", "to_uint8"])):
        assert [node.op for node in optimize(graph).nodes] == wanted


def test_targets_agree_on_a_value_read_in_both_ways(qdq, rng) -> None:
    """An image of bytes that a network transposes, casts and convolves."""
    one = qdq()
    moved = one.add("Transpose", one.input("image", 1, 4, 5, 3, dtype="uint8"), perm=[0, 3, 1, 2])
    number = one.add("Cast", moved, to=TensorProto.FLOAT)
    x = one.dequantize(moved, 0.02, 128)
    q = one.quantize(one.add("Conv", x, one.weight(4, 3, 3, 3)), 0.2, 100)
    model = one.model(number, q, dtypes={q: "uint8"})
    feeds = {"image": rng.integers(0, 256, (1, 4, 5, 3)).astype(np.uint8)}
    graph = optimize(convert(model))
    wanted = evaluate(graph, feeds)
    real = evaluate(optimize(convert(model), standard_passes(integerize=False)), feeds)
    np.testing.assert_array_equal(wanted[number], real[number])
    assert np.abs(wanted[q].astype(int) - real[q]).max() <= 1
    module = compile_graph(graph, AccelTarget(TINY), SimulatedDevice(TINY, simulator("functional")))
    for found in (module(feeds), compile_graph(graph, None)(feeds)):
        for name in graph.outputs:
            np.testing.assert_array_equal(found[name], wanted[name])
