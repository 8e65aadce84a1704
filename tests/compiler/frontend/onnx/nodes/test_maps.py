"""Maps between quantizations as functions of ONNX models: ONNX Runtime computes what they mean."""

import random
import re

import numpy as np
import onnx
import pytest

from compiler.frontend import ImportRefused, convert
from compiler.frontend.onnx.exporting import exported_model
from compiler.graph import evaluate
from compiler.graph.graph import TensorType
from compiler.graph.rewrite import Builder
from compiler.ops.integers.integer_text import range_of
from tests.compiler.ops.integers.test_integer_text import random_text
from tests.support.onnx_runtime import run_onnx

LEFT, RIGHT = (grid.reshape(-1) for grid in np.meshgrid(np.arange(256), np.arange(0, 256, 7)))


def mapped(dtype: str, *texts: str):
    builder = Builder("maps")
    inputs = [builder.add_input(name, TensorType(LEFT.shape, dtype)) for name in ("a", "b")]
    return builder.finish([builder.emit("quantized_map", f"y{place}", inputs, f"y{place}",
                                        function=text) for place, text in enumerate(texts)])


def assert_the_same(dtype: str, *texts: str) -> onnx.ModelProto:
    graph = mapped(dtype, *texts)
    model = exported_model(graph)
    onnx.checker.check_model(model, full_check=True)
    given = {"a": LEFT.astype(dtype), "b": RIGHT.astype(dtype)}
    wanted, found = evaluate(graph, given), run_onnx(model, given)
    assert list(wanted) == list(found)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, texts[int(name[1:])])
    assert [(node.op, node.attrs) for node in convert(model).nodes] == [
        (node.op, node.attrs) for node in graph.nodes]
    return model


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_all_that_texts_have(dtype: str) -> None:
    texts = []
    rng = random.Random(3)
    while len(texts) < 60:
        text = f"clamp(x0 - (x1 >> 9) + {random_text(rng, 3)}, -128, 127)".replace("x2", "x1")
        try:
            range_of(text, [(-128, 127)] * 2)
        except ValueError:
            continue
        texts.append(text)
    assert_the_same(dtype, *texts)


def test_wide_numbers() -> None:
    assert_the_same("int16", "clamp(int32(rshift_rne(int64(x0 - 77) * int64(x1) * 40000, 30)) "
                             "^ (x0 & 255), -32768, 32767)", "clamp(x0 * 99 - x1, -32768, 32767)")


def test_equal_maps_share_a_function() -> None:
    model = assert_the_same("uint8", "max(x0, x1)", "min(x0, x1)", "max(x0, x1)")
    assert [one.name for one in model.functions] == ["QuantizedMap_1", "QuantizedMap_2"]
    assert [node.op_type for node in model.graph.node] == [
        "QuantizedMap_1", "QuantizedMap_2", "QuantizedMap_1"]


def spoiled(change) -> onnx.ModelProto:
    model = exported_model(mapped("uint8", "max(x0, x1)"))
    change(model.graph.node[0])
    return model


def other(function):
    def change(node):
        del node.attribute[:]
        if function is not None:
            node.attribute.append(onnx.helper.make_attribute("function", function))
    return change


@pytest.mark.parametrize(("change", "reason"), [
    (other(None), "function must be given"), (other(3), "function must be a text, not 3"),
    (other("max(x0, x1"), "function must be an expression of integers: it is no expression, not "
                          "'max(x0, x1'"),
    (other("x0 + x1"), "function must give int8, not -256 to 254"),
    (other("max(x0, 3)"), "function must read x0, x1, not 'max(x0, 3)'"),
    (lambda node: node.input.__delitem__(slice(None)), "must have inputs, none of them "
                                                       "absent"),
    (lambda node: node.input.__setitem__(0, ""), "must have inputs, none of them absent")])
def test_spoiled_maps_are_refused(change, reason: str) -> None:
    with pytest.raises(ImportRefused, match=re.escape(f"y0 (lockstep.QuantizedMap_1): {reason}")):
        convert(spoiled(change))


def test_maps_of_floats_are_refused() -> None:
    model = exported_model(mapped("uint8", "max(x0, x1)"))
    for each in (*model.graph.input, *model.graph.output):
        each.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    with pytest.raises(ImportRefused, match="must be uint8 or .* or int16, not float32"):
        convert(model)
