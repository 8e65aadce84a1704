"""QLinear operators of com.microsoft: as documented, in float64, and as ONNX Runtime has them."""

import numpy as np
import pytest
from onnx import helper

from compiler.frontend import ImportRefused, convert
from tests.support.onnx_runtime import run_onnx
from tests.support.spellings import (MICROSOFT, assert_steps, model_of, operators_of, saturated,
                                     values_of)


class Drawn:
    """Random quantized inputs, with their scales and zero points, and the scale of the result."""

    def __init__(self, dtype: str, *shapes: tuple[int, ...], reach: float = 4.0, seed: int = 0):
        rng = np.random.default_rng([seed, *(sum(shape) for shape in shapes)])
        info = np.iinfo(dtype)
        self.inputs = {f"x{place}": rng.integers(info.min, info.max + 1, shape).astype(dtype)
                       for place, shape in enumerate(shapes)}
        self.constants, self.numbers, self.names = {}, [], []
        for name, array in self.inputs.items():
            scale, zero = np.float32(rng.uniform(0.01, 0.03)), rng.integers(-20, 20)
            zero = np.array(zero + (128 if dtype == "uint8" else 0), dtype)
            self.constants |= {f"{name}_s": scale, f"{name}_z": zero}
            self.numbers.append((array.astype(np.float64) - float(zero)) * float(scale))
            self.names.append([name, f"{name}_s", f"{name}_z"])
        self.scale = np.float32(reach / 128)
        self.zero = np.array(rng.integers(-9, 9) + (128 if dtype == "uint8" else 0), dtype)
        self.constants |= {"y_s": self.scale, "y_z": self.zero}
        self.dtype = dtype

    def judge(self, op: str, inputs: list[str], wanted: np.ndarray | float, form: str | None = None,
              runtime: bool = True, **attributes) -> None:
        """The result in float, by its integer form, and by ONNX Runtime, is within a step."""
        node = helper.make_node(op, inputs, ["y"], domain=MICROSOFT, **attributes)
        model = model_of(node, self.inputs, self.constants)
        steps = saturated(wanted / float(self.scale) + float(self.zero), self.dtype)
        for integers in (False, True):
            assert_steps(values_of(model, self.inputs, integers)["y"], steps)
        if runtime:
            assert_steps(run_onnx(model, self.inputs)["y"], steps)
        if form:
            assert operators_of(model)[form] == 1

    def flat(self) -> list[str]:
        return [name for names in self.names for name in names]


RESULT = ["y_s", "y_z"]
EITHER = pytest.mark.parametrize("dtype", ["int8", "uint8"])


@EITHER
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_arithmetic(op: str, dtype: str) -> None:
    drawn = Drawn(dtype, (2, 3, 4), (3, 1))
    a, b = drawn.numbers
    drawn.judge(op, [*drawn.flat(), *RESULT], a + b if op == "QLinearAdd" else a * b,
                "qmap")


@EITHER
def test_without_zero_points(dtype: str) -> None:
    """They are 0 then; ONNX Runtime documents so, and refuses it."""
    drawn = Drawn(dtype, (5, 4), (5, 4))
    a, b = (array.astype(float) * float(drawn.constants[f"{name}_s"])
            for name, array in drawn.inputs.items())
    drawn.zero = np.array(0, dtype)
    drawn.judge("QLinearAdd", ["x0", "x0_s", "", "x1", "x1_s", "", "y_s"], a + b,
                "qadd", runtime=False)


@EITHER
def test_functions(dtype: str) -> None:
    drawn = Drawn(dtype, (4, 40), reach=1.5)
    x, = drawn.numbers
    drawn.judge("QLinearSigmoid", [*drawn.flat(), *RESULT], 1 / (1 + np.exp(-x)), "qtable")
    drawn.judge("QLinearLeakyRelu", [*drawn.flat(), *RESULT], np.where(x < 0, 0.2 * x, x),
                alpha=0.2)


@EITHER
@pytest.mark.parametrize("axis, opset", [(-1, 13), (1, 13), (1, 12)])
def test_softmax(dtype: str, axis: int, opset: int) -> None:
    """Before opset 13 of the axis and all behind it together."""
    drawn = Drawn(dtype, (2, 3, 5), reach=0.5)
    x, = drawn.numbers
    flat = x.reshape(2, 15) if opset < 13 else x
    powers = np.exp(flat - flat.max(axis, keepdims=True))
    drawn.judge("QLinearSoftmax", [*drawn.flat(), *RESULT],
                (powers / powers.sum(axis, keepdims=True)).reshape(x.shape), axis=axis, opset=opset)


@EITHER
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reduce_mean(dtype: str, keepdims: int) -> None:
    drawn = Drawn(dtype, (2, 3, 4, 5), reach=1.0)
    mean = drawn.numbers[0].mean((2, 3), keepdims=bool(keepdims))
    drawn.judge("QLinearReduceMean", [*drawn.flat(), *RESULT], mean, runtime=False,
                axes=[2, -1], keepdims=keepdims)    # ONNX Runtime has no kernel of it


@EITHER
@pytest.mark.parametrize("channels_last", [0, 1])
def test_pools(dtype: str, channels_last: int) -> None:
    drawn = Drawn(dtype, (1, 4, 6, 8), reach=2.0)
    x, = drawn.numbers
    axes = (1, 2) if channels_last else (2, 3)
    drawn.judge("QLinearGlobalAveragePool", [*drawn.flat(), *RESULT],
                x.mean(axes, keepdims=True), channels_last=channels_last)
    images = x.transpose(0, 3, 1, 2) if channels_last else x
    n, c, h, w = images.shape
    pooled = images.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))
    drawn.judge("QLinearAveragePool", [*drawn.flat(), *RESULT],
                pooled.transpose(0, 2, 3, 1) if channels_last else pooled, kernel_shape=[2, 2],
                strides=[2, 2], channels_last=channels_last)


@EITHER
def test_padded_pool(dtype: str) -> None:
    drawn = Drawn(dtype, (1, 2, 3, 3), reach=2.0)
    wide = np.pad(drawn.numbers[0], ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = sum(wide[:, :, i:i + 3, j:j + 3] for i in range(3) for j in range(3))
    counts = np.array([[4, 6, 4], [6, 9, 6], [4, 6, 4]])
    for include, count in ((0, counts), (1, 9)):
        drawn.judge("QLinearAveragePool", [*drawn.flat(), *RESULT], sums / count,
                    kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=include)


@EITHER
def test_concat(dtype: str) -> None:
    drawn = Drawn(dtype, (2, 3, 4), (2, 1, 4), (2, 2, 4))
    drawn.judge("QLinearConcat", [*RESULT, *drawn.flat()], np.concatenate(drawn.numbers, 1),
                "qconcat", axis=1)


@EITHER
def test_where(dtype: str) -> None:
    drawn = Drawn(dtype, (2, 3, 4), (3, 4))
    drawn.inputs["c"] = np.random.default_rng(1).random((2, 1, 4)) < 0.5
    drawn.judge("QLinearWhere", ["c", *drawn.flat(), *RESULT],
                np.where(drawn.inputs["c"], *drawn.numbers))


def test_computed_scales() -> None:
    """General arithmetic, where a scale is an input."""
    drawn = Drawn("uint8", (4, 5), (4, 5))
    drawn.inputs["y_s"] = np.array(drawn.constants.pop("y_s"))
    drawn.judge("QLinearAdd", [*drawn.flat(), *RESULT], sum(drawn.numbers))


@pytest.mark.parametrize("op, inputs, attributes, reason", [
    ("QLinearAdd", ["x0"], {}, "must have 7 to 8 inputs, not 1"),
    ("QLinearSigmoid", ["x0", "", "", "y_s"], {}, "each of its quantized inputs must be given"),
    ("QLinearSigmoid", ["x0", "x0_s", "", "y_s"], {"axis": 1}, "attribute 'axis' is not supported"),
    ("QLinearSoftmax", ["x0", "x0_s", "", "y_s"], {}, "opset must be given"),
    ("QLinearConcat", ["y_s", "y_z", "x0", "x0_s"], {"axis": 0}, "not 2 inputs"),
])
def test_refusals(op: str, inputs: list[str], attributes: dict, reason: str) -> None:
    drawn = Drawn("int8", (4, 5))
    node = helper.make_node(op, inputs, ["y"], domain=MICROSOFT, **attributes)
    with pytest.raises(ImportRefused, match=reason):
        convert(model_of(node, drawn.inputs, drawn.constants))
