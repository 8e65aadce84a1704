"""Float models for the quantizer, and ONNX Runtime as judge."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.onnx_runtime import run_onnx

Array = np.ndarray


@dataclass
class FloatModel:
    """Writes float models; every method returns the name of its result."""

    seed: int = 1
    opset: int = 17
    nodes: list = field(default_factory=list)
    constants: dict = field(default_factory=dict)
    inputs: list = field(default_factory=list)

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)

    def input(self, name: str, *shape: int | str, code: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, code, shape))
        return name

    def constant(self, array, name: str | None = None) -> str:
        name = name or f"k{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def random(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant((scale * self.rng.standard_normal(shape)).astype(np.float32))

    def add(self, op: str, *inputs: str, name: str | None = None, **attrs) -> str:
        name = name or f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [f"{name}.out"], name, **attrs))
        return f"{name}.out"

    def conv(self, x: str, channels: int, outputs: int, kernel: int = 3, *, bias: bool = True,
             name: str | None = None, **attrs) -> str:
        """Adds a convolution with weights of He's scale; keeps the image's size by default."""
        group = attrs.get("group", 1)
        depth = channels // group
        w = self.random(outputs, depth, kernel, kernel, scale=(2 / depth / kernel**2) ** 0.5)
        more = [self.random(outputs, scale=0.1)] if bias else []
        attrs.setdefault("pads", [kernel // 2] * 4)
        return self.add("Conv", x, w, *more, name=name, **attrs)

    def norm(self, x: str, channels: int, name: str | None = None) -> str:
        statistics = [self.rng.uniform(0.5, 1.5, channels), self.rng.normal(0.3, 0.2, channels),
                      self.rng.normal(0, 0.2, channels), self.rng.uniform(0.5, 2, channels)]
        return self.add("BatchNormalization", x,
                        *(self.constant(one.astype(np.float32)) for one in statistics), name=name)

    def dense(self, x: str, inputs: int, outputs: int, name: str | None = None) -> str:
        return self.add("Gemm", x, self.random(outputs, inputs, scale=inputs ** -0.5),
                        self.random(outputs, scale=0.1), name=name, transB=1)

    def model(self, *outputs: str) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "test", self.inputs, infos, [
            numpy_helper.from_array(array, name) for name, array in self.constants.items()])
        model = helper.make_model(graph, ir_version=10,
                                  opset_imports=[helper.make_opsetid("", self.opset)])
        typed = onnx.shape_inference.infer_shapes(model)
        del typed.graph.value_info[:]
        return typed


@pytest.fixture(scope="session")
def float_model() -> type[FloatModel]:
    return FloatModel


def outputs_of(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime gives out, in order."""
    return list(run_onnx(model, feeds).values())


@pytest.fixture(scope="session")
def onnx_runtime() -> Callable[..., list[Array]]:
    return outputs_of
