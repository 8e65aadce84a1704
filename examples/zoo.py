"""Networks to start from, built by code: no download, no framework.

    python examples/zoo.py NAME [--int8] [--size N] [--batch N] [--seed N] -o FILE

writes an ONNX file with the layers and widths of the published network and seeded random weights:

| NAME | network | multiply-accumulates at 224 |
|---|---|---|
| resnet18, resnet34 | ResNet, basic blocks | 1.81 G, 3.66 G |
| resnet50 | ResNet, bottlenecks with the stride in the 3x3 (v1.5) | 4.09 G |
| mobilenet_v1 | MobileNet, width 1 | 569 M |
| mobilenet_v2 | MobileNet-v2, width 1, ReLU6 | 301 M |
| squeezenet | SqueezeNet 1.1, no batch norms | 349 M |
| vgg11 | VGG-11, no batch norms | 7.61 G |
| unet | U-Net, widths 64 to 1024, 2x2 transposed convolutions, 2 classes | 36.9 G |
| vit_small | vision transformer, patches of 8x8, 6 layers, width 192, 3 heads | 183 M at 64 |
| bert_small | BERT's encoder, 4 layers, width 256, 4 heads, 2 classes | 210 M, 64 tokens |

Counted are the products of convolutions, dense layers and matrices, for one image; biases, norms,
additions and pooling are not. Layers are named as in torchvision where the network is there, and a
layer `L` gives the value `L.out`. Input `image` [N,3,S,S], output `logits`: [N,1000], of the U-Net
[N,2,S,S]. That of BERT is `embeddings` [N,S,256]: S tokens, embedded. The first dense layer of
VGG-11 takes as many features as the size gives; the U-Net pads its 3x3 convolutions, so that its
skips need no crop, and has batch norms, as implementations of today do.

Weights have He's scale, biases are small. The statistics of each batch norm are those of the
values that reach it from a few random images, made coarser: values keep their range through the
depth. They depend on the size. `--int8` writes the QDQ form (see compiler/quantize) with the ranges
that the same images gave. Same arguments, same file, on the same machine and versions.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compiler.quantize import quantize_ranges
from examples import transformers
from examples.digits.export import IR_VERSION, OPSET
from lockstep.cli import Parser
from lockstep.commands._progress import progress_bar
from lockstep.errors import RequestError, output_file
from lockstep.files import whole_file

__all__ = ["NETWORKS", "Filled", "Layer", "Network", "build", "fill", "float_model", "images",
           "network", "samples"]

CLASSES = 1000
SMALLEST, LARGEST = 32, 1024        # image sizes; five halvings make 1 pixel of 32
MOST_BYTES = 2**31 - 2**24          # protobuf holds 2 GiB, names and shapes included
COLUMNS = 1 << 21                   # elements of a convolution's operand that stay in a cache

Array = np.ndarray
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """An ONNX node; shapes are for one image, without the batch axis.

    `parameters` has the shapes of its constants, by role and in the order of the node's inputs.
    `linear` marks a batch norm at the end of a residual branch or of a linear bottleneck; `fixed`
    has constants that are not drawn, which come last.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    output: str
    shape: Shape
    parameters: Mapping[str, Shape]
    attributes: Mapping[str, Any]
    linear: bool = False
    fixed: Mapping[str, Array] = field(default_factory=dict)

    def macs(self, source: Shape) -> int:
        """Multiply-accumulates for one image, whose shape before this layer is `source`."""
        if self.op == "MatMul":
            return prod(self.shape) * source[-1]
        if self.op not in ("Conv", "ConvTranspose", "Gemm"):
            return 0
        weight = self.parameters["weight"]
        if self.op == "Gemm":
            return prod(weight)
        return prod(weight[1:]) * prod(source if self.op == "ConvTranspose" else self.shape)


@dataclass(slots=True)
class Network:
    """Layer after layer; each method adds some and returns the name of the value they make."""

    name: str
    size: int
    layers: list[Layer] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)

    def __post_init__(self):
        self.shapes[self.source] = ((self.size, 256) if self.source == "embeddings"
                                    else (3, self.size, self.size))

    @property
    def source(self) -> str:
        """The name of the input."""
        return SOURCES.get(self.name, "image")

    def add(self, op: str, name: str, inputs: Sequence[str], shape: Shape,
            parameters: Mapping[str, Shape] | None = None, linear: bool = False,
            fixed: Mapping[str, Array] | None = None, **attributes: Any) -> str:
        layer = Layer(op, name, tuple(inputs), f"{name}.out", shape, parameters or {}, attributes,
                      linear, fixed or {})
        self.layers.append(layer)
        self.shapes[layer.output] = shape
        return layer.output

    def finish(self) -> "Network":
        """The last value is the output."""
        last = self.layers[-1]
        self.layers[-1] = replace(last, output="logits")
        self.shapes["logits"] = self.shapes.pop(last.output)
        return self

    def macs(self) -> list[int]:
        """Multiply-accumulates of each layer for one image."""
        return [layer.macs(self.shapes[layer.inputs[0]]) for layer in self.layers]

    def count(self, *roles: str) -> int:
        """How many numbers the parameters of these roles have, of all roles unless told."""
        return sum(prod(shape) for layer in self.layers
                   for role, shape in layer.parameters.items() if not roles or role in roles)

    def conv(self, name: str, x: str, channels: int, kernel: int = 1, stride: int = 1,
             group: int = 1, bias: bool = False, pad: int | None = None) -> str:
        """Padded by half the kernel unless told."""
        depth, pad = self.shapes[x][0], kernel // 2 if pad is None else pad
        rows, columns = _windows(self.shapes[x], kernel, stride, pad)
        parameters = {"weight": (channels, depth // group, kernel, kernel)}
        return self.add("Conv", name, [x], (channels, rows, columns),
                        parameters | ({"bias": (channels,)} if bias else {}),
                        dilations=[1, 1], group=group, **_window(kernel, stride, pad))

    def conv_norm(self, conv: str, norm: str, x: str, channels: int, kernel: int = 1,
                  stride: int = 1, group: int = 1, *, linear: bool = False) -> str:
        x = self.conv(conv, x, channels, kernel, stride, group)
        roles = ("weight", "bias", "running_mean", "running_var")
        return self.add("BatchNormalization", norm, [x], self.shapes[x],
                        dict.fromkeys(roles, (channels,)), linear, epsilon=1e-5, momentum=0.9)

    def double(self, name: str, x: str, channels: int) -> str:
        """The U-Net's two 3x3 convolutions."""
        for i in (1, 2):
            x = self.conv_norm(f"{name}.conv{i}", f"{name}.bn{i}", x, channels, 3)
            x = self.relu(f"{name}.relu{i}", x)
        return x

    def up(self, name: str, x: str, channels: int) -> str:
        """Transposed convolution 2x2 with stride 2."""
        depth, rows, columns = self.shapes[x]
        return self.add("ConvTranspose", name, [x], (channels, 2 * rows, 2 * columns),
                        {"weight": (depth, channels, 2, 2), "bias": (channels,)},
                        dilations=[1, 1], group=1, **_window(2, 2, 0))

    def relu(self, name: str, x: str) -> str:
        return self.add("Relu", name, [x], self.shapes[x])

    def relu6(self, name: str, x: str) -> str:
        return self.add("Clip", name, [x], self.shapes[x], {"min": (), "max": ()})

    def maxpool(self, name: str, x: str, kernel: int, stride: int, pad: int = 0) -> str:
        shape = (self.shapes[x][0], *_windows(self.shapes[x], kernel, stride, pad))
        return self.add("MaxPool", name, [x], shape, ceil_mode=0, **_window(kernel, stride, pad))

    def join(self, name: str, *inputs: str) -> str:
        """Concatenates the channels."""
        depth = sum(self.shapes[x][0] for x in inputs)
        return self.add("Concat", name, inputs, (depth, *self.shapes[inputs[0]][1:]), axis=1)

    def sum(self, name: str, *inputs: str) -> str:
        return self.add("Add", name, inputs, self.shapes[inputs[0]])

    def dense(self, name: str, x: str, channels: int) -> str:
        parameters = {"weight": (channels, *self.shapes[x]), "bias": (channels,)}
        return self.add("Gemm", name, [x], (channels,), parameters, alpha=1.0, beta=1.0, transB=1)

    def average(self, name: str, x: str) -> str:
        """Over the whole image, flattened."""
        x = self.add("GlobalAveragePool", name, [x], (self.shapes[x][0], 1, 1))
        return self.flatten("flatten", x)

    def flatten(self, name: str, x: str) -> str:
        return self.add("Flatten", name, [x], (prod(self.shapes[x]),), axis=1)

    def reshape(self, name: str, x: str, *shape: int) -> str:
        """0 is ONNX's word for the batch as it is."""
        return self.add("Reshape", name, [x], shape, fixed={"shape": np.array((0, *shape))})

    def transpose(self, name: str, x: str, *axes: int) -> str:
        """Axes of one image."""
        shape = tuple(self.shapes[x][axis] for axis in axes)
        return self.add("Transpose", name, [x], shape, perm=[0, *(axis + 1 for axis in axes)])

    def matmul(self, name: str, x: str, y: str) -> str:
        """Of two computed values."""
        return self.add("MatMul", name, [x, y], (*self.shapes[x][:-1], self.shapes[y][-1]))

    def product(self, name: str, x: str, channels: int, scale: float = 1.0) -> str:
        """A dense layer on the last axis, exported as those of several dimensions are: weights
        [inputs, outputs], and the bias added behind. `scale` is of the weights.
        """
        *rows, depth = self.shapes[x]
        y = self.add("MatMul", name, [x], (*rows, channels), {"weight": (depth, channels)},
                     scale=scale)
        return self.shifted(f"{name}.add", y, channels)

    def shifted(self, name: str, x: str, *shape: int) -> str:
        """Adds a bias."""
        return self.add("Add", name, [x], self.shapes[x], {"bias": shape})

    def scalar(self, op: str, name: str, x: str, value: float) -> str:
        return self.add(op, name, [x], self.shapes[x], fixed={"value": np.array(value, np.float32)})

    def normalized(self, name: str, x: str) -> str:
        """Over the last axis."""
        shape = self.shapes[x][-1:]
        return self.add("LayerNormalization", name, [x], self.shapes[x],
                        {"weight": shape, "bias": shape}, axis=-1, epsilon=1e-5)


def _windows(shape: Shape, kernel: int, stride: int, pad: int) -> Shape:
    return tuple((extent + 2 * pad - kernel) // stride + 1 for extent in shape[1:])


def _window(kernel: int, stride: int, pad: int) -> dict[str, Any]:
    return {"kernel_shape": [kernel] * 2, "pads": [pad] * 4, "strides": [stride] * 2}


def resnet(net: Network, block: Callable[[Network, str, str, int, int], str],
           counts: Sequence[int]) -> None:
    """He, Zhang, Ren, Sun: Deep residual learning for image recognition, 2015."""
    x = net.relu("relu", net.conv_norm("conv1", "bn1", "image", 64, 7, stride=2))
    x = net.maxpool("maxpool", x, 3, 2, pad=1)
    for stage, count in enumerate(counts):
        for i in range(count):
            x = block(net, f"layer{stage + 1}.{i}", x, 64 << stage, 2 if stage and not i else 1)
    net.dense("fc", net.average("avgpool", x), CLASSES)


def basic_block(net: Network, name: str, x: str, channels: int, stride: int) -> str:
    y = net.conv_norm(f"{name}.conv1", f"{name}.bn1", x, channels, 3, stride)
    y = net.relu(f"{name}.relu", y)
    y = net.conv_norm(f"{name}.conv2", f"{name}.bn2", y, channels, 3, linear=True)
    return _residual(net, name, y, x, stride, "relu_1")


def bottleneck(net: Network, name: str, x: str, channels: int, stride: int) -> str:
    y = net.conv_norm(f"{name}.conv1", f"{name}.bn1", x, channels)
    y = net.relu(f"{name}.relu", y)
    y = net.conv_norm(f"{name}.conv2", f"{name}.bn2", y, channels, 3, stride)
    y = net.relu(f"{name}.relu_1", y)
    y = net.conv_norm(f"{name}.conv3", f"{name}.bn3", y, 4 * channels, linear=True)
    return _residual(net, name, y, x, stride, "relu_2")


def _residual(net: Network, name: str, y: str, x: str, stride: int, relu: str) -> str:
    """A 1x1 brings the block's input to the shape of its result where it has another."""
    if net.shapes[x] != net.shapes[y]:
        x = net.conv_norm(f"{name}.downsample.0", f"{name}.downsample.1", x, net.shapes[y][0],
                          stride=stride)
    return net.relu(f"{name}.{relu}", net.sum(f"{name}.add", y, x))


def mobilenet_v1(net: Network) -> None:
    """Howard et al.: MobileNets, 2017."""
    x = net.relu("relu", net.conv_norm("conv", "bn", "image", 32, 3, stride=2))
    widths = (64, 128, 128, 256, 256, *[512] * 6, 1024, 1024)
    for i, channels in enumerate(widths, 1):
        depth, stride = net.shapes[x][0], 2 if i in (2, 4, 6, 12) else 1
        for part, *shape in (("dw", depth, 3, stride, depth), ("pw", channels)):
            y = net.conv_norm(f"block{i}.{part}.conv", f"block{i}.{part}.bn", x, *shape)
            x = net.relu(f"block{i}.{part}.relu", y)
    net.dense("fc", net.average("avgpool", x), CLASSES)


def mobilenet_v2(net: Network) -> None:
    """Sandler et al.: MobileNetV2, inverted residuals and linear bottlenecks, 2018."""
    def convolution(name: str, x: str, *shape: int) -> str:
        return net.relu6(f"{name}.2", net.conv_norm(f"{name}.0", f"{name}.1", x, *shape))

    x, block = convolution("features.0", "image", 32, 3, 2), 0
    for expansion, channels, count, first in (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)):
        for stride in [first] + [1] * (count - 1):
            block += 1
            name, y, part = f"features.{block}", x, 0
            if expansion > 1:
                y, part = convolution(f"{name}.conv.0", y, expansion * net.shapes[x][0]), 1
            width = net.shapes[y][0]
            y = convolution(f"{name}.conv.{part}", y, width, 3, stride, width)
            y = net.conv_norm(f"{name}.conv.{part + 1}", f"{name}.conv.{part + 2}", y, channels,
                              linear=True)
            x = net.sum(f"{name}.add", x, y) if net.shapes[x] == net.shapes[y] else y
    x = convolution("features.18", x, 1280)
    net.dense("classifier.1", net.average("avgpool", x), CLASSES)


def squeezenet(net: Network) -> None:
    """Iandola et al.: SqueezeNet, 2016; the variant 1.1."""
    def convolution(name: str, relu: str, x: str, *shape: int, **options: Any) -> str:
        return net.relu(relu, net.conv(name, x, *shape, bias=True, **options))

    x = convolution("features.0", "features.1", "image", 64, 3, 2, pad=0)
    squeezed = {3: 16, 4: 16, 6: 32, 7: 32, 9: 48, 10: 48, 11: 64, 12: 64}
    for i in range(2, 13):
        name = f"features.{i}"
        if i not in squeezed:
            x = net.maxpool(name, x, 3, 2)
            continue
        x = convolution(f"{name}.squeeze", f"{name}.squeeze_activation", x, squeezed[i])
        x = net.join(f"{name}.concat", *(
            convolution(f"{name}.expand{k}x{k}", f"{name}.expand{k}x{k}_activation", x,
                        4 * squeezed[i], k) for k in (1, 3)))
    net.average("classifier.3", convolution("classifier.1", "classifier.2", x, CLASSES))


def vgg11(net: Network) -> None:
    """Simonyan, Zisserman: Very deep convolutional networks, 2014; configuration A."""
    x, i = "image", 0
    for channels in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if channels:
            x = net.conv(f"features.{i}", x, channels, 3, bias=True)
            x, i = net.relu(f"features.{i + 1}", x), i + 2
        else:
            x, i = net.maxpool(f"features.{i}", x, 2, 2), i + 1
    x = net.flatten("flatten", x)
    for i in (0, 3):
        x = net.relu(f"classifier.{i + 1}", net.dense(f"classifier.{i}", x, 4096))
    net.dense("classifier.6", x, CLASSES)


def unet(net: Network) -> None:
    """Ronneberger, Fischer, Brox: U-Net, 2015."""
    x, skips = net.double("down0", "image", 64), []
    for i in range(1, 5):
        skips.append(x)
        x = net.double(f"down{i}", net.maxpool(f"down{i}.pool", x, 2, 2), 64 << i)
    for i, skip in enumerate(reversed(skips), 1):
        x = net.up(f"up{i}.up", x, net.shapes[skip][0])
        x = net.double(f"up{i}", net.join(f"up{i}.concat", skip, x), net.shapes[skip][0])
    net.conv("out", x, 2, bias=True)


NETWORKS: dict[str, Callable[[Network], None]] = {
    "resnet18": partial(resnet, block=basic_block, counts=(2, 2, 2, 2)),
    "resnet34": partial(resnet, block=basic_block, counts=(3, 4, 6, 3)),
    "resnet50": partial(resnet, block=bottleneck, counts=(3, 4, 6, 3)),
    "mobilenet_v1": mobilenet_v1, "mobilenet_v2": mobilenet_v2, "squeezenet": squeezenet,
    "vgg11": vgg11, "unet": unet, "vit_small": transformers.vit_small,
    "bert_small": transformers.bert_small,
}
MULTIPLES = {"unet": 16,            # four halvings that the way up must meet again
             "vit_small": transformers.PATCH}
SIZES = {"vit_small": 64, "bert_small": 64}     # unless told; of all others 224
SOURCES = {"bert_small": "embeddings"}          # the input; of all others an image


def network(name: str, size: int | None = None) -> Network:
    """The layers of one of `NETWORKS` for images of size x size, or for `size` tokens. Raises
    RequestError.
    """
    size = SIZES.get(name, 224) if size is None else size
    multiple = MULTIPLES.get(name, 1)
    if not SMALLEST <= size <= LARGEST:
        raise RequestError(f"--size must be {SMALLEST} to {LARGEST}, not {size}")
    if size % multiple:
        raise RequestError(f"--size must be a multiple of {multiple} for {name}, not {size}")
    net = Network(name, size)
    NETWORKS[name](net)
    return net.finish()


@dataclass(frozen=True, slots=True)
class Filled:
    """Parameters by name, and of each value the least and greatest element over some images."""

    parameters: dict[str, Array]
    ranges: dict[str, tuple[float, float]]


def images(size: int, seed: int) -> Array:
    """Random images [2 to 16, 3, size, size] with the structure of photographs, as much at every
    scale, normalized as those of ImageNet: mean 0, standard deviation 1, at most 2.5.

    The smaller, the more, since each gives fewer values in the last layers.
    """
    rng = np.random.default_rng(seed)
    count = min(16, max(2, 2 * (224 // size) ** 2))
    total = np.zeros((count, 3, size, size), np.float32)
    cells = (1, 4, 16, 64)
    for cell in cells:
        few = rng.standard_normal((count, 3, -(-size // cell), -(-size // cell)), np.float32)
        total += few.repeat(cell, axis=2).repeat(cell, axis=3)[:, :, :size, :size]
    return np.clip(total / np.float32(len(cells) ** 0.5), -2.5, 2.5)


def samples(net: Network, seed: int) -> Array:
    """Random inputs: `images`, or rows as layers of embeddings give them."""
    if net.source == "image":
        return images(net.size, seed)
    return np.random.default_rng(seed).standard_normal((8, *net.shapes[net.source]), np.float32)


def fill(net: Network, seed: int = 0, done: Callable[[int], None] = lambda macs: None) -> Filled:
    """Draws all parameters while random images go through the network; `done` hears of progress
    in multiply-accumulates for one image.
    """
    rng = np.random.default_rng([seed, 1])      # other numbers than those of the images
    values = {net.source: samples(net, seed)}
    last = {value: layer for layer in net.layers for value in layer.inputs}
    filled = Filled({}, {net.source: _range(values[net.source])})
    for layer, macs in zip(net.layers, net.macs(), strict=True):
        inputs = [values[value] for value in layer.inputs]
        drawn = _draw(layer, rng, inputs[0])
        filled.parameters.update({f"{layer.name}.{role}": one for role, one in drawn.items()})
        made = MEANING[layer.op](layer.attributes, *inputs, *drawn.values())
        filled.ranges[layer.output] = _range(made)
        values[layer.output] = made
        for value in layer.inputs:
            if last[value] is layer:
                values.pop(value, None)
        done(macs)
    return filled


def _range(array: Array) -> tuple[float, float]:
    return float(array.min()), float(array.max())


def _draw(layer: Layer, rng: np.random.Generator, x: Array) -> dict[str, Array]:
    """The layer's parameters by role, float32."""
    if layer.op == "BatchNormalization":
        return _statistics(rng, x, layer.linear)
    if layer.op == "Clip":
        return {"min": np.array(0, np.float32), "max": np.array(6, np.float32)}
    drawn = {role: rng.standard_normal(shape, np.float32)
             for role, shape in layer.parameters.items()}
    if "weight" in drawn:
        drawn["weight"] = _weight(layer, drawn["weight"])
    if "bias" in drawn:
        drawn["bias"] *= np.float32(0.1)
    return drawn | dict(layer.fixed)


def _weight(layer: Layer, drawn: Array) -> Array:
    if layer.op == "LayerNormalization":
        return 1 + np.float32(0.1) * drawn
    # Each result of a 2x2 transposed convolution with stride 2 has one product a channel.
    turned, scale = layer.op in ("ConvTranspose", "MatMul"), layer.attributes.get("scale", 1)
    fan_in = drawn.shape[0] if turned else prod(drawn.shape[1:])
    return drawn * np.float32(scale * (2 / fan_in) ** 0.5)


def _statistics(rng: np.random.Generator, x: Array, linear: bool) -> dict[str, Array]:
    """A batch norm's parameters. Its statistics are those of x, off by some percent as if taken
    from other images; half of a variance is the layer's mean, so that a few values of one channel
    cannot make an outlier.

    What training does for a network, the weights and biases have to do here: with biases about 0.5
    most values pass the Relu behind, and with small weights at the end of a residual branch its
    input does. Else a small error, of quantization say, grows with every layer.
    """
    channels = x.shape[1]
    mean, variance = (f(x, axis=(0, 2, 3), dtype=np.float64) for f in (np.mean, np.var))
    variance = (variance + variance.mean()) / 2
    parameters = {
        "weight": (0.3 if linear else 1) * rng.uniform(0.5, 1.5, channels),
        "bias": rng.normal(0 if linear else 0.5, 0.2, channels),
        "running_mean": mean + 0.1 * np.sqrt(variance) * rng.standard_normal(channels),
        "running_var": variance * rng.uniform(0.8, 1.25, channels)}
    return {role: array.astype(np.float32) for role, array in parameters.items()}


def _views(x: Array, attributes: Mapping[str, Any], value: float) -> Array:
    """A view [N, C, Ho, Wo, kh, kw] of the windows over x padded with the value."""
    (top, left, bottom, right), strides = attributes["pads"], attributes["strides"]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)
    kernel = tuple(attributes["kernel_shape"])
    views = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))
    return views[:, :, ::strides[0], ::strides[1]]


def _conv(attributes: Mapping[str, Any], x: Array, weight: Array, bias: Array | None = None
          ) -> Array:
    """In float32 and in bands of rows: several times as fast as the compiler's reference, which
    the calibration of a U-Net would wait minutes for.
    """
    views = _views(x, attributes, 0)
    count, _, rows, columns = views.shape[:4]
    made = np.zeros((count, len(weight), rows, columns), np.float32)
    if attributes["group"] > 1:
        for i, j in np.ndindex(weight.shape[2:]):       # depthwise
            made += weight[:, 0, i, j, None, None] * views[..., i, j]
    else:
        flat = weight.reshape(len(weight), -1)
        step = max(1, COLUMNS // (count * columns * flat.shape[1]))
        for row in range(0, rows, step):
            band = views[:, :, row:row + step].transpose(1, 4, 5, 0, 2, 3)
            sums = flat @ band.reshape(flat.shape[1], -1)
            made[:, :, row:row + step] = sums.reshape(-1, *band.shape[3:]).swapaxes(0, 1)
    return made if bias is None else made + bias[:, None, None]


def _up(attributes: Mapping[str, Any], x: Array, weight: Array, bias: Array) -> Array:
    """Windows that do not overlap: kernel and stride are 2."""
    sums = np.einsum("ck,nchw->nkhw", weight.reshape(len(weight), -1), x, optimize=True)
    count, _, rows, columns = sums.shape
    parts = sums.reshape(count, -1, 2, 2, rows, columns).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(count, -1, 2 * rows, 2 * columns) + bias[:, None, None]


def _norm(attributes: Mapping[str, Any], x: Array, weight: Array, bias: Array, mean: Array,
          variance: Array) -> Array:
    gain = weight / np.sqrt(variance + np.float32(attributes["epsilon"]))
    return x * gain[:, None, None] + (bias - mean * gain)[:, None, None]


MEANING: dict[str, Callable[..., Array]] = {
    "Conv": _conv, "ConvTranspose": _up, "BatchNormalization": _norm,
    "Relu": lambda attributes, x: np.maximum(x, np.float32(0)),
    "Clip": lambda attributes, x, low, high: np.clip(x, low, high),
    "MaxPool": lambda attributes, x: _views(x, attributes, -np.inf).max(axis=(4, 5)),
    "GlobalAveragePool": lambda attributes, x: x.mean(axis=(2, 3), keepdims=True),
    "Concat": lambda attributes, *inputs: np.concatenate(inputs, axis=1),
    "Add": lambda attributes, a, b: a + b,
    "Flatten": lambda attributes, x: x.reshape(len(x), -1),
    "Gemm": lambda attributes, x, weight, bias: x @ weight.T + bias,
    **transformers.MEANING,
}


def float_model(net: Network, filled: Filled, batch: int = 1) -> onnx.ModelProto:
    """The float32 network, every value with its shape."""
    nodes = [helper.make_node(
        layer.op, [*layer.inputs, *(f"{layer.name}.{role}" for role in
                                    (*layer.parameters, *layer.fixed))],
        [layer.output], layer.name, **{name: value for name, value in layer.attributes.items()
                                       if name != "scale"}) for layer in net.layers]
    typed = {value: helper.make_tensor_value_info(value, TensorProto.FLOAT, (batch, *shape))
             for value, shape in net.shapes.items()}
    first, last = typed.pop(net.source), typed.pop("logits")
    graph = helper.make_graph(
        nodes, net.name, [first], [last], value_info=list(typed.values()),
        initializer=[numpy_helper.from_array(one, name) for name, one in filled.parameters.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                             ir_version=IR_VERSION, producer_name="lockstep-zoo")


def build(name: str, size: int | None = None, batch: int = 1, seed: int = 0, int8: bool = False,
          done: Callable[[int], None] = lambda macs: None) -> onnx.ModelProto:
    """The model that the command writes, accepted by ONNX's checker. Raises RequestError."""
    net = network(name, size)
    if 4 * net.count() > MOST_BYTES:
        raise RequestError(f"--size {net.size} would give {name} {4 * net.count() / 1e9:.2f} GB of "
                           "weights, and an ONNX file holds 2; give a smaller size")
    filled = fill(net, seed, done)
    model = float_model(net, filled, batch)
    model = quantize_ranges(model, filled.ranges) if int8 else model
    onnx.checker.check_model(model, full_check=True)
    return model


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0, or 2 after one line on what is wrong with the request."""
    try:
        args = _arguments(argv)
        net, done = network(args.name, args.size), [0]
        with whole_file(args.output) as file, \
                progress_bar(args.name, sum(net.macs()), lambda: sum(done)):
            model = build(args.name, args.size, args.batch, args.seed, args.int8, done.append)
            data = model.SerializeToString(deterministic=True)
            file.write(data)
    except RequestError as error:
        print(f"zoo: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    shape = "x".join(map(str, (args.batch, *net.shapes[net.source])))
    print(f"{args.output}: {args.name} {'int8' if args.int8 else 'float32'}, {shape}, "
          f"{sum(net.macs()) / 1e9:.3f} G multiply-accumulates an image, "
          f"{net.count('weight', 'bias') / 1e6:.2f} M parameters, "
          f"{len(data) / 1e6:.1f} MB")
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="zoo", description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME", choices=list(NETWORKS), help=", ".join(NETWORKS))
    parser.add_argument("--int8", action="store_true", help="quantized, in the QDQ form")
    parser.add_argument("--size", type=int, metavar="N",
                        help=f"image height and width, or tokens, {SMALLEST} to {LARGEST} (default "
                             "224, of transformers 64)")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="images (default 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("-o", dest="output", type=output_file, required=True, metavar="FILE",
                        help="the ONNX file to write")
    args = parser.parse_args(argv)
    for option, low, high in (("batch", 1, 1024), ("seed", 0, 2**63 - 1)):
        value = getattr(args, option)
        if not low <= value <= high:
            raise RequestError(f"--{option} must be {low} to {high}, not {value}")
    return args


if __name__ == "__main__":
    sys.exit(main())
