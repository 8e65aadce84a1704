"""Graphs as ONNX models: ONNX Runtime gives what the reference gives, and names stay."""

import numpy as np
import onnx
import onnxruntime
import pytest

from compiler.errors import Error
from compiler.frontend.onnx.exporting import RULES, Variant, exported_model
from compiler.frontend.onnx.importing import ImportRefused, convert
from compiler.graph.graph import TensorType
from compiler.graph.reference import evaluate
from compiler.graph.rewrite import Builder

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 4, 6, 6), np.float32)
W = RNG.standard_normal((4, 4, 3, 3), np.float32)
M = RNG.standard_normal((6, 4), np.float32)
WINDOW = {"kernel": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
REDUCED = {"axes": (1, 3), "keepdims": 1}

CASES = {
    "conv2d": ((X, W, W[:, 0, 0, 0]), {"strides": (2, 1), "pads": (1, 0, 1, 2)}),
    "conv": ((X[:, :, 0], W[:, :, 0]), {"strides": (2,), "pads": (1, 0), "dilations": (2,),
                                        "group": 1}),
    "convtranspose2d": ((X, W), {"strides": (2, 2), "pads": (1, 1, 0, 0),
                                 "output_padding": (1, 0)}),
    "dense": ((X[0, 0], M.T, M[0]), {"trans_b": 1}), "matmul": ((X, M), {}),
    "einsum": ((X, M), {"equation": "abcd,de->aecb"}), "relu": ((X,), {}),
    "leakyrelu": ((X,), {"alpha": 0.2}), "clip": ((X,), {"lo": -0.5, "hi": float("inf")}),
    "maxpool": ((X,), WINDOW), "avgpool": ((X,), WINDOW | {"include_pad": 0}),
    "globalavgpool": ((X,), {}), "pool_sum": ((X,), WINDOW | {"dilations": (1, 1)}),
    "pool_max": ((X,), WINDOW | {"dilations": (2, 1)}),
    "concat": ((X, X), {"axis": 2}), "reshape": ((X,), {"shape": (8, 36)}),
    "expand": ((X[:, :1],), {"shape": (2, 4, 6, 6)}), "transpose": ((X,), {"perm": (0, 2, 3, 1)}),
    "slice": ((X,), {"begin": (0, 1, 0, 0), "end": (2, 3, 6, 5), "step": (1, 1, 1, 2)}),
    "reverse": ((X,), {"axes": (1, 3)}), "upsample": ((X,), {"factors": (2, 3)}),
    "pad": ((X, np.float32(3)), {"mode": "constant", "before": (0, 1, 0, 2),
                                 "after": (0, 0, 0, 1)}),
    "gather": ((X, np.array([[2, -1]])), {"axis": 1}),
    "gather_elements": ((M, np.array([[1, 0], [2, 2]])), {"axis": 0}),
    "gather_nd": ((M, np.array([[1, 0], [5, 2]])), {"batch_dims": 0}),
    "put_place": ((X, X[:, :, 2:3] * 2, np.array([3])), {"axis": 2}),
    "last_places": ((np.array([[[1, -1], [1, 9], [-4, 0]]]),), {"extent": 4}),
    "scatter_reduced": ((M[None, :, :2], np.array([[[1], [-1], [1], [7]]]), M[None, :4, :2] * 2),
                        {"reduction": "max"}),
    "resample": ((X, np.array([[0, 1], [2, 3]]), np.array([[0.5, 0.5], [1, 0]], np.float32)),
                 {"axis": 2}),
    "reduce_sum": ((X,), REDUCED), "reduce_max": ((X,), REDUCED), "reduce_min": ((X,), REDUCED),
    "reduce_prod": ((X,), {"axes": (), "keepdims": 0}), "mean": ((X,), REDUCED),
    "argmax": ((X,), {"axis": 1, "keepdims": 0, "last": 0}),
    "argmin": ((X,), {"axis": 1, "keepdims": 1, "last": 1}),
    "sorted_places": ((X,), {"axis": 3, "count": 2, "largest": 1}),
    "cumsum": ((X,), {"axis": 1, "exclusive": 1, "reverse": 0}),
    "where": ((X > 0, X, X * 2), {}), "cast": ((X,), {"to": "int32"}),
    "quantizelinear": ((X, W[:, 0, 0, 0] ** 2 + 0.1, np.arange(4, dtype=np.uint8)), {"axis": 1}),
    "dequantizelinear": ((np.arange(-4, 4, dtype=np.int8), np.float32(0.3), np.int8(2)),
                         {"axis": 0}),
    "quantized_map": ((np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8)[::-1].copy()),
                      {"function": "clamp(rshift_rne(x0 * x1, 7) - (x1 >> 2), -128, 127)"}),
    "quantized_terms": ((np.arange(63, dtype=np.uint8).reshape(9, 7) * 4,
                         np.arange(21, dtype=np.uint8).reshape(3, 7) * 12),
                        {"term": "abs(x0 - x1)", "bias": 0, "mult": 40000, "shift": 21,
                         "zp": 0, "lo": -128, "hi": 127}),
    "pool_place": ((X,), WINDOW | {"dilations": (1, 1)}),
    "shl": ((np.arange(5, dtype=np.uint8), np.full(5, 3, np.uint8)), {}),
    "shr": ((np.arange(50, dtype=np.uint32), np.full(50, 3, np.uint32)), {}),
    "and": ((X > 0, X < 1), {}), "not": ((X > 0,), {}),
    "xor": ((np.arange(4), np.arange(4) * 3), {}),
    "fmod": ((X, X + 3), {}), "mod": ((np.arange(-4, 4), np.full(8, 3)), {}),
    "pow": ((np.abs(X), X), {}), "minimum": ((X, X[:1] + 1), {}), "rint": ((X * 3,), {}),
    "less": ((X, X[:1]), {}), "erf": ((X,), {}), "is_nan": ((X,), {}), "identity": ((X,), {}),
    **{op: ((X, X[:1] + 4), {}) for op in ("add", "sub", "mul", "div")},
}


def graph_of(op, arrays, attrs):
    builder = Builder("case")
    names = [builder.add_input(f"x{place}", TensorType.of(np.asarray(array)))
             for place, array in enumerate(arrays)]
    return builder.finish([builder.emit(op, "layer", names, "y", **attrs)])


@pytest.mark.parametrize("op", CASES)
def test_onnx_runtime_gives_what_the_reference_gives(op):
    arrays, attrs = CASES[op]
    graph = graph_of(op, arrays, attrs)
    model = exported_model(graph)
    onnx.checker.check_model(model)
    inputs = dict(zip(graph.inputs, map(np.asarray, arrays), strict=True))
    wanted = evaluate(graph, inputs)["y"]
    for made in (run(model, inputs), evaluate(convert(model), inputs)["y"]):
        assert made.dtype == wanted.dtype
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)


def run(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, inputs)[0])


def test_running_products_are_of_a_newer_opset():
    """ONNX Runtime has none yet."""
    graph = graph_of("cumprod", (X,), {"axis": 1, "exclusive": 0, "reverse": 1})
    model = exported_model(graph)
    onnx.checker.check_model(model, full_check=True)
    np.testing.assert_array_equal(evaluate(convert(model), {"x0": X})["y"],
                                  evaluate(graph, {"x0": X})["y"])


def flattened(batch: int, side: int):
    """What depends on open extents in every way that a model can leave to ONNX."""
    builder = Builder("open")
    x = builder.add_input("x", TensorType((batch, 2, side), "float32"))
    shapes = {"whole": (batch * side, 2), "flat": (batch, 2 * side)}
    whole, flat = (builder.emit("reshape", name, [x], f"{name}.out", shape=shape)
                  for name, shape in shapes.items())
    tail = builder.emit("slice", "tail", [flat], "tail.out", begin=(0, 3), end=(batch, 2 * side),
                        step=(1, 1))
    most = builder.emit("reduce_max", "most", [flat], "most.out", axes=(1,), keepdims=1)
    wide = builder.emit("expand", "wide", [most], "wide.out", shape=(2, batch, 4))
    least = builder.emit("reduce_min", "least", [whole], "least.out", axes=(0, 1), keepdims=0)
    total = builder.emit("reduce_sum", "sum", [tail], "sum.out", axes=(1,), keepdims=1)
    both = builder.emit("add", "both", [wide, total], "both.out")
    return builder.finish([builder.emit("add", "y", [both, least], "y")])


def test_extents_may_be_open():
    variant = Variant(flattened(4, 7), {(3, 4): "batch", (5, 7): "side"})
    model = exported_model(flattened(3, 5), [variant])
    onnx.checker.check_model(model, full_check=True)
    dims = [[dim.dim_param or dim.dim_value for dim in one.type.tensor_type.shape.dim]
            for one in (*model.graph.input, *model.graph.output)]
    assert dims == [["batch", 2, "side"], [2, "batch", 4]]
    for batch, side in ((3, 5), (1, 9)):
        x = RNG.standard_normal((batch, 2, side), np.float32)
        wanted = evaluate(flattened(batch, side), {"x": x})["y"]
        again = convert(model, shapes={"batch": batch, "side": side})
        for made in (run(model, {"x": x}), evaluate(again, {"x": x})["y"]):
            np.testing.assert_allclose(made, wanted, rtol=1e-5)


def grown(extent: int, op: str):
    """What depends on an open extent in a way that a model cannot say."""
    builder = Builder("fixed")
    x = builder.add_input("x", TensorType((extent, 4), "float32"))
    match op:
        case "constant":
            k = builder.add_constant("k", np.full(1, extent, np.float32))
            y = builder.emit("mul", "y", [x, k], "y")
        case "expand":
            one = builder.emit("reduce_max", "one", [x], "one.out", axes=(0, 1), keepdims=1)
            y = builder.emit("expand", "y", [one], "y", shape=(extent, 4))
        case "reshape":
            y = builder.emit("reshape", "y", [x], "y", shape=(1, 2 * extent, 2))
            y = builder.emit("reshape", "z", [y], "z", shape=(1, extent, 1, extent, 4 // extent))
        case "slice":
            y = builder.emit("slice", "y", [x], "y", begin=(extent - 1, 0), end=(extent, 4),
                             step=(1, 1))
        case "node":
            y = builder.emit("relu" if extent == 2 else "abs", "y", [x], "y")
        case _:
            zero = builder.add_constant("k", np.array(0, np.float32))
            y = builder.emit("pad", "y", [x, zero], "y",
                             before=(0, extent), after=(0, 0), mode="constant")
    return builder.finish([y])


@pytest.mark.parametrize("op", ["constant", "expand", "reshape", "slice", "node", "pad"])
def test_extents_stay_where_a_model_cannot_leave_them_open(op):
    graph = grown(2, op)
    model = exported_model(graph, [Variant(grown(4, op), {(2, 4): "n"})])
    assert model == exported_model(graph)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


def test_a_bias_of_terms_is_refused():
    arrays, attrs = CASES["quantized_terms"]
    with pytest.raises(Error, match="the bias of quantized_terms must be 0 in ONNX, not 9"):
        exported_model(graph_of("quantized_terms", arrays, attrs | {"bias": 9}))


def test_every_rule_has_a_case_or_is_a_plain_function():
    """Conversions of floats of few bits, whose codes are no ONNX tensors alone, are in
    `tests/compiler/quantize/test_in_floats.py`."""
    plain = set("abs neg sign exp log sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
                "atanh floor ceil or equal less_equal maximum".split())
    elsewhere = {"cumprod", "encodefloat", "decodefloat"}
    assert set(RULES) - plain - elsewhere == set(CASES)


def test_names_stay_and_constants_are_initializers():
    builder = Builder("net")
    builder.add_input("x", TensorType((2, 3), "float32"))
    builder.add_constant("fc.weight", np.ones((4, 3), np.float32))
    graph = builder.finish([builder.emit("dense", "fc", ["x", "fc.weight"], "y", trans_b=1)])
    model = exported_model(graph)
    assert [(node.name, list(node.output)) for node in model.graph.node] == [("fc", ["y"])]
    assert str(convert(model, "net")) == str(graph)


def test_every_operator_without_a_form_is_told():
    builder = Builder("net")
    x = builder.add_input("x", TensorType((1, 1, 4, 4), "float32"))
    x = builder.emit("quantize", "first", [x], "q", scale=1.0, zp=0)
    x = builder.emit("dequantize", "second", [x], "y", scale=1.0, zp=0)
    with pytest.raises(ImportRefused, match=(
            r"^net: cannot be written as ONNX: first \(quantize\): ONNX has no such operator; "
            r"second \(dequantize\): ONNX has no such operator; replace these in the network$")):
        exported_model(builder.finish([x]))
