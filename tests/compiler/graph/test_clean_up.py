"""Algebraic clean-up: each rule, what has to stay, and random chains to the bit."""

from collections import Counter
from math import inf, nan

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from compiler.frontend import convert
from compiler.graph import (
    Builder,
    Graph,
    TensorType,
    dump_into,
    evaluate,
    optimize,
    standard_passes,
    verify,
)
from compiler.ops.records.rules import TypeRefused
from compiler.graph.passes import CleanUp

SHAPE = (2, 1, 3)
SPECIAL = (0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 1e-40, -1e-40, 3e38, 2.5, -0.5)


def graph_of(*nodes: tuple, dtype: str = "float32", shape: tuple[int, ...] = SHAPE,
             outputs: tuple[str, ...] = ("y",), **constants: object) -> Graph:
    """Nodes as (op, inputs, output, attributes); input x. Constants that are no arrays are numbers
    of the graph's type.
    """
    builder = Builder("g")
    builder.add_input("x", TensorType(shape, dtype))
    for name, constant in constants.items():
        builder.add_constant(name, constant if isinstance(constant, np.ndarray) else
                             np.array(constant, numpy_type(dtype)))
    for op, inputs, output, *attrs in nodes:
        builder.emit(op, output, inputs.split(), output, **(attrs[0] if attrs else {}))
    return verify(builder.finish(outputs))


def numpy_type(dtype: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def texts(graph: Graph) -> list[str]:
    """Operators with their inputs and attributes."""
    return [str(node).split("  #")[0] for node in graph.nodes]


def samples(graph: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Every special number, and others, for each input."""
    def sample(kind: TensorType) -> np.ndarray:
        dtype = numpy_type(kind.dtype)
        if dtype.kind == "b":
            return rng.random(kind.shape) < 0.5
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return rng.integers(limits.min, limits.max, kind.shape, dtype, endpoint=True)
        special = rng.choice(np.array(SPECIAL), kind.shape)
        with np.errstate(over="ignore"):
            return np.where(rng.random(kind.shape) < 0.5, special,
                            3 * rng.standard_normal(kind.shape)).astype(dtype)
    return {name: sample(graph.values[name]) for name in graph.inputs}


def assert_same(graph: Graph, cleaned: Graph, runs: int = 4) -> None:
    """Names and types of outputs, elements to the bit; NaN is NaN. And there is nothing left."""
    assert cleaned.outputs == graph.outputs and cleaned.inputs == graph.inputs
    rng = np.random.default_rng(0)
    for _ in range(runs):
        given = samples(graph, rng)
        made = evaluate(verify(cleaned), given)
        for name, wanted in evaluate(graph, given).items():
            assert made[name].dtype == wanted.dtype and made[name].shape == wanted.shape
            assert bits(made[name]) == bits(wanted), (str(graph), str(cleaned))
    assert CleanUp()(cleaned) is cleaned


def bits(array: np.ndarray) -> bytes:
    numbers = array if array.dtype.kind in "biu" else np.where(array != array, np.nan, array)
    return np.ascontiguousarray(numbers.astype(array.dtype)).tobytes()


def cleaned_texts(*nodes: tuple, **options) -> list[str]:
    graph = graph_of(*nodes, **options)
    cleaned = CleanUp()(graph)
    assert_same(graph, cleaned)
    return texts(cleaned)


FLAT = {"shape": (6,)}
WIDE = np.ones((4, 2, 1, 3), np.float32)
NOTHING = {"before": (0, 0, 0), "after": (0, 0, 0), "mode": "edge"}


@pytest.mark.parametrize("nodes", [
    [("identity", "x", "a")],
    [("reshape", "x", "a", {"shape": SHAPE})],
    [("slice", "x", "a", {"begin": (0, 0, 0), "end": SHAPE, "step": (1, 4, 1)})],
    [("expand", "x", "a", {"shape": SHAPE})],
    [("cast", "x", "a", {"to": "float32"})],
    [("concat", "x", "a", {"axis": 1})],
    [("transpose", "x", "a", {"perm": (0, 1, 2)})],
    [("reverse", "x", "a", {"axes": (1,)})],
    [("pad", "x", "a", NOTHING)],
    [("pad", "x k", "a", {**NOTHING, "mode": "constant"})],
    [("leakyrelu", "x", "a", {"alpha": 1.0})],
    [("clip", "x", "a", {"lo": -inf, "hi": inf})],
    [("add", "x minus", "a")], [("add", "minus x", "a")], [("sub", "x zero", "a")],
    [("mul", "x one", "a")], [("mul", "one x", "a")], [("div", "x one", "a")],
    [("pow", "x one", "a")],
    [("neg", "x", "b"), ("neg", "b", "a")],
    [("transpose", "x", "b", {"perm": (2, 0, 1)}), ("transpose", "b", "a", {"perm": (1, 2, 0)})],
    [("reverse", "x", "b", {"axes": (0, 2)}), ("reverse", "b", "a", {"axes": (2, 0)})],
    [("cast", "x", "b", {"to": "float64"}), ("cast", "b", "a", {"to": "float32"})],
    [("reshape", "x", "b", FLAT), ("reshape", "b", "c", {"shape": (3, 2)}),
     ("reshape", "c", "a", {"shape": SHAPE})],
    [("maximum", "x x", "a")], [("minimum", "x x", "a")], [("where", "flags x x", "a")],
], ids=lambda nodes: "-".join(op for op, *_ in nodes))
def test_what_changes_nothing_goes(nodes) -> None:
    constants = {"zero": 0, "one": np.ones((2, 1, 1), np.float32), "minus": -0.0, "k": 5,
                 "flags": np.array([True, False, True])}
    assert cleaned_texts(*nodes, ("tanh", "a", "y"), **constants) == ["tanh(x)"]


@pytest.mark.parametrize(("dtype", "op", "neutral"), [
    ("int32", "add", 0), ("int8", "sub", 0), ("uint8", "mul", 1), ("int64", "div", 1),
    ("int32", "pow", 1), ("int16", "and", -1), ("uint8", "and", 255), ("bool", "and", True),
    ("bool", "or", False), ("int32", "xor", 0), ("uint32", "shl", 0), ("uint32", "shr", 0),
    ("float16", "mul", 1), ("bfloat16", "div", 1), ("bfloat16", "add", -0.0),
    ("float64", "sub", 0.0)])
def test_neutral_elements_of_every_type(dtype: str, op: str, neutral) -> None:
    nodes = [(op, "x k", "a"), ("reshape", "a", "y", FLAT)]
    assert cleaned_texts(*nodes, dtype=dtype, k=neutral) == ["reshape(x) {shape=(6)}"]


@pytest.mark.parametrize("nodes", [
    [("reshape", "x", "a", FLAT)],
    [("add", "x zero", "a")], [("sub", "x minus", "a")],            # of -0
    [("mul", "x zero", "a")], [("sub", "x x", "a")],                # of NaN
    [("sub", "zero x", "a")], [("div", "one x", "a")],
    [("mul", "x wide", "a")],                                       # of another shape
    [("pad", "x", "a", {**NOTHING, "before": (-1, 0, 0), "after": (1, 0, 0)})],
    [("transpose", "x", "b", {"perm": (2, 0, 1)}), ("abs", "b", "c"),
     ("transpose", "c", "a", {"perm": (1, 2, 0)})],
    [("cast", "x", "b", {"to": "float16"}), ("cast", "b", "a", {"to": "float32"})],
    [("cast", "x", "b", {"to": "float64"}), ("cast", "b", "a", {"to": "int8"})],
    [("maximum", "zero x", "b"), ("clip", "b", "a", {"lo": -1.0, "hi": 6.0})],
    [("clip", "x", "b", {"lo": -0.0, "hi": inf}), ("relu", "b", "a")],
    [("maximum", "x one", "b"), ("maximum", "b zero", "c"), ("abs", "c", "a")],
    [("slice", "x", "a", {"begin": (0, 0, 0), "end": SHAPE, "step": (2, 1, 1)})],
], ids=lambda nodes: "-".join(op for op, *_ in nodes))
def test_what_changes_something_stays(nodes) -> None:
    constants = {"zero": 0, "one": np.ones((2, 1, 1), np.float32), "minus": -0.0, "wide": WIDE}
    graph = graph_of(*nodes, ("less", "a a", "y"), **constants)
    assert len(CleanUp()(graph).nodes) == len(nodes) + 1


@pytest.mark.parametrize(("nodes", "wanted"), [
    ([("reshape", "x", "a", FLAT), ("reshape", "a", "y", {"shape": (3, 2)})],
     "reshape(x) {shape=(3,2)}"),
    ([("transpose", "x", "a", {"perm": (2, 0, 1)}), ("transpose", "a", "y", {"perm": (2, 0, 1)})],
     "transpose(x) {perm=(1,2,0)}"),
    ([("expand", "x", "a", {"shape": (2, 4, 3)}), ("expand", "a", "y", {"shape": (5, 2, 4, 3)})],
     "expand(x) {shape=(5,2,4,3)}"),
    ([("neg", "x", "a"), ("abs", "a", "y")], "abs(x)"),
    ([("abs", "x", "a"), ("abs", "a", "y")], "abs(x)"),
    ([("floor", "x", "a"), ("floor", "a", "b"), ("floor", "b", "y")], "floor(x)"),
    ([("relu", "x", "a"), ("relu", "a", "y")], "relu(x)"),
    ([("relu", "x", "a"), ("clip", "a", "y", {"lo": -1.0, "hi": 6.0})],
     "clip(x) {hi=6.0, lo=0.0}"),
    ([("clip", "x", "a", {"lo": 0.0, "hi": 6.0}), ("relu", "a", "y")],
     "clip(x) {hi=6.0, lo=0.0}"),
    ([("clip", "x", "a", {"lo": 5.0, "hi": 3.0}), ("clip", "a", "y", {"lo": 0.0, "hi": 4.0})],
     "clip(x) {hi=3.0, lo=4.0}"),
    ([("maximum", "x zero", "a"), ("minimum", "a six", "y")], "clip(x) {hi=6.0, lo=0.0}"),
    ([("minimum", "six x", "a"), ("maximum", "a one", "y")], "clip(x) {hi=6.0, lo=1.0}"),
    ([("maximum", "x zero", "a"), ("maximum", "a less", "y")], "maximum(x, zero)"),
    ([("maximum", "x less", "a"), ("relu", "a", "y")], "relu(x)"),
    ([("maximum", "x many", "a"), ("maximum", "a many", "y")], "maximum(x, many)"),
    ([("cast", "x", "a", {"to": "float64"}), ("cast", "a", "y", {"to": "float16"})],
     "cast(x) {to='float16'}"),
    ([("cast", "x", "a", {"to": "float64"}), ("cast", "a", "y", {"to": "bool"})],
     "cast(x) {to='bool'}"),
    ([("abs", "x", "a"), ("add", "a zero", "y")], "abs(x)"),
    ([("exp", "x", "a"), ("add", "zero a", "y")], "exp(x)"),
])
def test_detours_go(nodes, wanted: str) -> None:
    constants = {"zero": 0, "one": 1, "six": 6, "less": -2,
                 "many": np.array([-3, 0, 2], np.float32)}
    assert cleaned_texts(*nodes, **constants) == [wanted]


@pytest.mark.parametrize(("dtypes", "kept"), [
    (("int8", "int32", "int8"), []), (("uint8", "float16", "uint8"), []),
    (("bool", "bfloat16", "bool"), []), (("int8", "int32", "uint8"), ["uint8"]),
    (("int8", "int64", "float32"), ["float32"]), (("uint8", "float32", "int16"), ["int16"]),
    (("float16", "float32", "float64"), ["float64"]), (("bfloat16", "float32", "bool"), ["bool"]),
    (("int32", "int8", "int32"), ["int8", "int32"]),
    (("int32", "float32", "int32"), ["float32", "int32"]),
    (("int16", "float16", "int16"), ["float16", "int16"]),
    (("bfloat16", "float16", "bfloat16"), ["float16", "bfloat16"]),
    (("int16", "float32", "int8"), ["float32", "int8"]),
    (("uint8", "int8", "int32"), ["int8", "int32"])])
def test_casts(dtypes: tuple[str, ...], kept: list[str]) -> None:
    source, *targets = dtypes
    graph = graph_of(*[("cast", value, made, {"to": to}) for value, made, to in
                       zip(["x", "a"], ["a", "b"], targets, strict=True)],
                     ("reshape", "b", "y", FLAT), dtype=source)
    cleaned = CleanUp()(graph)
    assert [node.attrs["to"] for node in cleaned.nodes if node.op == "cast"] == kept
    if kept != ["float32", "int32"] and kept != ["float32", "int8"]:    # out of range
        assert_same(graph, cleaned)


def test_stored_integers_there_and_back() -> None:
    assert cleaned_texts(("to_int8", "x", "a"), ("to_uint8", "a", "b"), ("reshape", "b", "y", FLAT),
                         dtype="uint8") == ["reshape(x) {shape=(6)}"]
    same = {"bias": -3, "mult": 1 << 15, "shift": 15, "zp": 3, "lo": -128, "hi": 127}
    assert cleaned_texts(("qrescale", "x", "a", same), ("reshape", "a", "y", FLAT),
                         dtype="int8") == ["reshape(x) {shape=(6)}"]
    for other in ({"bias": -2}, {"mult": 32769}, {"lo": 3}):
        assert len(cleaned_texts(("qrescale", "x", "a", same | other),
                                 ("reshape", "a", "y", FLAT), dtype="int8")) == 2


def test_a_dequantized_zero_has_no_sign() -> None:
    nodes = [("dequantizelinear", "x s z", "d", {"axis": 0}), ("add", "d zero", "y")]
    assert len(cleaned_texts(*nodes, dtype="int8", s=np.array(0.5, np.float32), z=3,
                             zero=np.array(0, np.float32))) == 1


def test_a_detour_that_others_read_stays() -> None:
    nodes = [("reshape", "x", "a", FLAT), ("reshape", "a", "b", {"shape": (3, 2)}),
             ("tanh", "a", "y"), ("tanh", "b", "z")]
    assert cleaned_texts(*nodes, outputs=("y", "z"))[:2] == [
        "reshape(x) {shape=(6)}", "reshape(a) {shape=(3,2)}"]


def test_what_is_undone_goes_though_others_read_it() -> None:
    nodes = [("neg", "x", "a"), ("neg", "a", "b"), ("tanh", "a", "y"), ("tanh", "b", "z")]
    assert cleaned_texts(*nodes, outputs=("y", "z")) == ["neg(x)", "tanh(a)", "tanh(x)"]


# Names


def test_an_output_keeps_its_name() -> None:
    graph = graph_of(("relu", "x", "a"), ("identity", "a", "b"), ("add", "a b", "c"),
                     ("mul", "b one", "y"), ("add", "y c", "w"), outputs=("y", "w"), one=1)
    cleaned = CleanUp()(graph)
    assert_same(graph, cleaned)
    assert [(node.name, *node.inputs, *node.outputs) for node in cleaned.nodes] == [
        ("a", "x", "y"), ("c", "y", "y", "c"), ("w", "y", "c", "w")]


@pytest.mark.parametrize("source", ["x", "k"])
def test_an_input_or_constant_that_is_an_output_gets_an_identity(source: str) -> None:
    graph = graph_of(("reshape", source, "y", {"shape": SHAPE}), k=np.ones(SHAPE, np.float32))
    cleaned = CleanUp()(graph)
    assert_same(graph, cleaned)
    assert texts(cleaned) == [f"identity({source})"]


def test_two_outputs_of_one_value() -> None:
    nodes = [("tanh", "x", "a"), ("identity", "a", "y"), ("mul", "a one", "w")]
    assert cleaned_texts(*nodes, outputs=("y", "w"), one=1) == ["tanh(x)", "identity(y)"]


def test_an_output_on_the_way_stays() -> None:
    nodes = [("reshape", "x", "w", FLAT), ("reshape", "w", "y", {"shape": (3, 2)})]
    assert cleaned_texts(*nodes, outputs=("w", "y")) == [
        "reshape(x) {shape=(6)}", "reshape(w) {shape=(3,2)}"]


def test_a_graph_without_detours_is_returned() -> None:
    graph = graph_of(("tanh", "x", "a"), ("neg", "a", "y"))
    assert CleanUp()(graph) is graph


# What front ends leave


def test_an_lstm_of_onnx(tmp_path) -> None:
    """One step in two directions: it stacks single values, and reshapes the stack twice."""
    kinds = [("x", (1, 2, 4)), ("w", (2, 20, 4)), ("r", (2, 20, 5)), ("y", (1, 2, 2, 5))]
    *inputs, output = (helper.make_tensor_value_info(name, 1, shape) for name, shape in kinds)
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=5,
                            direction="bidirectional")
    graph = convert(helper.make_model(helper.make_graph([node], "lstm", inputs, [output])))
    cleaned = CleanUp()(graph)
    before, after = (Counter(node.op for node in one.nodes) for one in (graph, cleaned))
    assert before - after >= Counter(concat=2, reshape=3)
    optimize(graph, standard_passes(integerize=False), dump_into(tmp_path))
    assert texts(cleaned)[-1] in (tmp_path / "04-clean-up.txt").read_text()


# Random chains

TYPES = ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int32", "int64", "bool")


def random_chain(seed: int) -> Graph:
    """Operators that rules look at, one after the other, some reading what was made before."""
    rng = np.random.default_rng(seed)
    builder = Builder("chain")
    values = [builder.add_input("x", TensorType((2, 1, 3), TYPES[seed % len(TYPES)]))]
    while len(builder.nodes) < 14:
        value = values[-1] if rng.random() < 0.8 else str(rng.choice(values))
        op, others, attrs = random_node(builder, rng, value)
        inputs = [value, *others] if rng.random() < 0.7 else [*others, value]
        try:
            values.append(builder.emit(op, f"n{len(values)}", inputs, f"v{len(values)}", **attrs))
        except TypeRefused:
            continue
    outputs = {values[-1], *rng.choice(values[1:], 2).tolist()}
    return verify(builder.finish(sorted(outputs)))


def random_node(builder: Builder, rng: np.random.Generator, value: str
                ) -> tuple[str, list[str], dict]:
    kind = builder.values[value]
    shape, rank, dtype = kind.shape, len(kind.shape), numpy_type(kind.dtype)
    number = rng.choice([0, 1, -1, 2])
    name = builder.fresh("k")
    match rng.integers(10):
        case 0:
            shapes = [(6,), (2, 3), (2, 1, 3), (1, 6), (3, 2), (1, 2, 1, 3)]
            fitting = [one for one in shapes if np.prod(one) == np.prod(shape)] or [shape]
            return "reshape", [], {"shape": fitting[rng.integers(len(fitting))]}
        case 1:
            return "transpose", [], {"perm": tuple(rng.permutation(rank).tolist())}
        case 2:
            to = kind.dtype if rng.random() < 0.2 else str(rng.choice(TYPES))
            if to not in ("bool", kind.dtype) and np.dtype(numpy_type(to)).kind in "iu" and \
                    dtype.kind not in "iub":
                to = "float64"                      # what is out of range is not defined
            return "cast", [], {"to": to}
        case 3:
            return str(rng.choice(["neg", "abs", "not", "floor", "rint", "sign", "relu",
                                   "identity"])), [], {}
        case 4:
            lo, hi = rng.choice([-inf, -1.0, 0.0, -0.0, 2.0, inf], 2)
            return "clip", [], {"lo": float(lo), "hi": float(hi)}
        case 5:
            return "reverse", [], {"axes": tuple(np.flatnonzero(rng.random(rank) < 0.5).tolist())}
        case 6:
            crop = tuple(rng.integers(0, 2, rank).tolist()) if rng.random() < 0.3 else (0,) * rank
            return "pad", [], {"before": crop, "after": (0,) * rank, "mode": "edge"}
        case 7:
            wide = shape if rng.random() < 0.5 else (1, *shape)
            return "expand", [], {"shape": wide}
    with np.errstate(over="ignore"):
        array = np.full(rng.choice([1, shape[-1]]) if rng.random() < 0.5 else (),
                        -0.0 if number == 0 and rng.random() < 0.5 and dtype.kind not in "iub"
                        else number).astype(dtype)
    ops = ["add", "sub", "mul", "div", "pow", "minimum", "maximum", "and", "or", "xor", "shl"]
    return str(rng.choice(ops)), [builder.add_constant(name, array)], {}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(9))
def test_random_chains(seed: int) -> None:
    gone = 0
    for number in range(40):
        graph = random_chain(9 * number + seed)
        cleaned = CleanUp()(graph)
        with np.errstate(all="ignore"):
            assert_same(graph, cleaned, runs=2)
        gone += len(graph.nodes) - len(cleaned.nodes)
    assert gone > 100
