"""QuantizeLinear and DequantizeLinear of com.microsoft, and constants in blocks."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from compiler.frontend import convert
from tests.support.spellings import MICROSOFT, model_of, values_of

TYPES = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16,
         "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}


@pytest.mark.parametrize("axis", [None, 0, 2])
@pytest.mark.parametrize("name", TYPES)
def test_microsofts_own(name: str, axis: int | None) -> None:
    """Below opset 21, where ONNX has neither 16 nor 4 bits."""
    rng = np.random.default_rng([len(name), axis or 7])
    info, x = ml_dtypes.iinfo(TYPES[name]), rng.normal(size=(3, 2, 4)).astype(np.float32)
    shape = () if axis is None else x.shape[axis:axis + 1]
    scale = rng.uniform(2, 4, shape).astype(np.float32) / int(info.max)
    zero = rng.integers(int(info.min) // 2, int(info.max) // 2 + 1, shape).astype(TYPES[name])
    told: dict[str, Any] = {} if axis is None else {"axis": axis}
    nodes = [helper.make_node(f"{op}Linear", [value, "s", "z"], [result], domain=MICROSOFT, **told)
             for op, value, result in (("Quantize", "x", "q"), ("Dequantize", "q", "y"))]
    model = model_of(nodes, {"x": x}, {"s": scale, "z": zero})
    along = [extent if place == axis else 1 for place, extent in enumerate(x.shape)]
    s, z = (array.astype(np.float32).reshape(along if axis is not None else ())
            for array in (scale, zero))
    steps = np.clip(np.rint(x / s) + z, int(info.min), int(info.max))
    np.testing.assert_array_equal(values_of(model, {"x": x})["y"], (steps - z) * s)


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "float16", "bfloat16"])
@pytest.mark.parametrize("domain, prefix", [("com.amd.quark", "Extended"),
                                            ("com.vai.quantize", "Vitis")])
def test_amds(domain: str, prefix: str, dtype: str, axis: int | None) -> None:
    """More types, and numbers beyond what they hold."""
    rng, kind = np.random.default_rng(len(dtype)), np.dtype(dtype)
    whole = kind.kind in "iu"
    x = (rng.normal(size=(4, 3)) * 2.0 ** (min(8 * kind.itemsize, 31) if whole else 3)
         ).astype(np.float32)
    scale = np.array([0.5, 1, 0.25] if axis else 0.5, np.float32)
    zero = np.full(scale.shape, 3 if whole and kind.itemsize < 4 else 0).astype(dtype)
    nodes = [helper.make_node(f"{prefix}{op}Linear", [value, "s", "z"], [result], domain=domain,
                              axis=axis or 0)
             for op, value, result in (("Quantize", "x", "q"), ("Dequantize", "q", "y"))]
    model = model_of(nodes, {"x": x}, {"s": scale, "z": zero})
    steps = np.float64(x / scale)
    if whole:
        info = np.iinfo(dtype)
        steps = np.clip(np.rint(steps) + np.float64(zero), info.min, info.max) - np.float64(zero)
    else:
        steps = (x / scale).astype(dtype).astype(np.float64)
    np.testing.assert_allclose(values_of(model, {"x": x})["y"], steps * scale, rtol=2e-7)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("exact", [True, False])
def test_constants_in_blocks(axis: int, exact: bool) -> None:
    """int8 of one scale for each channel, where its blocks' scales are multiples of the least."""
    rng = np.random.default_rng(3)
    steps = rng.integers(-8, 8, (8, 6) if axis == 0 else (6, 8)).astype(ml_dtypes.int4)
    blocks = tuple(2 if place == axis else extent for place, extent in enumerate(steps.shape))
    scale = (rng.integers(1, 8, blocks) * 0.25 if exact else
             rng.uniform(0.1, 1, blocks)).astype(np.float32)
    if exact:
        scale.swapaxes(0, axis)[0] = 0.25
    zero = rng.integers(-3, 4, blocks).astype(ml_dtypes.int4)
    node = helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=axis, block_size=4)
    x = rng.normal(size=(2, steps.shape[0])).astype(np.float32)
    model = model_of([node, helper.make_node("MatMul", ["x", "d"], ["y"])], {"x": x},
                     {"w": steps, "s": scale, "z": zero}, opset=23)
    weight = (steps.astype(int) - np.repeat(zero.astype(int), 4, axis)) * np.repeat(scale, 4, axis)
    np.testing.assert_allclose(values_of(model, {"x": x})["y"], x @ weight, rtol=1e-5, atol=1e-5)
    graph = convert(model)
    assert [node.op for node in graph.nodes].count("dequantizelinear") == exact
    assert any(array.dtype == np.int8 and array.shape == steps.shape
               for array in graph.constants.values()) is exact
