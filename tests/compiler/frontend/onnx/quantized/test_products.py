"""Products of quantized tensors: sums of integers, and ONNX's formula in float64."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from compiler.frontend import ImportRefused, convert
from tests.support.onnx_runtime import run_onnx
from tests.support.spellings import (MICROSOFT, assert_steps, model_of, operators_of, saturated,
                                     values_of)

TYPES = [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")]


class Drawn:
    """A random activation x and weight w, the latter below 64 steps: ONNX Runtime saturates sums
    of pairs on processors with AVX2 and no VNNI. `channels` stand along the axis of the weight.
    """

    def __init__(self, types: tuple[str, str], x: tuple[int, ...], w: tuple[int, ...],
                 axis: int | None, symmetric: bool):
        rng = np.random.default_rng([*x, *w, symmetric])
        info, middle = np.iinfo(types[0]), 128 if types[1] == "uint8" else 0
        self.x = rng.integers(info.min, info.max + 1, x).astype(types[0])
        self.w = (rng.integers(-31, 32, w) + middle).astype(types[1])
        shape = () if axis is None else w[axis:axis + 1]
        self.x_scale = np.float32(rng.uniform(0.01, 0.03))
        self.w_scale = rng.uniform(0.005, 0.02, shape).astype(np.float32)
        self.y_scale = np.float32(0.15)
        self.x_zero = np.array((int(info.min) + int(info.max)) // 2 + 3, types[0])
        zeros = np.zeros(shape) if symmetric else rng.integers(-5, 6, shape)
        self.w_zero = np.asarray(zeros + middle).astype(types[1])
        self.y_zero = np.array((int(info.min) + int(info.max)) // 2 - 7, types[0])
        along = [extent if place == axis else 1 for place, extent in enumerate(w)]
        self.moved = (self.x.astype(np.int64) - int(self.x_zero),
                      self.w.astype(np.int64) - self.w_zero.astype(np.int64).reshape(
                          along if axis is not None else ()))
        self.constants = {"w": self.w, "xs": self.x_scale, "xz": self.x_zero, "ws": self.w_scale,
                          "wz": self.w_zero, "ys": self.y_scale, "yz": self.y_zero}

    def judge(self, node, sums: np.ndarray, along: list[int], form: str | None,
              runtime: bool = True) -> None:
        model = model_of(node, {"x": self.x}, self.constants)
        scale = float(self.x_scale) * self.w_scale.astype(float).reshape(
            along if self.w_scale.ndim else ())
        wanted = saturated(sums * scale / float(self.y_scale) + float(self.y_zero), self.x.dtype)
        for integers in (False, True):
            assert_steps(values_of(model, {"x": self.x}, integers)["y"], wanted)
        if runtime:
            assert_steps(run_onnx(model, {"x": self.x})["y"], wanted)
        if form:
            assert operators_of(model)[form] == 1


PRODUCT = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
CASES = pytest.mark.parametrize("types", TYPES, ids="-".join)
SYMMETRIC = pytest.mark.parametrize("symmetric", [True, False])


@CASES
@SYMMETRIC
@pytest.mark.parametrize("channels", [True, False])
def test_qlinear_conv(types, symmetric: bool, channels: bool) -> None:
    drawn = Drawn(types, (1, 4, 6, 7), (6, 2, 3, 3), 0 if channels else None, symmetric)
    bias = np.random.default_rng(5).integers(-900, 900, 6).astype(np.int32)
    drawn.constants["b"] = bias
    x, w = drawn.moved
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = np.zeros((1, 6, 6, 7), np.int64) + bias.reshape(1, 6, 1, 1)
    for group in range(2):
        own, kernels = wide[:, 2 * group:2 * group + 2], w[3 * group:3 * group + 3]
        for i in range(3):
            for j in range(3):
                sums[:, 3 * group:3 * group + 3] += np.einsum(
                    "nchw,oc->nohw", own[:, :, i:i + 6, j:j + 7], kernels[:, :, i, j])
    node = helper.make_node("QLinearConv", [*PRODUCT, "b"], ["y"], pads=[1] * 4, group=2)
    drawn.judge(node, sums, [1, 6, 1, 1], "qconv2d" if symmetric else None,
                runtime=types != ("int8", "uint8"))


def test_qlinear_conv_with_channels_last() -> None:
    drawn = Drawn(("uint8", "int8"), (1, 5, 4, 3), (6, 3, 1, 1), 0, True)
    x, w = drawn.moved
    node = helper.make_node("QLinearConv", PRODUCT, ["y"], domain=MICROSOFT, channels_last=1)
    drawn.judge(node, np.einsum("nhwc,oc->nhwo", x, w[:, :, 0, 0]), [1, 1, 1, 6], "qconv2d")


@CASES
@SYMMETRIC
@pytest.mark.parametrize("channels", [True, False])
def test_qlinear_matmul(types, symmetric: bool, channels: bool) -> None:
    drawn = Drawn(types, (2, 3, 8), (8, 5), 1 if channels else None, symmetric)
    node = helper.make_node("QLinearMatMul", PRODUCT, ["y"])
    x, w = drawn.moved
    drawn.judge(node, x @ w, [1, 1, 5], "qdense" if symmetric else None,
                runtime=types != ("int8", "uint8"))


@CASES
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_qgemm(types, trans: int, alpha: float) -> None:
    drawn = Drawn(types, (3, 8), (5, 8) if trans else (8, 5), 1 - trans, True)
    bias = np.random.default_rng(5).integers(-900, 900, 5).astype(np.int32)
    drawn.constants["b"] = bias
    node = helper.make_node("QGemm", [*PRODUCT[:6], "b", "ys", "yz"], ["y"], domain=MICROSOFT,
                            transB=trans, alpha=alpha)
    x, w = drawn.moved
    drawn.judge(node, (x @ (w.T if trans else w) + bias) * alpha, [1, 5], "qdense",
                runtime=types != ("int8", "uint8"))


def test_qgemm_in_float() -> None:
    """Without a scale and a zero point the result is float32."""
    drawn = Drawn(("uint8", "int8"), (8, 3), (8, 5), None, False)
    node = helper.make_node("QGemm", PRODUCT[:6], ["y"], domain=MICROSOFT, transA=1)
    model = model_of(node, {"x": drawn.x}, drawn.constants)
    x, w = drawn.moved
    wanted = x.T @ w * float(drawn.x_scale) * float(drawn.w_scale)
    np.testing.assert_allclose(run_onnx(model, {"x": drawn.x})["y"], wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(values_of(model, {"x": drawn.x})["y"], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("inputs, attributes, reason", [
    (["", "ys"], {}, "its result must have a scale and a zero point, or neither"),
    ([], {"alpha": 0.0}, "alpha must be above 0, not 0.0")])
def test_qgemm_refusals(inputs: list[str], attributes: dict, reason: str) -> None:
    """ONNX Runtime divides by a scale without a zero point, and its documentation does not."""
    drawn = Drawn(("uint8", "int8"), (3, 8), (8, 5), None, False)
    node = helper.make_node("QGemm", [*PRODUCT[:6], *inputs], ["y"], domain=MICROSOFT, **attributes)
    with pytest.raises(ImportRefused, match=reason):
        convert(model_of(node, {"x": drawn.x}, drawn.constants))


@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul"])
def test_computed_parameters(op: str) -> None:
    """Sums of integers, where a scale is an input."""
    shapes = ((1, 4, 3, 3), (6, 4, 1, 1)) if op == "QLinearConv" else ((3, 4), (4, 6))
    drawn = Drawn(("uint8", "uint8"), *shapes, 0 if op == "QLinearConv" else 1, False)
    inputs = {"x": drawn.x, "ws": drawn.constants.pop("ws")}
    model = model_of(helper.make_node(op, PRODUCT, ["y"]), inputs, drawn.constants)
    assert_steps(values_of(model, inputs, True)["y"], run_onnx(model, inputs)["y"])
    assert operators_of(model)["dequantizelinear"] == 0


def test_integer_arithmetic() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0, 256, (3, 4)).astype(np.uint8) for _ in range(2))
    nodes = [helper.make_node("MulInteger", ["a", "az", "b", "bz"], ["y"], domain=MICROSOFT),
             helper.make_node("ReduceSumInteger", ["a"], ["s"], domain=MICROSOFT, axes=[1],
                              keepdims=0),
             helper.make_node("Cast", ["a"], ["w"], to=TensorProto.INT16),
             helper.make_node("Transpose", ["w"], ["v"]),
             helper.make_node("MatMulInteger16", ["w", "v"], ["m"], domain=MICROSOFT)]
    model = model_of(nodes, {"a": a, "b": b}, {"az": np.uint8(7), "bz": np.uint8(200)},
                     outputs=("y", "s", "m"))
    found = values_of(model, {"a": a, "b": b}, True)
    wide = a.astype(np.int32)
    np.testing.assert_array_equal(found["y"], (wide - 7) * (b.astype(np.int32) - 200))
    np.testing.assert_array_equal(found["s"], wide.sum(1))
    np.testing.assert_array_equal(found["m"], wide @ wide.T)
    assert (found["s"].dtype, found["m"].dtype) == ("uint32", "int32")
