"""Quantized models for tests, and ONNX Runtime as judge."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

from tests.support.onnx_runtime import Layer, compare_layers, run_onnx

Array = np.ndarray


@dataclass
class Qdq:
    """Writes QDQ models the way quantizers do; every method returns the name of its result."""

    seed: int = 1
    opset: int = 17
    nodes: list = field(default_factory=list)
    constants: list = field(default_factory=list)
    inputs: list = field(default_factory=list)

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)

    def constant(self, array: ArrayLike) -> str:
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def input(self, name: str, *shape: int | str, dtype: str = "float32") -> str:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, code, shape))
        return name

    def add(self, op: str, *inputs: str, name: str | None = None, **attrs) -> str:
        name = name or f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [f"{name}.out"], name, **attrs))
        return f"{name}.out"

    def quantize(self, x: str, scale=0.05, zero=3, dtype="uint8") -> str:
        return self.add("QuantizeLinear", x, *self._parameters(scale, zero, dtype))

    def dequantize(self, x: str, scale=0.05, zero=3, dtype="uint8", **attrs) -> str:
        return self.add("DequantizeLinear", x, *self._parameters(scale, zero, dtype), **attrs)

    def requantized(self, x: str, scale=0.05, zero=3, dtype="uint8") -> str:
        """Quantize and dequantize at once: what stands between two layers."""
        return self.dequantize(self.quantize(x, scale, zero, dtype), scale, zero, dtype)

    def weight(self, *shape: int, scale: ArrayLike | None = None, axis: int = 0) -> str:
        """A dequantized int8 weight with one scale for each output channel."""
        values = self.rng.integers(-127, 128, shape).astype(np.int8)
        scales = self.rng.uniform(0.002, 0.02, shape[axis]) if scale is None else scale
        zeros = np.zeros(np.shape(scales), np.int8)
        return self.add("DequantizeLinear", self.constant(values),
                        self.constant(np.asarray(scales, np.float32)), self.constant(zeros),
                        axis=axis)

    def bias(self, values: Array, scales) -> str:
        """A dequantized int32 bias."""
        scales = np.asarray(scales, np.float32)
        return self.add("DequantizeLinear", self.constant(np.asarray(values, np.int32)),
                        self.constant(scales), self.constant(np.zeros(scales.shape, np.int32)),
                        axis=0)

    def _parameters(self, scale, zero, dtype: str) -> tuple[str, str]:
        return self.constant(np.float32(scale)), self.constant(np.array(zero, dtype))

    def model(self, *outputs: str, dtypes: Mapping[str, str] | None = None) -> onnx.ModelProto:
        codes = {name: helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
                 for name, dtype in (dtypes or {}).items()}
        infos = [helper.make_tensor_value_info(name, codes.get(name, TensorProto.FLOAT), None)
                 for name in outputs]
        graph = helper.make_graph(self.nodes, "test", self.inputs, infos, self.constants)
        return helper.make_model(graph, ir_version=10,
                                 opset_imports=[helper.make_opsetid("", self.opset)])


@pytest.fixture(scope="session")
def qdq() -> type[Qdq]:
    return Qdq


@pytest.fixture(scope="session")
def onnx_values() -> Callable[..., dict[str, Array]]:
    return run_onnx


@pytest.fixture(scope="session")
def layer_differences() -> Callable[..., list[Layer]]:
    return compare_layers
