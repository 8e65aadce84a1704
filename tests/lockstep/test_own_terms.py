"""Products of one's own terms in float networks: squared and absolute differences, and products."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lockstep
from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, gemm_op
from accel.machine.machine import Machine
from compiler import te
from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.quantize.quantizer import Quantized
from tests.support.onnx_runtime import run_onnx


def squared(x, w):
    return (x - w) * (x - w)


def absolute(x, w):
    return te.abs(x - w)


MACHINE = Machine(preset("tiny-1x4x4"), (
    *(each for each in SHIPPED if each.name != "gemm"),
    gemm_op(matches=lambda x, w: x * w),
    gemm_op("sqdist", term=squared, matches=squared),
    gemm_op("l1dist", term=absolute, matches=absolute)))

TERMS = {"t": lambda x, w: (x - w) ** 2, "u": lambda x, w: abs(x - w), "y": lambda x, w: x * w}
"""Terms, by the value that their sums make."""


def network() -> onnx.ModelProto:
    """A product, and sums of squares, of magnitudes and of products, of 6, 5 and 4 terms."""
    rng = np.random.default_rng(8)
    arrays = {"w": rng.normal(size=(3, 6)), "t_w": rng.normal(size=(5, 6)) * 2,
              "u_w": rng.normal(size=(1, 4, 5)) * 20, "y_w": rng.normal(size=(3, 4))}
    constants = [numpy_helper.from_array(array.astype(np.float32), name)
                 for name, array in arrays.items()]
    constants += [numpy_helper.from_array(np.array([place]), name)
                  for name, place in (("before", 1), ("last", -1))]
    elementwise = {
        "t": [("Sub", ["t_apart", "t_w"], "t_off"), ("Mul", ["t_off", "t_off"], "t_terms")],
        "u": [("Sub", ["u_w", "u_apart"], "u_off"), ("Abs", ["u_off"], "u_terms")],
        "y": [("Mul", ["y_w", "y_apart"], "y_terms")]}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "a")]
    for source, made in zip("atu", "tuy", strict=True):
        nodes.append(helper.make_node("Unsqueeze", [source, "before"], [f"{made}_apart"],
                                      f"{made}_apart"))
        nodes += [helper.make_node(op, read, [name], name) for op, read, name in elementwise[made]]
        nodes.append(helper.make_node("ReduceSum", [f"{made}_terms", "last"], [made], made,
                                      keepdims=0))
    typed = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("x", (7, 3)), ("y", (7, 3)))]
    graph = helper.make_graph(nodes, "terms", typed[:1], typed[1:], constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture(scope="module")
def made() -> Quantized:
    x = np.random.default_rng(9).normal(size=(8, 7, 3)).astype(np.float32)
    made = lockstep.quantize(network(), {"x": x}, machine=MACHINE)
    assert isinstance(made, Quantized)
    return made


def given() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(7).normal(size=(7, 3)).astype(np.float32)}


def test_a_network_uses_them_in_cycles_as_numpy_says(made) -> None:
    assert [layer.by for layer in made.layers] == ["", "sqdist", "l1dist", "gemm"]
    graph = optimize(made.graph)
    nodes = [node for node in graph.nodes if node.op == "qterms"]
    known = evaluate(graph, given(), [value for node in nodes
                                      for value in (node.inputs[0], node.outputs[0])] + ["y"])
    for node, term in zip(nodes, TERMS.values(), strict=True):
        x, w = known[node.inputs[0]].astype(int), graph.constants[node.inputs[1]].astype(int)
        sums = term(x[:, None], w).sum(axis=-1)
        wanted = np.rint(sums * node.attrs["mult"] / 2.0**node.attrs["shift"]) + node.attrs["zp"]
        np.testing.assert_array_equal(known[node.outputs[0]], np.clip(wanted, -128, 127))
    module = lockstep.compile(made.graph, "accel,cpu", machine=MACHINE, sim="cycle", cache=False)
    np.testing.assert_array_equal(module(given())["y"], known["y"])
    assert [[node.op for node in segment.nodes] for segment in module.partition.segments
            if segment.target.startswith("accel")] == [["qdense", "qterms", "qterms", "qterms"]]


def test_it_is_near_the_float_network(made) -> None:
    real, whole = (evaluate(graph, given())["y"] for graph in (convert(network()), made.graph))
    assert np.abs(real - whole).max() < 0.05 * np.abs(real).max()


def test_a_file_needs_no_machine(made) -> None:
    found = run_onnx(made.model, given())["y"]
    wanted = evaluate(made.graph, given())["y"]
    np.testing.assert_array_equal(found, wanted)
    again = lockstep.compile(made.model, "cpu", cache=False)(given())["y"]
    np.testing.assert_array_equal(again, wanted)
    assert [node.op for node in optimize(convert(made.model)).nodes].count("qterms") == 3


@pytest.mark.slow
def test_it_runs_in_rtl(made) -> None:
    module = lockstep.compile(made.graph, "accel,cpu", machine=MACHINE, sim="verilator",
                              cache=False)
    np.testing.assert_array_equal(module(given())["y"], evaluate(made.graph, given())["y"])
