"""Opsets 1 to 6: attributes that later ones lack."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend import ImportRefused, convert
from compiler.frontend.onnx.nodes import registry
from compiler.frontend.onnx.nodes.older import LAST, older
from compiler.graph import evaluate

X = np.random.default_rng(5).uniform(0.5, 2, (2, 3, 4, 5)).astype(np.float32)


def made(node: onnx.NodeProto, opset: int, x: np.ndarray = X, **constants: np.ndarray):
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return convert(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), "m")


def result(op: str, opset: int, x: np.ndarray = X, attrs: dict | None = None,
           **constants: np.ndarray) -> np.ndarray:
    node = helper.make_node(op, ["x", *constants], ["y"], "n", **(attrs or {}))
    return evaluate(made(node, opset, x, **constants), {"x": x})["y"]


def refusal(*arguments, **constants) -> str:
    with pytest.raises(ImportRefused) as refused:
        result(*arguments, **constants)
    return str(refused.value).removeprefix("m: cannot import n ").partition("; replace")[0]


def test_every_attribute_of_every_older_schema_is_known() -> None:
    unknown = set()
    for schema in onnx.defs.get_all_schemas_with_history():
        entry = registry.find(schema.domain, schema.name, schema.since_version)
        if entry is not None and schema.domain == "" and schema.since_version <= LAST:
            known = {*entry.attributes, *entry.inputs} | older(schema)
            unknown |= {(schema.name, schema.since_version, name)
                        for name in set(schema.attributes) - known}
    assert not unknown


LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
              "Pow": np.power, "Less": np.less, "Greater": np.greater}


@pytest.mark.parametrize(("axis", "shape"), [(None, (4, 5)), (1, (3, 4)), (1, (3,)), (-4, (2, 3)),
                                             (0, (1, 3)), (2, (4, 1)), (None, (1, 1)), (1, ())])
@pytest.mark.parametrize("op", [*ARITHMETIC, *LOGIC, "Equal"])
def test_broadcast_along_an_axis(op: str, axis: int | None, shape: tuple[int, ...]) -> None:
    b, x = X.reshape(-1)[:int(np.prod(shape))].reshape(shape), X
    if op in LOGIC:
        x, b = x > 1, b > 1
    elif op == "Equal":
        x, b = x.astype(np.int32), b.astype(np.int32)
    attrs = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    first = 4 - b.ndim if axis is None else axis % 4
    wide = b.reshape(()) if b.size == 1 else (
        b.reshape((1,) * first + shape + (1,) * (4 - first - b.ndim)))
    wanted = (LOGIC | ARITHMETIC | {"Equal": np.equal})[op](x, wide)
    np.testing.assert_allclose(result(op, 6, x, attrs, b=b), wanted, 1e-6)


def test_broadcasts_that_are_refused() -> None:
    b = np.ones((3,), np.float32)
    assert refusal("Add", 6, X, {}, b=b) == (
        "(Add): its inputs must have one shape where broadcast is 0, not (2, 3, 4, 5) and (3,)")
    for axis in (2, 4, -5):
        assert refusal("Add", 6, X, {"broadcast": 1, "axis": axis}, b=b).startswith(
            f"(Add): its second input must fit the first at axis {axis % -4 if axis < 0 else axis}"
        )
    assert refusal("Add", 7, X, {"broadcast": 1}, b=b) == (
        "(Add): attribute 'broadcast' is not supported")


def test_inference_is_told() -> None:
    assert np.array_equal(result("Dropout", 6, X, {"is_test": 1}), X)
    assert refusal("Dropout", 6, X, {"is_test": 0}) == (
        "(Dropout): is_test must be 1, not 0: networks are compiled for inference")
    mean, spread = (np.array(row, np.float32) for row in ((1, 2, 3), (4, 1, 2)))
    found = result("BatchNormalization", 6, X, {"is_test": 1}, s=spread, b=mean, m=mean, v=spread)
    side = (slice(None), None, None)
    wanted = (X - mean[side]) / np.sqrt(spread[side] + 1e-5) * spread[side] + mean[side]
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


def test_what_only_opset_1_writes_so() -> None:
    assert np.array_equal(result("Relu", 1, -X, {"consumed_inputs": [0]}), 0 * X)
    assert np.array_equal(result("Cast", 1, X, {"to": "INT32"}), X.astype(np.int32))
    assert np.array_equal(result("Concat", 1, X, {}, b=X), np.concatenate([X, X], 1))
    assert np.array_equal(result("Tile", 1, X, {}, t=np.array([2.0], np.float32),
                                 a=np.array([2.0], np.float32)), np.concatenate([X, X], 2))
    assert np.array_equal(result("Pad", 1, X, {"paddings": [0, 0, 1, 0, 0, 0, 0, 2]}),
                          np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 2))))
    grown = result("Upsample", 1, X, {"height_scale": 2.0, "width_scale": 1.0, "mode": "nearest"})
    assert np.array_equal(grown, X.repeat(2, 2))
    assert refusal("Cast", 1, X, {"to": "NUMBER"}) == (
        "(Cast): to must be the name of an element type, not 'NUMBER'")


def test_slopes_of_channels() -> None:
    slope = np.array([0.5, 2, 3], np.float32)
    assert np.array_equal(result("PRelu", 6, -X, {}, s=slope), -X * slope[:, None, None])
    assert np.array_equal(result("PRelu", 6, -X, {}, s=slope[:1]), -X * slope[0])
