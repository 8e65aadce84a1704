"""Networks to measure: integer graphs with seeded random weights."""

import numpy as np

from compiler.graph.graph import Attrs, Graph, Node, TensorType
from compiler.graph.rewrite import Builder

__all__ = ["branches_graph", "chain_graph", "convolution_graph", "depthwise_graph",
           "detours_graph", "grouped_graph", "layer_graph", "product_graph", "residual_graph",
           "resnet18_graph", "resnet50_graph", "separable_graph"]

_CLAMP = {"zp": -5, "lo": -128, "hi": 127}


def convolution_graph(inputs: int, outputs: int, size: int, *, kernel: int = 3, stride: int = 1,
                      seed: int = 0) -> Graph:
    """One int8 convolution, `size` x `size` pixels, padded by half the kernel, batch 1."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-128, 128, (outputs, inputs, kernel, kernel)).astype(np.int8)
    pad = kernel // 2
    made = (size + 2 * pad - kernel) // stride + 1
    constants = {
        "w": weights,
        "bias": rng.integers(-1000, 1000, outputs).astype(np.int32),
        "mult": rng.integers(1 << 15, 1 << 16, outputs).astype(np.int32),
        "shift": np.full(outputs, 26, np.int32),
    }
    values = {name: TensorType.of(array) for name, array in constants.items()}
    values |= {"x": TensorType((1, inputs, size, size), "int8"),
               "y": TensorType((1, outputs, made, made), "int8")}
    node = Node("qconv2d", "conv", ("x", *constants), ("y",),
                Attrs({"strides": (stride, stride), "pads": (pad,) * 4, "pad_value": 3,
                       **_CLAMP}))
    return Graph("convolution", ("x",), ("y",), (node,), values, constants)


def depthwise_graph(channels: int, size: int, stride: int, seed: int = 0) -> Graph:
    """A change of scale, whose result is in the accelerator's layout, and a depthwise 3x3
    convolution of it.
    """
    net = _Network("depthwise", seed)
    x = net.add("qrescale", net.input(channels, size), bias=0, mult=40000, shift=16, **_CLAMP)
    return net.builder.finish((net.conv(x, channels, kernel=3, stride=stride, group=channels),))


def layer_graph(inputs: int, outputs: int, size: tuple[int, int], kernel: tuple[int, int],
                strides: tuple[int, int], dilations: tuple[int, int],
                pads: tuple[int, int, int, int], group: int, seed: int) -> Graph:
    """A change of scale, whose result is in the accelerator's layout, and a convolution."""
    net = _Network("layer", seed)
    x = net.builder.add_input("x", TensorType((1, inputs, *size), "int8"))
    x = net.add("qrescale", x, bias=0, mult=40000, shift=16, **_CLAMP)
    constants = net.parameters((outputs, inputs // group, *kernel))
    attrs = {"strides": strides, "pads": pads, "pad_value": 3, **_CLAMP}
    attrs |= {"dilations": dilations} if dilations != (1, 1) else {}
    attrs |= {"group": group} if group > 1 else {}
    return net.builder.finish((net.add("qconv2d", x, *constants, **attrs),))


def grouped_graph(inputs: int, outputs: int, size: int, groups: int, seed: int = 0) -> Graph:
    """A change of scale and a 3x3 convolution in `groups` groups of channels."""
    net = _Network("grouped", seed)
    x = net.add("qrescale", net.input(inputs, size), bias=0, mult=40000, shift=16, **_CLAMP)
    return net.builder.finish((net.conv(x, outputs, kernel=3, group=groups),))


def product_graph(rows: int, terms: int, columns: int, seed: int = 0) -> Graph:
    """A product of two matrices that are inputs, ``[rows, terms] · [terms, columns]``."""
    net = _Network("product", seed)
    a, b = (net.builder.add_input(name, TensorType(shape, "int8"))
            for name, shape in (("a", (rows, terms)), ("b", (terms, columns))))
    return net.builder.finish((net.add("qmatmul", a, b, trans_b=0, a_zp=0, b_zp=0, bias=0,
                                       mult=40000, shift=24, **_CLAMP),))


def resnet18_graph(size: int = 224, seed: int = 0) -> Graph:
    """ResNet-18 for `size` x `size` pixels, batch 1, 1,000 classes."""
    net = _Network("resnet18", seed)
    x = net.stem(size)
    for stage in range(4):
        for block in range(2):
            x = net.basic(x, 64 << stage, stride=2 if stage and not block else 1)
    return net.classes(x)


def resnet50_graph(size: int = 224, seed: int = 0) -> Graph:
    """ResNet-50 for `size` x `size` pixels, batch 1, 1,000 classes."""
    net = _Network("resnet50", seed)
    x = net.stem(size)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            x = net.bottleneck(x, 64 << stage, stride=2 if stage and not block else 1)
    return net.classes(x)


def residual_graph(channels: int, size: int, seed: int = 0) -> Graph:
    """A residual block with float arithmetic, which is the host's, between its convolutions."""
    net = _Network("residual", seed)
    x = net.conv(net.input(channels, size), channels, kernel=3)
    y = net.clipped(net.conv(x, channels, kernel=3))
    y = net.conv(y, channels, kernel=3)
    y = net.add("qadd", y, x, ma=40000, mb=23456, c=12345, shift=16, **_CLAMP)
    return net.builder.finish((net.conv(y, channels),))


def branches_graph(channels: int, size: int, seed: int = 0) -> Graph:
    """Three branches: a short one, one with float arithmetic of the host, one with a pool."""
    net = _Network("branches", seed)
    x = net.conv(net.input(channels, size), channels, kernel=3)
    float_ = net.clipped(net.conv(x, channels))
    pooled = net.conv(net.add("qmaxpool", x, kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)),
                      channels)
    y = net.add("qconcat", net.conv(x, channels), float_, pooled, bias=(0, 0, 0),
                mult=(40000, 45000, 50000), shift=(16, 16, 16), **_CLAMP)
    return net.builder.finish((net.conv(y, channels),))


def chain_graph(layers: int = 5, size: int = 10, seed: int = 0) -> Graph:
    """Convolutions one after the other, of random channels and kernels."""
    net = _Network("chain", seed)
    x = net.input(int(net.rng.integers(3, 17)), size)
    for _ in range(layers):
        x = net.conv(x, int(net.rng.integers(8, 25)), kernel=int(net.rng.choice((1, 3))))
    return net.builder.finish((x,))


def separable_graph(channels: int, size: int, blocks: int = 3, seed: int = 0) -> Graph:
    """Depthwise convolutions, each followed by a 1x1 convolution that mixes the channels."""
    net = _Network("separable", seed)
    x = net.input(channels, size)
    for _ in range(blocks):
        x = net.conv(net.conv(x, channels, kernel=3, group=channels), channels)
    return net.builder.finish((x,))


def detours_graph(size: int = 8, count: int = 3, seed: int = 0) -> Graph:
    """Float arithmetic on the host, with a small operator in between that the accelerator has."""
    net = _Network("detours", seed)
    x = net.input(4, size)
    for _ in range(count):
        x = net.clipped(net.add("qrescale", x, bias=0, mult=40000, shift=16, **_CLAMP))
    return net.builder.finish((x,))


class _Network:
    """An integer graph node by node; methods return the name of the value that they make."""

    def __init__(self, name: str, seed: int):
        self.builder = Builder(name)
        self.rng = np.random.default_rng(seed)

    def input(self, channels: int, size: int) -> str:
        return self.builder.add_input("x", TensorType((1, channels, size, size), "int8"))

    def add(self, op: str, *inputs: str, **attrs) -> str:
        name = self.builder.fresh_node(op if op == "quantize" else op.removeprefix("q"))
        result = self.builder.fresh(f"{name}.out")
        return self.builder.add(Node(op, name, inputs, (result,), Attrs(attrs)))

    def conv(self, x: str, channels: int, kernel: int = 1, stride: int = 1,
             group: int = 1) -> str:
        inputs = self.builder.values[x].shape[1] // group
        names = self.parameters((channels, inputs, kernel, kernel))
        return self.add("qconv2d", x, *names, strides=(stride, stride), pads=(kernel // 2,) * 4,
                        pad_value=3, group=group, **_CLAMP)

    def clipped(self, x: str) -> str:
        """A float operator between int8 values."""
        y = self.add("dequantize", x, scale=0.05, zp=3)
        return self.add("quantize", self.add("clip", y, lo=-5.0, hi=5.0), scale=0.05, zp=-2)

    def parameters(self, shape: tuple[int, ...]) -> list[str]:
        """Weights of a shape, and the requantization of each channel."""
        channels = shape[0]
        constants = {
            "w": self.rng.integers(-128, 128, shape).astype(np.int8),
            "bias": self.rng.integers(-1000, 1000, channels).astype(np.int32),
            "mult": self.rng.integers(1 << 15, 1 << 16, channels).astype(np.int32),
            "shift": np.full(channels, 26, np.int32)}
        return [self.builder.add_constant(self.builder.fresh(stem), array)
                for stem, array in constants.items()]

    def stem(self, size: int) -> str:
        x = self.conv(self.input(3, size), 64, kernel=7, stride=2)
        return self.add("qmaxpool", x, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))

    def classes(self, x: str) -> Graph:
        """Average over the image, then 1,000 classes."""
        pixels = int(np.prod(self.builder.values[x].shape[2:]))
        shift = 15 + int(np.ceil(np.log2(pixels)))
        x = self.add("qglobalavgpool", x, bias=0, mult=round((1 << shift) / pixels), shift=shift,
                     **_CLAMP)
        return self.builder.finish((self.conv(x, 1000),))

    def basic(self, x: str, channels: int, stride: int) -> str:
        """A basic block: two 3x3 convolutions beside the input, which a 1x1 reshapes where
        necessary.
        """
        y = self.conv(x, channels, kernel=3, stride=stride)
        return self._joined(self.conv(y, channels, kernel=3), x, channels, stride)

    def bottleneck(self, x: str, channels: int, stride: int) -> str:
        """A bottleneck: 1x1, 3x3, 1x1 beside the input, which a 1x1 reshapes where necessary."""
        y = self.conv(self.conv(x, channels), channels, kernel=3, stride=stride)
        return self._joined(self.conv(y, 4 * channels), x, 4 * channels, stride)

    def _joined(self, y: str, x: str, channels: int, stride: int) -> str:
        if self.builder.values[x].shape != self.builder.values[y].shape:
            x = self.conv(x, channels, stride=stride)
        return self.add("qadd", y, x, ma=40000, mb=23456, c=12345, shift=16, **_CLAMP)
