"""Layers of decoders: language models that make one token after another.

Keys are [tokens, heads, depth], values [heads, depth, tokens]: that is how products read them.
A network has one sequence, [tokens, channels], or a batch of them as a first axis of all of these,
whose tokens are at one position. Heads are cut out of the channels by Reshape and Transpose; where
several heads share keys and values, their queries are the rows of one product.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Protocol

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]


class DecoderNetwork(Protocol):
    """Writes a network; each method adds nodes and returns the value they make.
    `shapes` are those of values, `outputs` those besides the logits, `alike` names values of the
    same range."""

    size: int
    shapes: dict[str, Shape]
    outputs: list[str]
    alike: dict[str, str]

    def input(self, name: str, *shape: int, dtype: str = "float32") -> str: ...
    def add(self, op: str, name: str, inputs: Sequence[str], shape: Shape,
            parameters: Mapping[str, Shape] | None = None, linear: bool = False,
            fixed: Mapping[str, Array] | None = None, **attributes: Any) -> str: ...
    def reshape(self, name: str, x: str, *shape: int) -> str: ...
    def transpose(self, name: str, x: str, *axes: int) -> str: ...
    def matmul(self, name: str, x: str, y: str) -> str: ...
    def product(self, name: str, x: str, channels: int, scale: float = 1.0, bias: bool = True
                ) -> str: ...
    def sum(self, name: str, *inputs: str) -> str: ...
    def scalar(self, op: str, name: str, x: str, value: float) -> str: ...
    def normalized(self, name: str, x: str) -> str: ...


@dataclass(frozen=True, slots=True)
class DecoderSizes:
    """`shared` heads of queries read one head of keys and values; `hidden` channels are between the
    layers of a feed-forward part; `words` logits are made for each token; there are `batch`
    sequences, 0: one, without an axis for it. `epsilon` is that of RMS norms.
    """

    layers: int
    width: int
    heads: int
    shared: int
    hidden: int
    words: int = 1000
    batch: int = 0
    epsilon: float = 1e-5

    @property
    def around(self) -> tuple[int, ...]:
        """The axis of sequences, if there is one."""
        return (self.batch,) if self.batch else ()

    @property
    def depth(self) -> int:
        """Channels of a head."""
        return self.width // self.heads

    @property
    def groups(self) -> int:
        """Heads of keys and of values."""
        return self.heads // self.shared


@dataclass(frozen=True, slots=True)
class DecoderStart:
    """The start that all layers share: sizes, and the mask or, of a step, which places are seen."""

    sizes: DecoderSizes
    step: bool
    seen: str


def gpt_layers(net: DecoderNetwork, begin: DecoderStart, x: str,
               gelu: Callable[[Any, str, str], str]) -> None:
    """Radford et al.: Language models are unsupervised multitask learners (GPT-2), 2019; behind
    embeddings and positions.
    """
    sizes = begin.sizes
    for i in range(sizes.layers):
        name = f"layer{i}"
        y = net.normalized(f"{name}.norm1", x)
        parts = [net.product(f"{name}.attention.{part}", y, sizes.width, scale)
                 for part, scale in (("query", 1 / sqrt(sizes.depth)), ("key", 1), ("value", 1))]
        query = _heads(net, f"{name}.attention.query", parts[0], sizes.heads)
        y = attention(net, begin, name, query, *parts[1:])
        x = net.sum(f"{name}.add", x, net.product(f"{name}.attention.output", y, sizes.width))
        y = net.product(f"{name}.fc1", net.normalized(f"{name}.norm2", x), sizes.hidden)
        y = net.product(f"{name}.fc2", gelu(net, f"{name}.gelu", y), sizes.width)
        x = net.sum(f"{name}.add_1", x, y)
    net.product("words", net.normalized("norm", x), sizes.words, bias=False)


def llama_layers(net: DecoderNetwork, begin: DecoderStart, x: str, turns: list[str]) -> None:
    """Touvron et al.: Llama, 2023; with grouped queries, behind embeddings. `turns` are the cosines
    and sines of positions.
    """
    sizes = begin.sizes
    for i in range(sizes.layers):
        name = f"layer{i}"
        y = rms_normalized(net, f"{name}.norm1", x, sizes.epsilon)
        inner = sizes.groups * sizes.depth
        parts = [net.product(f"{name}.attention.{part}", y, channels, scale, bias=False)
                 for part, channels, scale in (("query", sizes.width, 1 / sqrt(sizes.depth)),
                                               ("key", inner, 1), ("value", inner, 1))]
        query, key = (rotated(net, f"{name}.attention.{part}.rotary", _heads(
            net, f"{name}.attention.{part}", y, heads), turns) for part, y, heads in (
                ("query", parts[0], sizes.heads), ("key", parts[1], sizes.groups)))
        y = attention(net, begin, name, query, key, parts[2])
        y = net.product(f"{name}.attention.output", y, sizes.width, bias=False)
        x = net.sum(f"{name}.add", x, y)
        y = rms_normalized(net, f"{name}.norm2", x, sizes.epsilon)
        gate, up = (net.product(f"{name}.{part}", y, sizes.hidden, bias=False)
                    for part in ("gate", "up"))
        silu = net.add("Mul", f"{name}.silu", [gate, net.add(
            "Sigmoid", f"{name}.sigmoid", [gate], net.shapes[gate])], net.shapes[gate])
        y = net.add("Mul", f"{name}.gated", [silu, up], net.shapes[up])
        x = net.sum(f"{name}.add_1", x, net.product(f"{name}.down", y, sizes.width, bias=False))
    net.product("words", rms_normalized(net, "norm", x, sizes.epsilon), sizes.words,
                bias=False)


def attention(net: DecoderNetwork, begin: DecoderStart, name: str, query: str, key: str,
              value: str) -> str:
    """Adds the attention of queries [tokens, heads, depth] over what is seen; returns its value."""
    sizes, tokens = begin.sizes, net.shapes[query][-3]
    groups, shared, depth, around = sizes.groups, sizes.shared, sizes.depth, sizes.around
    inner = f"{name}.attention"

    def turned(part: str, x: str, *axes: int) -> str:
        """Transposes the axes of one sequence."""
        ahead = len(around)
        return net.transpose(part, x, *range(ahead), *(ahead + axis for axis in axes))

    if shared > 1:
        query = net.reshape(f"{inner}.grouped", query, *around, tokens, groups, shared, depth)
        query = turned(f"{inner}.query.transpose", query, 1, 2, 0, 3)
        query = net.reshape(f"{inner}.query.rows", query, *around, groups, shared * tokens, depth)
    else:
        query = turned(f"{inner}.query.transpose", query, 1, 0, 2)
    key = net.reshape(f"{name}.keys", key, *around, tokens, groups, depth)
    key = turned(f"{inner}.key.transpose", _remembered(net, begin, f"{name}.keys", key, 0), 1, 2, 0)
    value = net.reshape(f"{inner}.value.heads", value, *around, tokens, groups, depth)
    value = turned(f"{name}.values", value, 1, 2, 0)
    value = turned(f"{inner}.value.transpose", _remembered(net, begin, f"{name}.values", value, 2),
                   0, 2, 1)
    scores = net.matmul(f"{inner}.scores", query, key)
    shape = net.shapes[scores]
    if begin.step:
        scores = net.add("Where", f"{inner}.masked", [begin.seen, scores, "unseen"], shape)
    else:
        scores = net.add("Add", f"{inner}.masked", [scores, begin.seen], shape)
    weights = net.add("Softmax", f"{inner}.softmax", [scores], shape, axis=-1)
    y = net.matmul(f"{inner}.context", weights, value)
    if shared > 1:
        y = net.reshape(f"{inner}.context.groups", y, *around, groups, shared, tokens, depth)
        y = turned(f"{inner}.transpose", y, 2, 0, 1, 3)
    else:
        y = turned(f"{inner}.transpose", y, 1, 0, 2)
    return net.reshape(f"{inner}.joined", y, *around, tokens, sizes.width)


def _remembered(net: DecoderNetwork, begin: DecoderStart, name: str, x: str, axis: int) -> str:
    """Keys or values of all that is seen: those of the network's own tokens, which are an output,
    at their position in a cache along the axis of a sequence.
    """
    net.outputs.append(x)
    if not begin.step:
        return x
    axis += len(begin.sizes.around)
    shape = (*net.shapes[x][:axis], net.size, *net.shapes[x][axis + 1:])
    cache = net.input(f"{name}.past", *shape)
    at = f"{name.rpartition('.')[-1]}.at.out"
    whole = net.add("Where", f"{name}.all", [at, x, cache], shape)
    net.alike |= dict.fromkeys((cache, whole), x)
    return whole


def sliced(net: DecoderNetwork, name: str, x: str, axis: int, start: int, count: int) -> str:
    shape = (*net.shapes[x][:axis], count, *net.shapes[x][axis + 1:])
    return net.add("Slice", name, [x], shape, fixed={
        "starts": np.array([start]), "ends": np.array([start + count]), "axes": np.array([axis])})


def _heads(net: DecoderNetwork, name: str, x: str, heads: int) -> str:
    *tokens, channels = net.shapes[x]
    return net.reshape(f"{name}.heads", x, *tokens, heads, channels // heads)


def rotated(net: DecoderNetwork, name: str, x: str, turns: list[str]) -> str:
    """Su et al.: RoFormer, 2021: pairs of channels, half a head apart, turned by the position."""
    shape = net.shapes[x]
    half = shape[-1] // 2
    axis = len(shape) - 1
    first, second = (sliced(net, f"{name}.{part}", x, axis, start, half)
                     for part, start in (("first", 0), ("second", half)))
    negative = net.add("Neg", f"{name}.neg", [second], net.shapes[second])
    crossed = net.add("Concat", f"{name}.crossed", [negative, first], shape, axis=axis)
    parts = [net.add("Mul", f"{name}.{part}", [y, turn], shape)
             for part, y, turn in zip(("cos", "sin"), (x, crossed), turns, strict=True)]
    return net.sum(f"{name}.add", *parts)


def rms_normalized(net: DecoderNetwork, name: str, x: str, epsilon: float = 1e-5) -> str:
    """Zhang, Sennrich: Root mean square layer normalization, 2019; as exporters write it."""
    shape = net.shapes[x]
    y = net.scalar("Pow", f"{name}.squares", x, 2)
    y = net.add("ReduceMean", f"{name}.mean", [y], (*shape[:-1], 1), axes=[-1], keepdims=1)
    y = net.scalar("Add", f"{name}.epsilon", y, epsilon)
    y = net.add("Sqrt", f"{name}.root", [y], net.shapes[y])
    y = net.add("Reciprocal", f"{name}.inverse", [y], net.shapes[y])
    y = net.add("Mul", f"{name}.normal", [x, y], shape)
    return net.add("Mul", name, [y], shape, {"weight": shape[-1:]})
