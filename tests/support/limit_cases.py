"""Networks of one operator between quantizations, over shapes, for `accelerator.limits`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

__all__ = ["FAMILIES", "Case", "QdqModel"]

SCALE, ZERO = 0.05, 3
OPSET = 20


@dataclass
class QdqModel:
    """Writes a QDQ model node by node; methods return the name of the value that they make."""

    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def constant(self, array: ArrayLike) -> str:
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op: str, *inputs: str, name: str = "", **attrs) -> str:
        name = name or f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [f"{name}.out"], name, **attrs))
        return f"{name}.out"

    def requantized(self, x: str, scale: float = SCALE, zero: int = ZERO) -> str:
        """Quantize and dequantize: what stands between two layers."""
        numbers = self.constant(np.float32(scale)), self.constant(np.int8(zero))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *numbers), *numbers)

    def real_input(self, *shape: int) -> str:
        """An input of the network, in float."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.shapes[name] = shape
        return name

    def input(self, *shape: int, zero: int = ZERO) -> str:
        """A layer's result: a quantized input of the network with its scale changed."""
        return self.requantized(self.requantized(self.real_input(*shape), 0.04), zero=zero)

    def weight(self, *shape: int, axis: int = 0, most: int = 127) -> str:
        """A dequantized int8 weight with one scale for each output channel."""
        values = self.rng.integers(-most, most + 1, shape).astype(np.int8)
        scales = np.full(shape[axis], 1 / (most * np.sqrt(max(1, prod(shape) // shape[axis]))),
                         np.float32)
        return self.add("DequantizeLinear", self.constant(values), self.constant(scales),
                        self.constant(np.zeros(scales.shape, np.int8)), axis=axis)

    def model(self, y: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name])
                  for name in self.inputs]
        output = helper.make_tensor_value_info(self.requantized(y), TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "case", inputs, [output], self.constants)
        return helper.make_model(graph, ir_version=10,
                                 opset_imports=[helper.make_opsetid("", OPSET)])


@dataclass(frozen=True)
class Case:
    """A network of one operator: its name with the shape, and what adds it to a model and returns
    the value before the last quantization."""

    name: str
    build: Callable[[QdqModel], str]

    def model(self) -> onnx.ModelProto:
        net = QdqModel()
        return net.model(self.build(net))


def _text(*parts: object) -> str:
    return " ".join("x".join(map(str, part)) if isinstance(part, tuple) else str(part)
                    for part in parts if part != "")


# Products


def _conv(channels: int, outputs: int, size: tuple[int, int], kernel: tuple[int, int], stride: int,
          dilation: int, group: int, net: QdqModel) -> str:
    pads = [(side - 1) * dilation // 2 for side in kernel] * 2
    return net.add("Conv", net.input(1, channels, *size),
                   net.weight(outputs, channels // group, *kernel), strides=[stride] * 2,
                   dilations=[dilation] * 2, group=group, pads=pads)


def convolutions() -> Iterator[Case]:
    shapes = [(c, o, size, (k, k), s, 1, 1)
              for c, o, size in ((3, 32, 224), (16, 16, 56), (64, 64, 28), (256, 512, 14),
                                 (2048, 512, 7))
              for k in (1, 3, 5, 7, 11) for s in (1, 2) if c * o * k * k < 1 << 22]
    shapes += [(64, 64, 28, (3, 3), 1, d, 1) for d in (2, 6, 12)]
    shapes += [(64, 64, 28, kernel, 1, 1, 1) for kernel in ((1, 7), (7, 1), (1, 28), (28, 1))]
    shapes += [(3, 768, 224, (16, 16), 16, 1, 1), (3, 1024, 224, (32, 32), 32, 1, 1),
               (3, 64, 224, (11, 11), 4, 1, 1), (1, 8, 256, (31, 31), 1, 1, 1),
               (512, 4096, 7, (7, 7), 1, 1, 1), (4608, 64, 1, (1, 1), 1, 1, 1)]
    for c, o, size, kernel, stride, dilation, group in shapes:
        yield Case(_text("conv", f"{c}->{o}", (size, size), "kernel", kernel, f"stride {stride}",
                         f"dilation {dilation}"),
                   partial(_conv, c, o, (size, size), kernel, stride, dilation, group))
    lines = [(80, 384, (1, 3000), (1, 3)), (1, 64, (1, 16000), (1, 80)),
             (1, 64, (1, 65536), (1, 9)), (1, 64, (1, 160000), (1, 400))]
    for c, o, size, kernel in lines:
        yield Case(_text("conv", f"{c}->{o}", size, "kernel", kernel),
                   partial(_conv, c, o, size, kernel, 1, 1, 1))


def grouped_convolutions() -> Iterator[Case]:
    for c, size in ((32, 112), (144, 56), (960, 7), (1152, 14)):
        for k, stride, dilation in ((3, 1, 1), (3, 2, 1), (5, 1, 1), (7, 1, 1), (9, 1, 1),
                                    (31, 1, 1), (3, 1, 4)):
            yield Case(_text("depthwise", c, (size, size), "kernel", (k, k), f"stride {stride}",
                             f"dilation {dilation}"),
                       partial(_conv, c, c, (size, size), (k, k), stride, dilation, c))
    for c, o, group, size, k in ((64, 64, 2, 28, 3), (64, 128, 32, 28, 3), (96, 192, 3, 14, 5),
                                 (512, 512, 32, 14, 3), (48, 96, 16, 28, 7)):
        yield Case(_text("grouped conv", f"{c}->{o}", f"groups {group}", (size, size), "kernel",
                         (k, k)), partial(_conv, c, o, (size, size), (k, k), 1, 1, group))


def _transposed(channels: int, outputs: int, size: int, kernel: int, stride: int, pad: int,
                dilation: int, group: int, net: QdqModel) -> str:
    return net.add("ConvTranspose", net.input(1, channels, size, size),
                   net.weight(channels, outputs // group, kernel, kernel, axis=1),
                   strides=[stride] * 2, pads=[pad] * 4, dilations=[dilation] * 2, group=group)


def transposed_convolutions() -> Iterator[Case]:
    for c, o, size, k, s, p, d in ((64, 32, 28, 2, 2, 0, 1), (64, 32, 28, 4, 2, 1, 1),
                                   (1024, 512, 14, 2, 2, 0, 1), (256, 256, 14, 3, 2, 1, 1),
                                   (100, 512, 1, 4, 1, 0, 1), (21, 21, 16, 16, 8, 4, 1),
                                   (21, 21, 16, 64, 32, 16, 1), (64, 64, 14, 3, 1, 1, 2),
                                   (512, 256, 7, 8, 4, 2, 1)):
        yield Case(_text("transposed conv", f"{c}->{o}", (size, size), "kernel", (k, k),
                         f"stride {s}", f"dilation {d}"),
                   partial(_transposed, c, o, size, k, s, p, d, 1))


def _dense(shape: tuple[int, ...], outputs: int, flat: bool, net: QdqModel) -> str:
    x = net.input(*shape)
    x, depth = (net.add("Flatten", x), prod(shape[1:])) if flat else (x, shape[-1])
    return net.add("MatMul", x, net.weight(depth, outputs, axis=1, most=15))


def dense_layers() -> Iterator[Case]:
    for depth in (10, 100, 512, 1000, 1001, 1024, 1280, 1344, 2048, 4096, 9216, 25088, 65536):
        for outputs in (1, 10, 1000):
            yield Case(_text("dense", f"{depth}->{outputs}"),
                       partial(_dense, (1, depth), outputs, False))
    for rows, depth, outputs in ((197, 768, 3072), (197, 3072, 768), (16, 1344, 8), (3, 16384, 7)):
        yield Case(_text("dense", f"{rows} rows", f"{depth}->{outputs}"),
                   partial(_dense, (1, rows, depth), outputs, False))
    for c, size in ((3, 32), (16, 28), (50, 4), (84, 4), (64, 25), (256, 6), (512, 7), (512, 14),
                    (7, 112), (1, 256)):
        yield Case(_text("flattened dense", (c, size, size), "->10"),
                   partial(_dense, (1, c, size, size), 10, True))


def _product(a: tuple[int, ...], b: tuple[int, ...], trans_b: bool, zeros: tuple[int, int],
             net: QdqModel) -> str:
    x, y = (net.input(*shape, zero=zero) for shape, zero in zip((a, b), zeros, strict=True))
    y = net.add("Transpose", y, perm=[*range(len(b) - 2), len(b) - 1, len(b) - 2]) if trans_b else y
    return net.add("MatMul", x, y)


def matrix_products() -> Iterator[Case]:
    for leading, m, k, n in (((), 64, 64, 64), ((8,), 197, 64, 197), ((8,), 197, 197, 64),
                             ((1, 12), 512, 64, 512), ((2, 3), 7, 1344, 5), ((), 16, 4096, 16),
                             ((), 3, 16384, 7), ((), 1, 2048, 2048), ((), 4096, 4, 4096)):
        for trans_b in (False, True):
            for zeros in ((0, 0), (3, -128)):
                b = (*leading, n, k) if trans_b else (*leading, k, n)
                yield Case(_text("product", leading, f"{m}x{k}x{n}",
                                 "transposed" if trans_b else "", f"zero points {zeros}"),
                           partial(_product, (*leading, m, k), b, trans_b, zeros))


# Pools and means


def _pool(op: str, shape: tuple[int, ...], attrs: dict, net: QdqModel) -> str:
    return net.add(op, net.input(*shape), **attrs)


def _mean(op: str, shape: tuple[int, ...], axes: Sequence[int], net: QdqModel) -> str:
    return net.add(op, net.input(*shape), net.constant(np.array(axes)), keepdims=1)


SIZES = ((7, 7), (13, 17), (28, 28), (56, 56), (112, 112), (224, 224), (480, 640), (1, 4096))


def pools() -> Iterator[Case]:
    for size in SIZES:
        for channels in (3, 64, 1280):
            shape = (1, channels, *size)
            for op in ("GlobalAveragePool", "GlobalMaxPool"):
                yield Case(_text(op, channels, size), partial(_pool, op, shape, {}))
    for kernel, stride in ((2, 2), (3, 1), (3, 2), (5, 1), (7, 7), (8, 8), (13, 1), (14, 14),
                           (28, 28), (33, 1)):
        for op in ("AveragePool", "MaxPool"):
            for pads in (0, kernel // 2):
                attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pads] * 4}
                yield Case(_text(op, 64, (56, 56), "kernel", kernel, f"stride {stride}",
                                 f"pads {pads}"), partial(_pool, op, (1, 64, 56, 56), attrs))
    attrs = {"kernel_shape": [3, 3], "dilations": [9, 9]}
    yield Case("MaxPool 64 56x56 kernel 3 dilation 9",
               partial(_pool, "MaxPool", (1, 64, 56, 56), attrs))
    for shape, axes in (((1, 197, 768), (1,)), ((1, 4096, 64), (1,)), ((1, 64, 56, 56), (2,)),
                        ((1, 64, 56, 56), (3,)), ((1, 64, 56, 56), (1,)), ((1, 197, 768), (2,)),
                        ((1, 64, 56, 56), (2, 3)), ((1, 65536, 8), (1,))):
        for op in ("ReduceMean", "ReduceMax"):
            yield Case(_text(op, shape, "along", axes), partial(_mean, op, shape, axes))


# Elements and rows


def _same(op: str, shapes: Sequence[tuple[int, ...]], net: QdqModel) -> str:
    return net.add(op, *(net.input(*shape) for shape in shapes))


def _constant_operand(op: str, shape: tuple[int, ...], other: tuple[int, ...], net: QdqModel
                      ) -> str:
    numbers = net.rng.uniform(0.25, 2, other).astype(np.float32)
    return net.add(op, net.input(*shape), net.constant(numbers))


def _gated(shape: tuple[int, ...], net: QdqModel) -> str:
    x = net.input(*shape)
    return net.add("Mul", x, net.add("Sigmoid", x))


def elements() -> Iterator[Case]:
    images, tokens = (1, 64, 28, 28), (1, 197, 768)
    large = (1, 2048, 7, 7), (1, 3, 480, 640), (1, 8, 1, 100000)
    for op in ("Add", "Sub", "Mul", "Max", "Min", "Div"):
        for a, b in ((images, images), (tokens, tokens), (images, (1, 64, 1, 1)),
                     (images, (1, 1, 28, 28)), (images, (1, 64, 1, 28)), (images, (1, 64, 28, 1)),
                     (tokens, (1, 1, 768)), (tokens, (1, 197, 1)), *((one, one) for one in large)):
            yield Case(_text(op, a, b), partial(_same, op, (a, b)))
        for shape, other in ((images, ()), (images, (64, 1, 1)), (images, (28,)),
                             (images, (28, 28)), (tokens, (768,)), (tokens, (197, 768))):
            yield Case(_text(op, shape, "constant", other),
                       partial(_constant_operand, op, shape, other))
    for op in ("Relu", "LeakyRelu", "Clip", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu",
               "Gelu", "Erf", "Exp", "Neg", "Abs", "Sqrt", "Softplus", "Mish", "Selu", "Sin",
               "Floor", "Reciprocal"):
        for shape in (images, tokens, large[0]):
            yield Case(_text(op, shape), partial(_same, op, (shape,)))
    yield Case(_text("PRelu", images), partial(_constant_operand, "PRelu", images, (64, 1, 1)))
    yield Case(_text("silu", images), partial(_gated, images))


def _softmax(shape: tuple[int, ...], net: QdqModel) -> str:
    return net.add("Softmax", net.input(*shape), axis=-1)


def _norm(shape: tuple[int, ...], net: QdqModel) -> str:
    ones = np.ones(shape[-1], np.float32)
    return net.add("LayerNormalization", net.input(*shape), net.constant(ones),
                   net.constant(0 * ones), axis=-1)


def rows() -> Iterator[Case]:
    for length in (10, 64, 197, 512, 768, 1000, 1024, 2048, 4096, 8192):
        for count in (1, 197):
            for name, build in (("Softmax", _softmax), ("LayerNormalization", _norm)):
                yield Case(_text(name, (1, count, length)), partial(build, (1, count, length)))


# Movement


def _concat(shapes: Sequence[tuple[int, ...]], axis: int, net: QdqModel) -> str:
    return net.add("Concat", *(net.input(*shape) for shape in shapes), axis=axis)


def _resize(shape: tuple[int, ...], factor: int, mode: str, net: QdqModel) -> str:
    scales = np.array([1, 1, factor, factor], np.float32)
    return net.add("Resize", net.input(*shape), "", net.constant(scales), mode=mode,
                   coordinate_transformation_mode="asymmetric",
                   **({"nearest_mode": "floor"} if mode == "nearest" else {}))


def _slice(shape: tuple[int, ...], axis: int, begin: int, end: int, step: int, net: QdqModel
           ) -> str:
    return net.add("Slice", net.input(*shape), *(net.constant(np.array([number])) for number in (
        begin, end, axis, step)))


def _pad(shape: tuple[int, ...], sides: Sequence[int], net: QdqModel) -> str:
    return net.add("Pad", net.input(*shape), net.constant(np.array(sides)))


def _attributes(op: str, shape: tuple[int, ...], attrs: dict, net: QdqModel) -> str:
    return net.add(op, net.input(*shape), **attrs)


def _reshape(shape: tuple[int, ...], result: tuple[int, ...], net: QdqModel) -> str:
    return net.add("Reshape", net.input(*shape), net.constant(np.array(result)))


def movement() -> Iterator[Case]:
    images, wide = (1, 64, 28, 28), (1, 30, 28, 28)
    for shapes, axis in (((images, images), 1), ((wide, images), 1), ((images,) * 5, 1),
                         ((images, images), 2), ((wide, wide), 3), ((images, images), 0),
                         (((1, 1, 192), (1, 196, 192)), 1), (((1, 7, 10), (1, 7, 22)), 2),
                         (((1, 2048, 7, 7),) * 2, 1), (((1, 1, 480, 640),) * 3, 1)):
        yield Case(_text("Concat", *shapes, f"axis {axis}"), partial(_concat, shapes, axis))
    for shape in (images, (1, 512, 14, 14), (1, 3, 240, 320)):
        for factor in (2, 3, 8):
            for mode in ("nearest", "linear"):
                yield Case(_text("Resize", mode, shape, f"by {factor}"),
                           partial(_resize, shape, factor, mode))
    for axis, begin, end, step in ((1, 5, 40, 1), (1, 0, 64, 2), (2, 3, 20, 1), (3, 0, 28, 2)):
        yield Case(_text("Slice", images, f"axis {axis}", f"{begin}:{end}:{step}"),
                   partial(_slice, images, axis, begin, end, step))
    for sides in ((0, 0, 1, 2, 0, 0, 3, 4), (0, 2, 0, 0, 0, 3, 0, 0), (1, 0, 0, 0, 0, 0, 0, 0)):
        yield Case(_text("Pad", images, "sides", sides), partial(_pad, images, sides))
    for op, shape, attrs in (("Transpose", images, {"perm": [0, 2, 3, 1]}),
                             ("Transpose", (1, 197, 768), {"perm": [0, 2, 1]}),
                             ("Transpose", images, {"perm": [0, 1, 3, 2]}),
                             ("DepthToSpace", images, {"blocksize": 2}),
                             ("SpaceToDepth", images, {"blocksize": 2}),
                             ("LRN", images, {"size": 5})):
        yield Case(_text(op, shape, *attrs.values()), partial(_attributes, op, shape, attrs))
    for shape, result in ((images, (1, 64, 784)), (images, (1, 8, 8, 784)), (images, (1, 50176)),
                          ((1, 197, 768), (1, 197, 12, 64)), ((1, 196, 768), (1, 768, 14, 14))):
        yield Case(_text("Reshape", shape, "to", result), partial(_reshape, shape, result))


FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "conv": convolutions, "grouped": grouped_convolutions, "transposed": transposed_convolutions,
    "dense": dense_layers, "product": matrix_products, "pool": pools, "elements": elements,
    "rows": rows, "movement": movement,
}
