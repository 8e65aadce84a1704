"""Networks that take and give numbers of types that no processor computes with."""

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend import ImportRefused, convert
from compiler.graph import evaluate, verify
from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.passes.pipeline import optimize, standard_passes
from compiler.ops.records.rules import TypeRefused
from compiler.ops.registry import infer
from compiler.te import SMALL
from runtime.exporting.ports import random_inputs
from tests.support.slow_cases import each_once

NEWEST = onnx.defs.onnx_opset_version()
CODES = {name: helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, name)))
         for name in SMALL}
BYTES = np.arange(256, dtype=np.uint8).reshape(16, 16)
"""As inputs: numbers of fewer bits come with bits beyond them."""


def model(nodes, given, made, constants=(), opset: int = NEWEST) -> onnx.ModelProto:
    """A model; `given` and `made` are types and shapes by name."""
    inputs, outputs = ([helper.make_tensor_value_info(name, code, shape)
                        for name, (code, shape) in values.items()] for values in (given, made))
    return helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, [
            numpy_helper.from_array(array, name) for name, array in constants]),
        opset_imports=[helper.make_opsetid("", opset)])


def results(graph: Graph, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs, which the reference and the processor must agree on to the bit."""
    wanted = evaluate(verify(graph), inputs)
    found = CpuTarget().compile(optimize(graph, standard_passes(integerize=False)))(inputs)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype, name
        if array.dtype.name in SMALL:
            assert found[name].tobytes() == array.tobytes(), name
        np.testing.assert_array_equal(found[name].astype(np.float64), array.astype(np.float64))
    return wanted


MOVES = {
    "Identity": ((), {}, lambda x: x),
    "Transpose": ((), {"perm": [1, 0]}, lambda x: x.T),
    "Flatten": ((), {"axis": 0}, lambda x: x.reshape(1, 256)),
    "Reshape": ((np.array([4, 64]),), {}, lambda x: x.reshape(4, 64)),
    "Unsqueeze": ((np.array([0]),), {}, lambda x: x[None]),
    "Pad": ((np.array([1, 0, 0, 2]), np.array(0, np.uint8)), {},
            lambda x: np.pad(x, ((1, 0), (0, 2)))),
    "Slice": ((np.array([3, 14]), np.array([9, 2]), np.array([0, 1]), np.array([2, -3])), {},
              lambda x: x[3:9:2, 14:2:-3]),
    "Gather": ((np.array([5, 0, 15]),), {"axis": 1}, lambda x: x[:, [5, 0, 15]]),
    "Expand": ((np.array([2, 16, 16]),), {}, lambda x: np.broadcast_to(x, (2, 16, 16))),
    "Concat": ((BYTES[:3],), {"axis": 0}, lambda x: np.concatenate([x, BYTES[:3]])),
}


@pytest.mark.parametrize("name", SMALL)
def test_moves_keep_every_code(name: str) -> None:
    mask, nodes, constants, wanted = (1 << SMALL[name]) - 1, [], [], {}
    for op, (others, attrs, move) in MOVES.items():
        names = [f"{op}{place}" for place in range(len(others))]
        constants += [(key, (array & mask).view(name) if array.dtype == np.uint8 else array)
                      for key, array in zip(names, others, strict=True)]
        nodes.append(helper.make_node(op, ["x", *names], [op], **attrs))
        wanted[op] = move(BYTES) & mask
    graph = convert(model(nodes, {"x": (CODES[name], [16, 16])},
                          {op: (CODES[name], array.shape) for op, array in wanted.items()},
                          constants))
    for op, array in results(graph, x=BYTES.view(name)).items():
        assert array.dtype == np.dtype(name)
        np.testing.assert_array_equal(array.view(np.uint8), wanted[op], op)


KINDS = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "BOOL", "INT32")


@pytest.mark.parametrize("name", SMALL)
def test_every_code_is_its_number(name: str) -> None:
    """A NaN is no integer, so of floats none is asked for."""
    x = (BYTES & (1 << SMALL[name]) - 1).view(name)
    codes = {kind: getattr(TensorProto, kind) for kind in KINDS[:None if "int" in name else -1]}
    graph = convert(model([helper.make_node("Cast", ["x"], [kind], to=code)
                           for kind, code in codes.items()], {"x": (CODES[name], [16, 16])},
                          {kind: (code, [16, 16]) for kind, code in codes.items()}))
    for kind, found in results(graph, x=x).items():
        with np.errstate(over="ignore"):
            wanted = x.astype(np.float32).astype(helper.tensor_dtype_to_np_dtype(codes[kind]))
        np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64), kind)


@each_once("name, form", [name for name in SMALL if name != "float8_e8m0fnu"],
           [*product(["float32", "float8_e8m0fnu"], [0, 4])], ids=str)
def test_quantized_in_blocks(name: str, form: tuple[str, int]) -> None:
    """Numbers, scales and zero points that the network is given."""
    scales, block = form
    rng = np.random.default_rng(block)
    shape = [16, 4] if block else []
    scale = (2.0 ** rng.integers(-2, 3, shape)).astype(np.float32).astype(scales)
    zero = rng.integers(0, 2, shape).astype(np.float32).astype(name)
    x = (rng.normal(size=(16, 16)) * 4).astype(np.float32)
    attrs: dict[str, Any] = {"axis": 1, "block_size": block} if block else {}
    asked = model(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **attrs, precision=1),
         helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attrs, output_dtype=1)],
        {"x": (1, [16, 16]), "s": (CODES.get(scales, 1), shape), "z": (CODES[name], shape)},
        {"q": (CODES[name], [16, 16]), "y": (1, [16, 16])})
    found = results(convert(asked), x=x, s=scale, z=zero)
    spread = {key: np.repeat(array.astype(np.float32), block, 1) if block
              else array.astype(np.float32) for key, array in {"s": scale, "z": zero}.items()}
    steps = x / spread["s"]
    if name.startswith("float"):
        most = float(ml_dtypes.finfo(name).max)
        wanted = np.clip(steps + spread["z"], -most, most).astype(name)
    else:
        info = ml_dtypes.iinfo(name)
        wanted = np.clip(np.rint(steps) + spread["z"], int(info.min), int(info.max)).astype(name)
    np.testing.assert_array_equal(found["q"].view(np.uint8), wanted.view(np.uint8))
    numbers = (wanted.astype(np.float32) - spread["z"]) * spread["s"]
    np.testing.assert_array_equal(found["y"], numbers)


@pytest.mark.parametrize("opset", [21, 23, 24, 25])
@pytest.mark.parametrize("name", ["int4", "uint4", "float8_e4m3fn", "float8_e5m2"])
def test_like_the_reference(name: str, opset: int) -> None:
    asked = model([helper.make_node("DequantizeLinear", ["x", "s"], ["d"]),
                   helper.make_node("QuantizeLinear", ["d", "t", "z"], ["y"])],
                  {"x": (CODES[name], [16, 16])}, {"y": (CODES[name], [16, 16])},
                  [("s", np.float32(0.75)), ("t", np.float32(1.25)),
                   ("z", np.zeros((), name))], opset)
    x = (BYTES & (1 << SMALL[name]) - 1).view(name)
    wanted, = map(np.asarray, ReferenceEvaluator(asked).run(None, {"x": x}))
    found = results(convert(asked), x=x)["y"]
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


def test_type_of_another_value() -> None:
    """CastLike and a choice between values, of the type of an input."""
    asked = model([helper.make_node("CastLike", ["x", "like"], ["cast"]),
                   helper.make_node("Where", ["c", "cast", "like"], ["y"])],
                  {"x": (1, [4]), "like": (CODES["float8_e5m2"], [4]), "c": (9, [4])},
                  {"y": (CODES["float8_e5m2"], [4])})
    found = results(convert(asked), x=np.array([1, 2, -9, np.inf], np.float32),
                    like=np.array([3, 4, 5, 6], ml_dtypes.float8_e5m2),
                    c=np.array([1, 0, 1, 1], bool))["y"]
    np.testing.assert_array_equal(found.astype(np.float32), [1, 4, -8, 57344])


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2fnuz"])
def test_questions_about_numbers(name: str) -> None:
    x = BYTES.view(name)
    asked = model([helper.make_node(op, ["x"], [op[2]]) for op in ("IsNaN", "IsInf")],
                  {"x": (CODES[name], [16, 16])}, {"N": (9, [16, 16]), "I": (9, [16, 16])})
    found = results(convert(asked), x=x)
    np.testing.assert_array_equal(found["N"], np.isnan(x.astype(np.float32)))
    np.testing.assert_array_equal(found["I"], np.isinf(x.astype(np.float32)))


@pytest.mark.parametrize("name", SMALL)
def test_random_inputs_are_of_the_type(name: str) -> None:
    graph = convert(model([helper.make_node("Identity", ["x"], ["y"])],
                          {"x": (CODES[name], [99])}, {"y": (CODES[name], [99])}))
    x = random_inputs(graph, 0)["x"]
    assert x.dtype == np.dtype(name)
    assert len(np.unique(x.view(np.uint8))) > 1
    assert int(x.view(np.uint8).max()) < 1 << SMALL[name]


def test_two_types_of_one_result() -> None:
    """Integers of few bits and the same in bytes, both results of one node."""
    asked = model([helper.make_node("F", ["x"], ["q", "b"], domain="own")],
                  {"x": (1, [3])}, {"q": (CODES["int4"], [3]), "b": (TensorProto.INT8, [3])})
    asked.functions.append(helper.make_function(
        "own", "F", ["a"], ["q", "b"],
        [helper.make_node("Cast", ["a"], ["q"], to=CODES["int4"]),
         helper.make_node("Cast", ["q"], ["b"], to=TensorProto.INT8)],
        [helper.make_opsetid("", NEWEST)]))
    asked.opset_import.append(helper.make_opsetid("own", 1))
    found = results(convert(asked), x=np.array([-8, 3, 9], np.float32))
    np.testing.assert_array_equal(found["b"], [-8, 3, -7])
    np.testing.assert_array_equal(found["q"].view(np.uint8), [8, 3, 9])


def test_what_is_computed_with_no_processors_type() -> None:
    with pytest.raises(ImportRefused) as refused:
        convert(model([helper.make_node("Relu", ["x"], ["y"], "r")],
                      {"x": (CODES["float8_e5m2"], [4])}, {"y": (CODES["float8_e5m2"], [4])}), "m")
    assert str(refused.value).startswith(
        "m: cannot import r (Relu): operands must be of a type that processors compute with, not "
        "float8_e5m2; convert them by Cast or DequantizeLinear first; ")


def test_output_of_another_type_than_declared() -> None:
    with pytest.raises(ImportRefused) as refused:
        convert(model([helper.make_node("Cast", ["x"], ["y"], to=CODES["int4"])],
                      {"x": (1, [4])}, {"y": (CODES["uint4"], [4])}), "m")
    assert str(refused.value) == "m: output 'y' must be uint4, as the model declares it, not int4"


@pytest.mark.parametrize("op, dtypes, to, reason", [
    ("add", ("int4", "int4"), None,
     "input 'a' must be of a type that operators compute with, not int4"),
    ("bitcast", ("int8",), "int4", "bitcast must be between uint8 and one of "),
    ("bitcast", ("uint8",), "uint8", "bitcast must be between uint8 and one of ")])
def test_types_of_operators(op: str, dtypes: tuple[str, ...], to: str | None, reason: str) -> None:
    node = Node(op, "n", tuple("ab"[:len(dtypes)]), ("y",), {"to": to} if to else {})
    with pytest.raises(TypeRefused, match=f"^n: {reason}"):
        infer(node, [TensorType((2,), dtype) for dtype in dtypes])
