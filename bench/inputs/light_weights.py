"""ONNX's light models with weights that expose errors: the shipped weights are all 0.02.

A light model is a real network whose float weights are one constant. Here each constant is drawn
with a seed instead, depending on its reader:

- weights of convolutions and dense layers: normal, variance 2 / inputs behind a Relu (He et al.
  2015) and 1 / inputs elsewhere, so that values keep their size through the layers; in the last
  layer scaled so that its results are about 1;
- biases and means: normal, a tenth of the values' size;
- variances 0.5 to 1.5, scales 0.4 to 1.4, which together keep the size; half of that before a
  residual sum, which would double the variance.

Networks without batch norms take images of 8 bits less their mean, as those of their time do: there
local response normalization has an effect.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FILES = {"alexnet": "bvlc_alexnet", "densenet121": "densenet121", "inception_v1": "inception_v1",
         "inception_v2": "inception_v2", "resnet50": "resnet50", "shufflenet": "shufflenet",
         "squeezenet": "squeezenet", "vgg19": "vgg19", "zfnet": "zfnet512"}
NAMES = tuple(FILES)
BYTES_DEVIATION = 64.0      # of 8-bit images
PRODUCTS = ("Conv", "Gemm")

Array = np.ndarray


def light_model(name: str, seed: int = 0, size: int | None = None) -> ModelProto:
    """A light model by its name in `NAMES`, its weights initializers that no input can replace.
    `size` is that of its images, 224 as shipped; only squeezenet has no layer that needs those.
    """
    model = onnx.load(LIGHT / f"light_{FILES[name]}.onnx")
    graph = model.graph
    shapes = _constant_shapes(graph)
    drawn = [numpy_helper.from_array(array, weight)
             for weight, array in _Drawing(model, seed).arrays(shapes)]
    kept = [one for one in graph.initializer if one.data_type != onnx.TensorProto.FLOAT
            and not one.name.endswith("__SHAPE")]
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    inputs = [one for one in graph.input if one.name in _data(graph)]
    for field in graph.initializer, graph.node, graph.input:
        del field[:]
    graph.initializer.extend([*kept, *drawn])
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    if size:
        for dim in graph.input[0].type.tensor_type.shape.dim[2:]:
            dim.dim_value = size
    model.ir_version = 4        # the first in which an initializer need not be an input
    return model


def images(model: ModelProto, count: int, seed: int = 1) -> dict[str, Array]:
    """Random images [count, channels, height, width] of the size that the model expects, smooth
    over a few pixels as photographs are.
    """
    value, = model.graph.input
    shape = (count, *(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:]))
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(shape, np.float32)
    coarse = rng.standard_normal((*shape[:2], -(-shape[2] // 8), -(-shape[3] // 8)), np.float32)
    made += 2 * coarse.repeat(8, 2).repeat(8, 3)[:, :, :shape[2], :shape[3]]
    return {value.name: made / np.float32(5 ** 0.5) * np.float32(_image_deviation(model))}


def _image_deviation(model: ModelProto) -> float:
    normed = any(node.op_type == "BatchNormalization" for node in model.graph.node)
    return 1.0 if normed else BYTES_DEVIATION


def _data(graph: onnx.GraphProto) -> list[str]:
    """The inputs that are not initializers."""
    constant = {one.name for one in graph.initializer}
    return [one.name for one in graph.input if one.name not in constant]


def _constant_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """The shapes of all float constants, in the order in which nodes read them."""
    tensors = {one.name: one for one in graph.initializer}
    shapes = {one.name: tuple(one.dims) for one in graph.initializer
              if one.data_type == onnx.TensorProto.FLOAT}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shapes[node.output[0]] = tuple(numpy_helper.to_array(tensors[node.input[0]]).tolist())
    read = dict.fromkeys(value for node in graph.node for value in node.input)
    return {name: shapes[name] for name in read if name in shapes}


class _Drawing:
    """Draws the constants of a model one after the other."""

    def __init__(self, model: ModelProto, seed: int):
        nodes = model.graph.node
        self.rng = np.random.default_rng(seed)
        self.makers = {value: node for node in nodes for value in node.output}
        self.readers = {value: (node, place) for node in nodes
                        for place, value in enumerate(node.input)}
        self.deviation = _image_deviation(model)
        self.last = next(node for node in reversed(nodes) if node.op_type in PRODUCTS)

    def arrays(self, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Array]]:
        for name, shape in shapes.items():
            node, place = self._reader(name)
            match node.op_type, place:
                case "Conv", 1:
                    yield name, self._weight(node, shape, int(np.prod(shape[1:])))
                case "Gemm", 1:     # [outputs, inputs] in all of these models
                    yield name, self._weight(node, shape, shape[-1])
                case ("Conv" | "Gemm"), _:
                    yield name, self._normal(shape, 0.1 * self._size(node))
                case "BatchNormalization", 1:
                    yield name, self._uniform(shape, 0.4, 1.4) * self._share(node)
                case ("BatchNormalization", 4) | ("Mul", _):
                    yield name, self._uniform(shape, 0.5, 1.5)
                case _:
                    yield name, self._normal(shape, 0.1 * self.deviation)

    def _reader(self, name: str) -> tuple[NodeProto, int]:
        node, place = self.readers[name]
        while node.op_type in ("Unsqueeze", "Reshape"):
            node, place = self.readers[node.output[0]]
        return node, place

    def _weight(self, node: NodeProto, shape: tuple[int, ...], inputs: int) -> Array:
        gain = self._size(node) / self.deviation
        return self._normal(shape, gain * ((2 if self._rectified(node) else 1) / inputs) ** 0.5)

    def _size(self, node: NodeProto) -> float:
        """The standard deviation of a product's results."""
        return 1.0 if node is self.last else self.deviation

    def _rectified(self, node: NodeProto | None) -> bool:
        """Whether the node reads the result of a Relu."""
        while node is not None:
            node = self.makers.get(node.input[0])
            if node is None or node.op_type in (*PRODUCTS, "BatchNormalization", "Sum", "Add"):
                return False
            if node.op_type == "Relu":
                return True
        return False

    def _share(self, node: NodeProto) -> np.float32:
        """The factor on a batch norm's scale: smaller before a residual sum."""
        return np.float32(0.5 if self.readers[node.output[0]][0].op_type == "Sum" else 1.0)

    def _normal(self, shape: tuple[int, ...], deviation: float) -> Array:
        return self.rng.standard_normal(shape, np.float32) * np.float32(deviation)

    def _uniform(self, shape: tuple[int, ...], low: float, high: float) -> Array:
        return self.rng.uniform(low, high, shape).astype(np.float32)
