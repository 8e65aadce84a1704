"""An instruction that stands for a function up to a tolerance: GELU, by erf or by tanh."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lockstep
from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from compiler import te
from compiler.graph import evaluate, optimize
from compiler.ops.integers.fixed_point import quantize_multiplier
from compiler.ops.records.integer_forms import Stored
from compiler.quantize import Quantized
from compiler.tensorize import Immediate

BEND, SQUARE = 453, 74      # 1.769 / 2**-8; erf(u) is about 1 - 0.2888 (u - 1.769)²


def gelu(a, zero, kx, ma, s, zp):
    """Half of x (1 + erf(x / 2**0.5)), erf as a parabola up to a bend."""
    x = a - zero.astype("int32")
    d = te.minimum((te.abs(x) * kx.astype("int32")) >> 4, BEND) - BEND
    e = 65536 - ((d * d * SQUARE) >> 8)
    product = x.astype("int64") * (te.select(x < 0, 0 - e, e) + 65536).astype("int64")
    scaled = te.rshift_rne(te.rshift_rne(product, 9) * ma.astype("int64"),
                           (s & 63).astype("int64"))
    return te.clamp(scaled + zp.astype("int64"), -128, 127).astype("int32")


def immediates(x, out):
    ma, s = quantize_multiplier(x.scale / out.scale / 2 / 2**7)
    return {"zero": x.zp, "kx": round(x.scale / 2**0.5 * 2**12), "ma": ma, "s": s, "zp": out.zp}


def machine_of(tolerance: float) -> Machine:
    own = vector_op("gelu", gelu, a=("res",), immediates=immediates, tolerance=tolerance,
                    fields=(Immediate("zero", "int8", -128, 127),
                            Immediate("kx", "uint16", 0, 65535)),
                    matches=lambda x: x * 0.5 * (te.erf(x * 0.5**0.5) + 1.0))
    return Machine(preset("tiny-1x4x4"), (*SHIPPED, own))


def network(kind: str) -> onnx.ModelProto:
    """Two convolutions with GELU between, in an exporter's operators."""
    rng = np.random.default_rng(8)
    arrays = {"first": rng.normal(size=(6, 3, 3, 3)) / 3, "last": rng.normal(size=(5, 6, 1, 1)),
              "root": 2**0.5, "half": 0.5, "one": 1.0, "cube": 0.044715, "pi": (2 / np.pi)**0.5,
              "three": 3.0}
    bodies = {
        "erf": [("Div", "a root", "u"), ("Erf", "u", "v")],
        "tanh": [("Pow", "a three", "p"), ("Mul", "p cube", "q"), ("Add", "a q", "r"),
                 ("Mul", "r pi", "u"), ("Tanh", "u", "v")]}
    nodes = [("Conv", "x first", "a"), *bodies[kind], ("Add", "v one", "w"), ("Mul", "a w", "h"),
             ("Mul", "h half", "b"), ("Conv", "b last", "y")]
    typed = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("x", (1, 3, 7, 7)), ("y", (1, 5, 5, 5)))]
    graph = helper.make_graph(
        [helper.make_node(op, read.split(), [made], made) for op, read, made in nodes], "gelu",
        typed[:1], typed[1:], [numpy_helper.from_array(np.asarray(array, np.float32), name)
                               for name, array in arrays.items()])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def samples(count: int) -> np.ndarray:
    return np.random.default_rng(9).normal(size=(count, 3, 7, 7)).astype(np.float32)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "tolerance", "by"), [
    ("erf", 0.0, "gelu"), ("tanh", 0.0, ""), ("tanh", 1e-3, "gelu")])
def test_both_are_one_function_within_a_thousandth(kind: str, tolerance: float, by: str) -> None:
    made = lockstep.quantize(network(kind), samples(4), machine=machine_of(tolerance))
    assert isinstance(made, Quantized)
    assert [layer.by for layer in made.layers] == ["", by, ""]


def test_a_network_uses_it_in_cycles_as_numpy_says() -> None:
    machine, x = machine_of(1e-3), {"x": samples(1)}
    made = lockstep.quantize(network("tanh"), samples(4), machine=machine)
    graph = optimize(made.graph)
    (node,) = (node for node in graph.nodes if node.op == "qmap")
    known = evaluate(graph, x, [*node.inputs, *node.outputs, "y"])
    stored = [Stored(value, float(made.graph.constants[f"{value}_scale"]), int(
        made.graph.constants[f"{value}_zero_point"]) - 128) for value in "ab"]
    numbers = immediates(*stored)
    steps = known[node.inputs[0]].astype(int) - numbers["zero"]
    off = np.minimum(np.abs(steps) * numbers["kx"] >> 4, BEND) - BEND
    erf = np.sign(steps) * (65536 - (off * off * SQUARE >> 8))
    wanted = np.rint(np.rint(steps * (erf + 65536) / 2.0**9) * numbers["ma"] / 2.0**numbers["s"])
    np.testing.assert_array_equal(known[node.outputs[0]],
                                  np.clip(wanted + numbers["zp"], -128, 127))
    module = lockstep.compile(made.graph, "accel,cpu", machine=machine, sim="cycle", cache=False)
    np.testing.assert_array_equal(module(x)["y"], known["y"])
    assert [[node.op for node in segment.nodes] for segment in module.partition.segments
            if segment.target.startswith("accel")] == [["qconv2d", "qmap", "qconv2d"]]
