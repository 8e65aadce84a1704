"""Tiny models that ask for all memory or all time: refused within a second and 500 MB."""

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, TensorProto, helper, numpy_helper

from compiler.frontend import ImportRefused, convert
from compiler.frontend.building import values
from compiler.graph import evaluate
from compiler.graph.fusion import MOST_INPUTS, fuse
from compiler.graph.room import VARIABLE
from compiler.quantize import quantize
from compiler.quantize.ranges.refusal import QuantizeRefused
from tests.support.effort import Effort

MOST_MEGABYTES = 500


def numbers(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(nodes, constants=(), functions=(), shape=(2, 3), opset=20) -> onnx.ModelProto:
    """From x to y, which is x and what the shape of `a` decides."""
    kind = helper.make_tensor_value_info
    nodes = [*nodes, helper.make_node("Cast", ["a"], ["f"], to=1),
             helper.make_node("ReduceMean", ["f"], ["m"], keepdims=0),
             helper.make_node("Add", ["x", "m"], ["y"])]
    return helper.make_model(
        helper.make_graph(nodes, "g", [kind("x", 1, shape)], [kind("y", 1, None)], constants),
        ir_version=9, functions=functions,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("own", 1)])


def scalar(name: str, value) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value), name)


def range_() -> onnx.ModelProto:
    return model([helper.make_node("Range", ["zero", "n", "one"], ["a"])],
                 [scalar("zero", 0), scalar("n", 10**15), scalar("one", 1)])


def doubled(first: str = "c", operator: str = "Concat", refused: bool = False) -> onnx.ModelProto:
    """33 nodes that each double; a refused one asks ONNX for the types of what follows."""
    names = [first, *(f"v{place}" for place in range(32)), "a"]
    attributes: dict[str, Any] = {"axis": 0} if operator == "Concat" else {}
    nodes = [helper.make_node(operator, [before, before], [after], **attributes)
             for before, after in zip(names, names[1:], strict=False)]
    constants = [numbers("c", 1, 2), numpy_helper.from_array(np.array(["ab"], object), "s")]
    if operator == "StringConcat":
        nodes.append(helper.make_node("Shape", [nodes[-1].output[0]], ["shape"]))
        nodes[-2].output[0], nodes[-1].input[0], nodes[-1].output[0] = "t", "t", "a"
    if refused:
        nodes.insert(0, helper.make_node("NonZero", ["x"], ["unused"]))
    return model(nodes, constants)


def calls(depth: int, last: str = "") -> onnx.ModelProto:
    """Functions that each call the next one twice."""
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]

    def function(place: int) -> FunctionProto:
        below = f"f{place + 1}" if place < depth else last
        nodes = [helper.make_node(below or "Relu", [before], [after],
                                  domain="own" if below else "")
                 for before, after in (("p", "q"), ("q", "r"))]
        return helper.make_function("own", f"f{place}", ["p"], ["r"], nodes, imports)

    return model([helper.make_node("f0", ["x"], ["a"], domain="own")],
                 functions=[function(place) for place in range(depth + 1)])


def padded_from_nothing() -> onnx.ModelProto:
    """A pad of a tensor without elements, which is computed at once."""
    return model([helper.make_node("Pad", ["none", "pads"], ["a"])],
                 [numpy_helper.from_array(np.empty((0, 3), np.float32), "none"),
                  numbers("pads", 1 << 28, 0, 0, 0)])


def expanded_float8() -> onnx.ModelProto:
    """An expand of a type that processors lack, which is computed at once."""
    return model([helper.make_node("Expand", ["e", "shape"], ["a"])],
                 [helper.make_tensor("e", TensorProto.FLOAT8E5M2, [1], [1.0]),
                  numbers("shape", 1 << 31)])


def turned(trips: int, depth: int) -> onnx.ModelProto:
    """Loops in loops that leave nothing in the graph."""
    kind = helper.make_tensor_value_info
    node = helper.make_node("Neg", [f"c{depth}"], [f"o{depth}"])
    for place in range(depth, 0, -1):
        body = helper.make_graph(
            [node, helper.make_node("Identity", [f"g{place}"], [f"h{place}"])], "body",
            [kind(f"n{place}", 7, []), kind(f"g{place}", 9, []), kind(f"c{place}", 7, None)],
            [kind(f"h{place}", 9, []), kind(f"o{place}", 7, None)])
        node = helper.make_node("Loop", ["trips", "true", f"c{place - 1}" if place > 1 else "c"],
                                [f"o{place - 1}" if place > 1 else "a"], body=body)
    return model([node], [scalar("trips", trips), scalar("true", True), numbers("c", 1)])


def split() -> onnx.ModelProto:
    """ONNX's inference would list all of the outputs."""
    return model([helper.make_node("Split", ["x"], ["a"], axis=1, num_outputs=1 << 40)])


def scanned() -> onnx.ModelProto:
    """A turn for each of many rows."""
    kind = helper.make_tensor_value_info
    body = helper.make_graph([helper.make_node("Add", ["s", "e"], ["t"])], "body",
                             [kind("s", 1, [3]), kind("e", 1, [3])], [kind("t", 1, [3])])
    return model([helper.make_node("Expand", ["x", "rows"], ["long"]),
                  helper.make_node("Scan", ["first", "long"], ["a"], body=body, num_scan_inputs=1)],
                 [numbers("rows", 1 << 17, 3),
                  numpy_helper.from_array(np.zeros(3, np.float32), "first")], shape=(1, 3))


def recurrent() -> onnx.ModelProto:
    """A list with a place for each step would be of 16 GiB."""
    weights = [numpy_helper.from_array(np.ones((1, 4, size), np.float32), name)
               for name, size in (("w", 3), ("r", 1))]
    return model([helper.make_node("Expand", ["x", "steps"], ["long"]),
                  helper.make_node("LSTM", ["long", "w", "r"], ["a"], hidden_size=1)],
                 [numbers("steps", 1 << 31, 1, 3), *weights], shape=(1, 1, 3))


def axes() -> onnx.ModelProto:
    """More than NumPy broadcasts."""
    return model([helper.make_node("Expand", ["x", "shape"], ["a"])],
                 [numbers("shape", *(1,) * 60, 2, 3)])


def rank() -> onnx.ModelProto:
    """More axes than NumPy has."""
    return model([helper.make_node("Reshape", ["x", "shape"], ["a"])],
                 [numbers("shape", *(1,) * 63, 2, 3)])


def joined() -> onnx.ModelProto:
    """More elements than 64 bits count."""
    names = ["x", *(f"v{place}" for place in range(61)), "a"]
    return model([helper.make_node("Concat", [before, before], [after], axis=0)
                  for before, after in zip(names, names[1:], strict=False)])


TOO_LARGE = ("its result must have [0-9,]+ bytes at most and no extent below 0, not the shape .*; "
             "LOCKSTEP_MEMORY, in GiB, sets how much.*")
BOMBS = {
    "range": (range_, rf"m: cannot import Range_0 \(Range\): {TOO_LARGE}"),
    "concat": (doubled, rf"m: cannot import Concat_.. \(Concat\): {TOO_LARGE}"),
    "inferred": (lambda: doubled(refused=True), rf"m: cannot import NonZero_0 .*{TOO_LARGE}"),
    "strings": (lambda: doubled("s", "StringConcat"),
                rf"m: cannot import StringConcat_.. \(StringConcat\): {TOO_LARGE}"),
    "calls": (lambda: calls(30), "m: must have 60,000 operators at most with its functions put "
                                 "in, not 4,294,967,298; make it smaller"),
    "recursion": (lambda: calls(2, "f1"), "m: functions must not call themselves: own.f1 calls "
                                          "own.f2 calls own.f1; export the model again"),
    "deep": (lambda: calls(200), "m: functions must call one another 100 deep at most; export the "
                                 "model again"),
    "empty": (padded_from_nothing, rf"m: cannot import Pad_0 \(Pad\): {TOO_LARGE}"),
    "float8": (expanded_float8, rf"m: cannot import Expand_0 \(Expand\): {TOO_LARGE}"),
    "split": (split, r"m: cannot import Split_0 \(Split\): it must make 50,000 parts at most, not "
                     "1,099,511,627,776; .*"),
    "scan": (scanned, r"m: cannot import Scan_1 \(Scan\): must take 20,000 turns at most, not "
                      "131,072; .*"),
    "recurrent": (recurrent,
                  r"m: cannot import LSTM_1 \(LSTM\): must take 20,000 turns at most, not "
                  "2,147,483,648; .*"),
    "axes": (axes, r"m: cannot import Expand_0 \(Expand\): its inputs and attributes contradict "
                   r"each other \(RuntimeError: this function only supports up to 32 dim.*"),
    "rank": (rank, r"m: cannot import Reshape_0 \(Reshape\): shape must have 64 dimensions at "
                   "most, not 65; .*"),
    "elements": (joined, r"m: cannot import Concat_60 \(Concat\): shape must hold less than 2\^63 "
                         r"elements, not \(4611686018427387904, 3\); .*"),
    "loops": (lambda: turned(1000, 3),
              r"m: cannot import Loop_0 \(Loop\): Loop_0 \(Loop\): .*the model must take 60,000 "
              "steps at most, loops unrolled and functions put in.*"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused(name: str, monkeypatch) -> None:
    """In the quick run limits are lower, which are reached sooner."""
    made, said = BOMBS[name]
    if Effort.quick:
        monkeypatch.setenv(VARIABLE, "0.25")
    if Effort.quick and name == "loops":
        monkeypatch.setattr(values, "MOST_STEPS", 6_000)
        said = said.replace("60,000", "6,000")
    assert len(made().SerializeToString()) < 1 << 15
    with pytest.raises(ImportRefused, match=f"^{said}$"):
        convert(made(), "m")


@pytest.mark.parametrize("name", ["inferred", "calls", *(
    pytest.param(name, marks=pytest.mark.slow) for name in ("range", "concat", "recursion"))])
def test_little_is_taken_before(name: str, tmp_path: Path) -> None:
    """In a process of its own, whose peak is measured, with the imports."""
    path = tmp_path / "m.onnx"
    onnx.save(BOMBS[name][0](), path)
    code = ("import resource, sys; from compiler.frontend import ImportRefused, load\n"
            "from tests.support.memory import peak_bytes\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_utime\n"
            "try: load(sys.argv[1])\n"
            "except ImportRefused: used = resource.getrusage(resource.RUSAGE_SELF)\n"
            "print(used.ru_utime - before, peak_bytes())")
    limit = 5 << 30
    done = subprocess.run([sys.executable, "-c", code, str(path)], text=True, capture_output=True,
                          check=True, preexec_fn=lambda: resource.setrlimit(
                              resource.RLIMIT_AS, (limit, limit)))
    seconds, peak = map(float, done.stdout.split())
    assert peak < MOST_MEGABYTES * 10**6
    assert seconds < 5          # one on a machine that has nothing else to do


@pytest.mark.parametrize("name", ["calls", "recursion"])
def test_the_quantizer_refuses_before_inference(name: str) -> None:
    made, said = BOMBS[name]
    with pytest.raises(QuantizeRefused, match=f"^model{said[1:]}$"):
        quantize(made(), np.zeros((2, 3), np.float32))


def test_what_is_large_enough_still_runs() -> None:
    """Functions within functions, loops, and constants that are computed."""
    assert len(convert(calls(6), "m").nodes) == 128 + 3
    assert len(convert(turned(20, 2), "m").nodes) == 1


def test_a_join_of_many_runs() -> None:
    """Native code cannot be called with thousands of arrays."""
    made = model([helper.make_node("Relu", ["x"], ["r"]),
                  helper.make_node("Concat", ["r"] + ["x"] * 300, ["a"], axis=0)])
    graph = convert(made, "m")
    assert max(len(node.inputs) for node in graph.nodes) <= MOST_INPUTS
    groups = fuse(graph).groups
    assert max(len(group.nodes) for group in groups) > 1
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(evaluate(graph, {"x": x})["y"], x + np.float32(2.5))


def test_readers_of_a_refused_node_are_still_judged() -> None:
    """By the type that ONNX infers from the node alone, or that the model declares."""
    softmax = helper.make_node("Softmax", ["g"], ["a"], "reader", axis=7)
    nodes = [helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0),
             helper.make_node("Cast", ["mean"], ["training"], to=9),
             helper.make_node("Dropout", ["x", "", "training"], ["g"]), softmax]
    with pytest.raises(ImportRefused, match="Dropout_2.*reader"):
        convert(model(nodes), "m")
    declared = model([helper.make_node("Strange", ["x"], ["g"], domain="own"), softmax])
    declared.graph.value_info.append(helper.make_tensor_value_info("g", 1, [2, 3]))
    with pytest.raises(ImportRefused, match="Strange_0.*reader"):
        convert(declared, "m")
