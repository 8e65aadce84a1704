"""The step of a decoder as an ONNX model, written with the weights of a file."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from compiler.frontend.decoders.layers import (DecoderSizes, DecoderStart, Shape, gpt_layers,
                                               llama_layers)
from compiler.frontend.onnx.nodes.writer import Loaded, OnnxWriter

Array = np.ndarray
PLACES = "places"
"""The open dimension of caches."""

MASK = np.float32(-10000)
"""The score of a token that is not seen."""


class StepWriter:
    """A `DecoderNetwork` of one token at the input `position`, of caches of any number of places.
    `weights` gives the constant of a role of a layer, ``LAYER.ROLE``, in the shape that is said.
    """

    size = 1

    def __init__(self, name: str, weights: Callable[[str, Shape], Array]):
        self.write, self.weights = OnnxWriter(name), weights
        self.shapes: dict[str, Shape] = {}
        self.outputs: list[str] = []
        self.alike: dict[str, str] = {}
        self.caches: list[tuple[str, int]] = []

    def input(self, name: str, *shape: int, dtype: str = "float32") -> str:
        """A cache, whose places are open: the extent of `size`, which keys have first."""
        axis = 0 if name.endswith("keys.past") else len(shape) - 1
        dims = [PLACES if place == axis else extent for place, extent in enumerate(shape)]
        self.write.add_input(name, dtype, dims)
        self.caches.append((name, axis))
        return name

    def add(self, op: str, name: str, inputs: Sequence[str], shape: Shape,
            parameters: Mapping[str, Shape] | None = None, linear: bool = False,
            fixed: Mapping[str, Array] | None = None, **attributes: Any) -> str:
        self.write.begin(name)
        attributes.pop("scale", None)       # the file's weights have it
        constants = [self.write.constant(self.weights(f"{name}.{role}", extents), f"{name}.{role}")
                     for role, extents in (parameters or {}).items()]
        constants += [self.write.constant(array) for array in (fixed or {}).values()]
        if axes := attributes.pop("axes", None):        # an input since opset 18
            constants.append(self.write.integers(*axes))
        made = self.write.node(op, [*inputs, *constants], self.write.fresh(f"{name}.out"),
                               **attributes)
        self.shapes[made] = shape
        return made

    def reshape(self, name: str, x: str, *shape: int) -> str:
        return self.add("Reshape", name, [x], shape, fixed={"shape": np.array(shape)})

    def transpose(self, name: str, x: str, *axes: int) -> str:
        return self.add("Transpose", name, [x], tuple(self.shapes[x][axis] for axis in axes),
                        perm=axes)

    def matmul(self, name: str, x: str, y: str) -> str:
        return self.add("MatMul", name, [x, y], (*self.shapes[x][:-1], self.shapes[y][-1]))

    def product(self, name: str, x: str, channels: int, scale: float = 1.0, bias: bool = True
                ) -> str:
        *rows, depth = self.shapes[x]
        y = self.add("MatMul", name, [x], (*rows, channels), {"weight": (depth, channels)})
        return self.add("Add", f"{name}.add", [y], (*rows, channels),
                        {"bias": (channels,)}) if bias else y

    def sum(self, name: str, *inputs: str) -> str:
        return self.add("Add", name, inputs, self.shapes[inputs[0]])

    def scalar(self, op: str, name: str, x: str, value: float) -> str:
        return self.add(op, name, [x], self.shapes[x], fixed={"value": np.array(value, np.float32)})

    def normalized(self, name: str, x: str) -> str:
        shape = self.shapes[x][-1:]
        return self.add("LayerNormalization", name, [x], self.shapes[x],
                        {"weight": shape, "bias": shape}, axis=-1, epsilon=self.epsilon)

    epsilon = 1e-5

    def row(self, name: str, index: str, shape: Shape) -> str:
        """The row of a table that `weights` has, [rows, ...], at the index."""
        self.write.begin(name)
        table = self.write.constant(self.weights(name, (-1, *shape[1:])), name)
        made = self.write.node("Gather", [table, index], self.write.fresh(f"{name}.row"), axis=0)
        self.shapes[made] = shape
        return made


def gpt_step(net: StepWriter, sizes: DecoderSizes, places: int) -> Loaded:
    """GPT-2; `places` are those of caches unless told otherwise."""
    begin, x = _begin(net, sizes)
    net.epsilon = sizes.epsilon
    position = net.row("positions", "position", (1, sizes.width))
    gpt_layers(net, begin, net.sum("embedded", x, position), _gelu)
    return _finished(net, sizes, places)


def llama_step(net: StepWriter, sizes: DecoderSizes, places: int) -> Loaded:
    """Llama; `places` are those of caches unless told otherwise."""
    begin, x = _begin(net, sizes)
    turns = [net.row(f"rotary.{name}", "position", (1, 1, sizes.depth))
             for name in ("cosines", "sines")]
    llama_layers(net, begin, x, turns)
    return _finished(net, sizes, places)


def _gelu(net: StepWriter, name: str, x: str) -> str:
    """GPT-2's: by a hyperbolic tangent."""
    return net.add("Gelu", name, [x], net.shapes[x], approximate="tanh")


def _begin(net: StepWriter, sizes: DecoderSizes) -> tuple[DecoderStart, str]:
    """Constants that layers share, and the embedded token; there are as many places as the first
    cache has."""
    write = net.write
    for name in ("token", "position"):
        write.add_input(name, "int64", [1])
    x = net.row("embeddings", "token", (1, sizes.width))
    write.begin("places")
    count = write.node("Gather", [write.node("Shape", ["layer0.keys.past"]), write.constant(
        np.array(0))], axis=0)
    places = write.node("Range", [write.constant(np.array(0)), count, write.constant(np.array(1))])
    for part, shape in (("keys", (-1, 1, 1)), ("values", (1, 1, -1))):
        write.begin(f"{part}.at")
        laid = write.node("Reshape", [places, write.integers(*shape)])
        write.node("Equal", [laid, "position"], write.fresh(f"{part}.at.out"))
    write.begin("seen")
    seen = write.node("LessOrEqual", [laid, "position"], write.fresh("seen.out"))
    write.constant(MASK, "unseen")
    return DecoderStart(sizes, True, seen), x


def _finished(net: StepWriter, sizes: DecoderSizes, places: int) -> Loaded:
    write = net.write
    last = write.nodes[-1]
    last.output[0] = "logits"
    write.add_output("logits", "float32", [1, sizes.words])
    for value in net.outputs:
        write.add_output(value, "float32", net.shapes[value])
    return Loaded(write.model(), {f"{name}.{axis}": places for name, axis in net.caches})
