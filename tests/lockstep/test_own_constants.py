"""An instruction whose record constants of a float network fill: PRelu with a slope a channel."""

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
from compiler.ops.records.integer_forms import Stored
from compiler.quantize.quantizer import Quantized
from lockstep.cli import main

SLOPES = np.linspace(-0.5, 1.5, 6, dtype=np.float32)
RECORD = te.record("own_slopes", above="uint16", below="int16", amount="uint8")


def prelu(a, above, below, amount, zp, lo):
    x = a - lo.astype("int32")
    factor = te.select(x > 0, above.astype("int32"), below.astype("int32"))
    steps = te.rshift_rne((x * factor).astype("int64"), (amount & 63).astype("int64"))
    return te.clamp(steps + zp.astype("int64"), -128, 127).astype("int32")


def immediates(x, slope, out):
    ratio = x.scale / out.scale
    amount = int(np.floor(np.log2(2**15 / (ratio * max(1, np.abs(slope).max())))))
    return {"above": round(ratio * 2**amount), "below": np.rint(slope * ratio * 2**amount),
            "amount": amount, "zp": out.zp, "lo": x.zp}


MACHINE = Machine(preset("tiny-1x4x4"), (*SHIPPED, vector_op(
    "prelu", prelu, a=("res",), record=RECORD, immediates=immediates,
    matches=lambda x, slope: te.select(x < 0, x * slope, x))))


def network() -> onnx.ModelProto:
    rng = np.random.default_rng(8)
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in (
        ("first", rng.normal(size=(6, 3, 3, 3)) / 5), ("last", rng.normal(size=(5, 6, 1, 1))),
        ("slopes", SLOPES.reshape(6, 1, 1)))]
    nodes = [helper.make_node("Conv", ["x", "first"], ["a"], "a"),
             helper.make_node("PRelu", ["a", "slopes"], ["b"], "b"),
             helper.make_node("Conv", ["b", "last"], ["y"], "y")]
    typed = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("x", (1, 3, 7, 7)), ("y", (1, 5, 5, 5)))]
    graph = helper.make_graph(nodes, "slopes", typed[:1], typed[1:], constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture(scope="module")
def made() -> Quantized:
    x = np.random.default_rng(9).normal(size=(8, 3, 7, 7)).astype(np.float32)
    made = lockstep.quantize(network(), x, machine=MACHINE)
    assert isinstance(made, Quantized)
    return made


def test_a_network_uses_it_in_cycles_as_numpy_says(made) -> None:
    assert [(layer.by, layer.steps_off) for layer in made.layers] == [
        ("", None), ("prelu", 1), ("", None)]
    x = {"x": np.random.default_rng(7).normal(size=(1, 3, 7, 7)).astype(np.float32)}
    graph = optimize(made.graph)
    (node,) = (node for node in graph.nodes if node.op == "qmap")
    known = evaluate(graph, x, [*node.inputs[:1], *node.outputs, "y"])
    stored = [_stored(made.graph, value) for value in "ab"]
    numbers = {name: np.reshape(number, (-1, 1, 1)) for name, number in immediates(
        stored[0], SLOPES.astype(np.float64), stored[1]).items()}
    steps = known[node.inputs[0]].astype(int) - numbers["lo"]
    wanted = np.rint(steps * np.where(steps > 0, numbers["above"], numbers["below"])
                     / 2.0**numbers["amount"]) + numbers["zp"]
    np.testing.assert_array_equal(known[node.outputs[0]], np.clip(wanted, -128, 127))
    module = lockstep.compile(made.graph, "accel,cpu", machine=MACHINE, sim="cycle", cache=False)
    np.testing.assert_array_equal(module(x)["y"], known["y"])
    assert [[node.op for node in segment.nodes] for segment in module.partition.segments
            if segment.target.startswith("accel")] == [["qconv2d", "qmap", "qconv2d"]]


def test_show_tells_what_fills_its_record(tmp_path, capsys) -> None:
    path = tmp_path / "mine.py"
    path.write_text("from tests.lockstep.test_own_constants import MACHINE as machine\n")
    assert main(["intrinsic", "show", "prelu", "--machine", str(path)]) == 0
    said = "stands for select(x < 0.0, x * slope, x) in float networks, slope of each channel\n"
    assert said in capsys.readouterr().out


def _stored(graph, value: str) -> Stored:
    return Stored(value, float(graph.constants[f"{value}_scale"]),
                  int(graph.constants[f"{value}_zero_point"]) - 128)


@pytest.mark.slow
def test_it_runs_in_rtl_and_on_the_host(made) -> None:
    x = {"x": np.random.default_rng(7).normal(size=(1, 3, 7, 7)).astype(np.float32)}
    host, there = (lockstep.compile(made.graph, target, cache=False, **options)(x)["y"]
                   for target, options in (("cpu", {}), ("accel,cpu", {
                       "machine": MACHINE, "sim": "verilator"})))
    np.testing.assert_array_equal(host, there)
