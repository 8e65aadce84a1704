"""Single operators at the shapes of known networks, for ``cpu.speed --only operators``.

Convolutions of ResNets, MobileNets, SqueezeNet and U-Net, dense layers and products of
transformers, softmax, layer norm, pools: ONNX models of one operator with seeded weights.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONVOLUTIONS = (                # inputs, outputs, kernel, size, stride, group
    (3, 64, 7, 224, 2, 1), (3, 32, 3, 224, 2, 1), (64, 64, 3, 56, 1, 1), (64, 128, 3, 56, 2, 1),
    (128, 128, 3, 28, 1, 1), (256, 256, 3, 14, 1, 1), (512, 512, 3, 7, 1, 1),
    (64, 256, 1, 56, 1, 1), (256, 64, 1, 56, 1, 1), (512, 128, 1, 28, 1, 1),
    (256, 1024, 1, 14, 1, 1), (1024, 256, 1, 14, 1, 1), (512, 2048, 1, 7, 1, 1),
    (1024, 1024, 1, 7, 1, 1), (64, 128, 1, 56, 2, 1), (16, 96, 1, 112, 1, 1),
    (144, 24, 1, 56, 1, 1), (320, 1280, 1, 7, 1, 1), (32, 32, 3, 112, 1, 32),
    (96, 96, 3, 112, 2, 96), (144, 144, 3, 56, 1, 144), (512, 512, 3, 14, 1, 512),
    (1024, 1024, 3, 7, 1, 1024), (64, 192, 5, 28, 1, 1), (256, 256, 3, 14, 1, 32))
DENSE = ((1, 512, 1000), (1, 1280, 1000), (1, 2048, 1000), (197, 384, 1536), (197, 1536, 384),
         (197, 384, 384))
PRODUCTS = ((6, 197, 64, 197), (6, 197, 197, 64))
POOLS = (("MaxPool", 64, 112, 3, 2), ("AveragePool", 256, 28, 2, 2), ("GlobalAveragePool", 512, 7,
                                                                       7, 1))
ROWS = (("Softmax", (6, 197, 197)), ("LayerNormalization", (197, 384)), ("Gelu", (197, 1536)))


def _names() -> Iterator[tuple[str, tuple]]:
    for ci, co, k, size, stride, group in CONVOLUTIONS:
        kind = "depthwise" if group == ci else f"group{group}" if group > 1 else "conv"
        yield f"{kind}{k}x{k}s{stride}_{ci}_{co}_{size}", ("Conv", ci, co, k, size, stride, group)
    for rows, depth, columns in DENSE:
        yield f"dense_{rows}x{depth}x{columns}", ("Dense", rows, depth, columns)
    for shape in PRODUCTS:
        yield f"matmul_{'x'.join(map(str, shape))}", ("MatMul", *shape)
    yield "convtranspose2x2s2_128_64_28", ("ConvTranspose", 128, 64, 2, 28, 2)
    for op, *numbers in POOLS:
        yield f"{op.lower()}_{'_'.join(map(str, numbers))}", (op, *numbers)
    for op, shape in ROWS:
        yield f"{op.lower()}_{'x'.join(map(str, shape))}", (op, *shape)


OPERATORS = dict(_names())
"""Name of a row to the operator and its numbers."""


def operator_model(name: str) -> onnx.ModelProto:
    """The float32 model of one of `OPERATORS`, with input x (or a and b) and output y."""
    rng = np.random.default_rng(0)

    def weight(label: str, *shape: int) -> onnx.TensorProto:
        scale = 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 1)
        return numpy_helper.from_array((rng.standard_normal(shape) * scale).astype(np.float32),
                                       label)

    op, *numbers = OPERATORS[name]
    match op:
        case "Conv" | "ConvTranspose":
            ci, co, k, size, stride, group = (*numbers, 1)[:6]
            pads = [k // 2] * 4 if op == "Conv" else [0] * 4
            shape = (co, ci // group, k, k) if op == "Conv" else (ci, co, k, k)
            return _model(op, {"x": (1, ci, size, size)}, [weight("w", *shape), weight("bias", co)],
                          kernel_shape=[k, k], strides=[stride] * 2, pads=pads, group=group)
        case "Dense":
            rows, depth, columns = numbers
            return _model("MatMul", {"x": (rows, depth)}, [weight("w", depth, columns)])
        case "MatMul":
            heads, rows, depth, columns = numbers
            return _model("MatMul", {"a": (heads, rows, depth), "b": (heads, depth, columns)}, [])
        case "MaxPool" | "AveragePool":
            channels, size, k, stride = numbers
            pads = [k // 2 if k % 2 else 0] * 4
            return _model(op, {"x": (1, channels, size, size)}, [], kernel_shape=[k, k],
                          strides=[stride] * 2, pads=pads)
        case "GlobalAveragePool":
            return _model(op, {"x": (1, numbers[0], numbers[1], numbers[1])}, [])
        case "LayerNormalization":
            return _model(op, {"x": tuple(numbers)}, [weight("scale", numbers[-1]),
                                                      weight("bias", numbers[-1])])
        case _:
            return _model(op, {"x": tuple(numbers)}, [])


def samples(model: onnx.ModelProto, seed: int) -> list[dict[str, np.ndarray]]:
    """Two random inputs."""
    rng = np.random.default_rng(seed)
    return [{value.name: rng.standard_normal(
        [side.dim_value for side in value.type.tensor_type.shape.dim], np.float32)
        for value in model.graph.input} for _ in range(2)]


def _model(op: str, inputs: dict[str, Sequence[int]], weights: list[onnx.TensorProto],
           **attributes) -> onnx.ModelProto:
    node = helper.make_node(op, [*inputs, *(one.name for one in weights)], ["y"], "node",
                            **attributes)
    graph = helper.make_graph(
        [node], "operator",
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)
         for value, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)
