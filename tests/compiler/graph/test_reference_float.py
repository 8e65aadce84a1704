"""Float operators against ONNX Runtime without graph optimizations, on random data."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes


def agrees(onnx_values, model, feeds, exactly: bool = False) -> None:
    graph = optimize(convert(model), standard_passes(integerize=False))
    ours, theirs = evaluate(graph, feeds), onnx_values(model, feeds)
    assert list(ours) == list(theirs)
    for name, array in theirs.items():
        assert (ours[name].shape, ours[name].dtype) == (array.shape, array.dtype)
        if exactly:
            np.testing.assert_array_equal(ours[name], array)
        else:
            np.testing.assert_allclose(ours[name], array, rtol=2e-5, atol=2e-5)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


WINDOWS = [
    {"pads": [1, 0, 1, 1], "strides": [2, 1]},
    {"strides": [1, 2]},
    {"auto_pad": "VALID"},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
    {"auto_pad": "SAME_LOWER"},
]


@pytest.mark.parametrize("kernel", [(3, 2), (1, 1), (2, 5)])
@pytest.mark.parametrize("attrs", WINDOWS, ids=str)
def test_conv(qdq, onnx_values, rng, kernel, attrs) -> None:
    one = qdq()
    w, b = one.constant(normal(rng, 4, 3, *kernel)), one.constant(normal(rng, 4))
    y = one.add("Conv", one.input("x", 2, 3, 7, 8), w, b, **attrs)
    plain = one.add("Conv", "x", w, kernel_shape=kernel, **attrs)
    agrees(onnx_values, one.model(y, plain), {"x": normal(rng, 2, 3, 7, 8)})


@pytest.mark.parametrize("attrs", WINDOWS, ids=str)
def test_maxpool(qdq, onnx_values, rng, attrs) -> None:
    one = qdq()
    y = one.add("MaxPool", one.input("x", 2, 3, 7, 8), kernel_shape=[3, 2], **attrs)
    agrees(onnx_values, one.model(y), {"x": normal(rng, 2, 3, 7, 8)}, exactly=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_maxpool_of_integers(qdq, onnx_values, rng, dtype) -> None:
    one = qdq()
    y = one.add("MaxPool", one.input("x", 1, 2, 5, 5, dtype=dtype), kernel_shape=[3, 3],
                pads=[1, 1, 1, 1], strides=[2, 2])
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max + 1, (1, 2, 5, 5)).astype(dtype)
    agrees(onnx_values, one.model(y, dtypes={y: dtype}), {"x": x}, exactly=True)


@pytest.mark.parametrize("bias", [(), (5,), (1, 5), (1,), (4, 1)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(qdq, onnx_values, rng, bias, transposed) -> None:
    one = qdq()
    w = normal(rng, 5, 3) if transposed else normal(rng, 3, 5)
    y = one.add("Gemm", one.input("x", 4, 3), one.constant(w), one.constant(normal(rng, *bias)),
                transB=transposed)
    plain = one.add("Gemm", "x", one.constant(w), transB=transposed)
    agrees(onnx_values, one.model(y, plain), {"x": normal(rng, 4, 3)})


def test_matmul_add_relu(qdq, onnx_values, rng) -> None:
    one = qdq()
    product = one.add("MatMul", one.input("x", 2, 4, 3), one.constant(normal(rng, 3, 6)))
    y = one.add("Relu", one.add("Add", product, one.constant(normal(rng, 4, 1))))
    agrees(onnx_values, one.model(y), {"x": normal(rng, 2, 4, 3)})


def test_pool_flatten_reshape_identity(qdq, onnx_values, rng) -> None:
    one = qdq()
    x = one.input("x", 2, 6, 3, 5)
    flat = one.add("Flatten", one.add("GlobalAveragePool", x))
    back = one.add("Flatten", one.add("Identity", x), axis=-3)
    shape = one.add("Constant", value_ints=[0, -1, 9])
    y = one.add("Reshape", x, shape)
    whole = one.add("Flatten", x, axis=0)
    agrees(onnx_values, one.model(flat, back, y, whole), {"x": normal(rng, 2, 6, 3, 5)})


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantize_and_dequantize(qdq, onnx_values, opset, dtype) -> None:
    """Every step and every tie between two steps, beyond both ends of the range."""
    one = qdq(opset=opset)
    q = one.quantize(one.input("x", 1201), 0.25, 7, dtype)
    y = one.dequantize(q, 0.25, 7, dtype)
    x = (np.arange(-600, 601) / 8).astype(np.float32)
    agrees(onnx_values, one.model(q, y, dtypes={q: dtype}), {"x": x}, exactly=True)


def test_quantize_each_channel(qdq, onnx_values, rng) -> None:
    one = qdq()
    scale, zero = np.array([0.1, 0.02, 0.5], np.float32), np.array([0, 5, -9], np.int8)
    parameters = [one.constant(scale), one.constant(zero)]
    q = one.add("QuantizeLinear", one.input("x", 2, 3, 4), *parameters)
    y = one.add("DequantizeLinear", q, *parameters, axis=-2)
    feeds = {"x": 5 * normal(rng, 2, 3, 4)}
    agrees(onnx_values, one.model(q, y, dtypes={q: "int8"}), feeds, exactly=True)


def test_scales_of_one_element_and_absent_zero_points(qdq, onnx_values, rng) -> None:
    one = qdq()
    scale = one.constant(np.array([0.03], np.float32))
    q = one.add("QuantizeLinear", one.input("x", 4, 5), one.constant(np.float32(0.03)))
    y = one.add("DequantizeLinear", q, one.constant(np.float32(0.03)))
    bias = one.constant(np.array([[1], [2], [3]], np.int32))
    w = one.add("DequantizeLinear", bias, scale, axis=1)
    feeds = {"x": normal(rng, 4, 5)}
    agrees(onnx_values, one.model(q, y, w, dtypes={q: "uint8"}), feeds, exactly=True)
