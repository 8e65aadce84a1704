"""Networks as lists of layers: what the functions of this room add to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]

INPUTS: dict[str, tuple[str, Callable[[int], Shape]]] = {
    **dict.fromkeys(("bert_small", "gpt_small", "llama_small"),
                    ("embeddings", lambda size: (size, 256))),
    **dict.fromkeys(("gpt_small_step", "llama_small_step"),
                    ("embeddings", lambda size: (1, 256))),
    "lstm": ("embeddings", lambda size: (size, 64)),
    "keywords": ("features", lambda size: (1, size, 10))}
"""Name and shape of the input by the network's name; of all others an image."""

FLOAT = "float32"


@dataclass(frozen=True, slots=True)
class ZooLayer:
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
        if self.op == "LSTM":
            return source[0] * sum(prod(self.parameters[role]) for role in ("weight", "recurrent"))
        if self.op == "MatMul":
            return prod(self.shape) * source[-1]
        if self.op not in ("Conv", "ConvTranspose", "Gemm"):
            return 0
        weight = self.parameters["weight"]
        if self.op == "Gemm":
            return prod(weight)
        return prod(weight[1:]) * prod(source if self.op == "ConvTranspose" else self.shape)


@dataclass(slots=True)
class ZooNetwork:
    """Layer after layer; each method adds some and returns the name of the value they make.

    `shapes` are of one image, or sequence. The batch is the first axis of a value, but for those in
    `batch_axes`; there is none if the network is not `batched`. `inputs` are those besides the
    source, `outputs` those besides the logits, `types` the element types of values that are no
    float32, and `constants` are those that several layers read. What a network of single steps
    learned is that of `whole`, which takes all steps at once; `alike` names, for values that this
    one has alone, a value or a constant there of the same range. What takes too long to be run has
    a `short` one of the same layers: its values have the same ranges, but fewer tokens.
    """

    name: str
    size: int
    batched: bool = True
    layers: list[ZooLayer] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    batch_axes: dict[str, int] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    whole: "ZooNetwork | None" = None
    short: "ZooNetwork | None" = None
    alike: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        shape = INPUTS[self.name][1](self.size) if self.name in INPUTS else (3, *[self.size] * 2)
        self.shapes[self.source] = shape

    def input(self, name: str, *shape: int, dtype: str = FLOAT) -> str:
        """One more input."""
        self.inputs.append(name)
        self.shapes[name], self.types[name] = shape, dtype
        return name

    def constant(self, name: str, array: Array) -> str:
        """A constant that is not drawn, the same for all layers that read it."""
        self.constants[name] = array
        return name

    @property
    def source(self) -> str:
        """The name of the input."""
        return INPUTS[self.name][0] if self.name in INPUTS else "image"

    def add(self, op: str, name: str, inputs: Sequence[str], shape: Shape,
            parameters: Mapping[str, Shape] | None = None, linear: bool = False,
            fixed: Mapping[str, Array] | None = None, **attributes: Any) -> str:
        layer = ZooLayer(op, name, tuple(inputs), f"{name}.out", shape, parameters or {},
                         attributes, linear, fixed or {})
        self.layers.append(layer)
        self.shapes[layer.output] = shape
        return layer.output

    def finish(self) -> "ZooNetwork":
        """The last value is the output."""
        last = self.layers[-1]
        self.layers[-1] = replace(last, output="logits")
        self.shapes["logits"] = self.shapes.pop(last.output)
        return self

    def whole_shape(self, value: str, batch: int) -> Shape:
        """The shape of a value for so many images."""
        if not self.batched:
            return self.shapes[value]
        axis, shape = self.batch_axes.get(value, 0), self.shapes[value]
        return (*shape[:axis], batch, *shape[axis:])

    def macs(self) -> list[int]:
        """Multiply-accumulates of each layer for one image."""
        return [layer.macs(self.shapes.get(layer.inputs[0], ())) for layer in self.layers]

    def count(self, *roles: str) -> int:
        """The number of parameters of these roles, of all roles unless told."""
        return sum(prod(shape) for layer in self.layers
                   for role, shape in layer.parameters.items() if not roles or role in roles)

    def conv(self, name: str, x: str, channels: int, kernel: int | Shape = 1, stride: int = 1,
             group: int = 1, bias: bool = False, pad: int | Shape | None = None) -> str:
        """Padded by half the kernel unless told: top, left, bottom, right."""
        sides = _pair(kernel)
        depth, pad = self.shapes[x][0], tuple(k // 2 for k in sides * 2) if pad is None else pad
        rows, columns = _windows(self.shapes[x], kernel, stride, pad)
        parameters = {"weight": (channels, depth // group, *sides)}
        return self.add("Conv", name, [x], (channels, rows, columns),
                        parameters | ({"bias": (channels,)} if bias else {}),
                        dilations=[1, 1], group=group, **_window(kernel, stride, pad))

    def conv_norm(self, conv: str, norm: str, x: str, channels: int, kernel: int = 1,
                  stride: int = 1, group: int = 1, *, linear: bool = False) -> str:
        x = self.conv(conv, x, channels, kernel, stride, group)
        return self.norm(norm, x, linear=linear)

    def norm(self, name: str, x: str, *, linear: bool = False) -> str:
        roles = ("weight", "bias", "running_mean", "running_var")
        return self.add("BatchNormalization", name, [x], self.shapes[x],
                        dict.fromkeys(roles, self.shapes[x][:1]), linear, epsilon=1e-5,
                        momentum=0.9)

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
        whole = (0, *shape) if self.batched else shape
        return self.add("Reshape", name, [x], shape, fixed={"shape": np.array(whole)})

    def transpose(self, name: str, x: str, *axes: int) -> str:
        """Axes of one image."""
        shape = tuple(self.shapes[x][axis] for axis in axes)
        perm = [0, *(axis + 1 for axis in axes)] if self.batched else list(axes)
        return self.add("Transpose", name, [x], shape, perm=perm)

    def matmul(self, name: str, x: str, y: str) -> str:
        """The product of two computed matrices."""
        return self.add("MatMul", name, [x, y], (*self.shapes[x][:-1], self.shapes[y][-1]))

    def product(self, name: str, x: str, channels: int, scale: float = 1.0, bias: bool = True
                ) -> str:
        """A dense layer on the last axis, exported as those of several dimensions are: weights
        [inputs, outputs], and the bias added behind. `scale` is of the weights.
        """
        *rows, depth = self.shapes[x]
        y = self.add("MatMul", name, [x], (*rows, channels), {"weight": (depth, channels)},
                     scale=scale)
        return self.shifted(f"{name}.add", y, channels) if bias else y

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


def _pair(kernel: int | Shape) -> Shape:
    return (kernel, kernel) if isinstance(kernel, int) else kernel


def _sides(pad: int | Shape) -> Shape:
    return (pad,) * 4 if isinstance(pad, int) else pad


def _windows(shape: Shape, kernel: int | Shape, stride: int, pad: int | Shape) -> Shape:
    pads = _sides(pad)
    return tuple((extent + pads[axis] + pads[axis + 2] - size) // stride + 1
                 for axis, (extent, size) in enumerate(zip(shape[1:], _pair(kernel), strict=True)))


def _window(kernel: int | Shape, stride: int, pad: int | Shape) -> dict[str, Any]:
    return {"kernel_shape": list(_pair(kernel)), "pads": list(_sides(pad)),
            "strides": [stride] * 2}
