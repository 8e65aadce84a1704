"""The transformers of `lockstep.testing`: layers, and what their operators mean.

Heads are cut out of the channels and put back as exporters do: Reshape and Transpose. The scale of
the scores, one over the root of a head's depth, is in the weights of the queries.
"""

from collections.abc import Callable, Mapping
from math import erf, prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lockstep.testing.networks.network import ZooNetwork

PATCH = 8                       # rows and columns of an image that are a token

Array = np.ndarray


def vit_small(net: "ZooNetwork", layers: int = 6) -> None:
    """Dosovitskiy et al.: An image is worth 16x16 words, 2020; small, and without a class token:
    the mean of all tokens is classified, as in Beyer et al., 2022.
    """
    channels = 192
    x = net.conv("patches", "image", channels, PATCH, PATCH, bias=True, pad=0)
    tokens = prod(net.shapes[x][1:])
    x = net.reshape("tokens", x, channels, tokens)
    x = net.transpose("tokens.last", x, 1, 0)
    x = net.shifted("position", x, tokens, channels)
    for i in range(layers):
        x = net.sum(f"block{i}.add", x, attention(
            net, f"block{i}.attention", net.normalized(f"block{i}.norm1", x), heads=3))
        x = net.sum(f"block{i}.add_1", x, feed_forward(
            net, f"block{i}.mlp", net.normalized(f"block{i}.norm2", x)))
    classified(net, net.normalized("norm", x), 1000)


def bert_small(net: "ZooNetwork", layers: int = 4) -> None:
    """Devlin et al.: BERT, 2018; the encoder alone, small, for embedded tokens."""
    x = net.normalized("embeddings.norm", "embeddings")
    for i in range(layers):
        y = attention(net, f"layer{i}.attention", x, heads=4)
        x = net.normalized(f"layer{i}.attention.norm", net.sum(f"layer{i}.attention.add", x, y))
        y = feed_forward(net, f"layer{i}", x)
        x = net.normalized(f"layer{i}.norm", net.sum(f"layer{i}.add", x, y))
    classified(net, x, 2)


def attention(net: "ZooNetwork", name: str, x: str, heads: int) -> str:
    tokens, channels = net.shapes[x]
    depth = channels // heads
    parts = {}
    for part, axes in (("query", (1, 0, 2)), ("key", (1, 2, 0)), ("value", (1, 0, 2))):
        scale = 1 / sqrt(depth) if part == "query" else 1
        y = net.product(f"{name}.{part}", x, channels, scale)
        y = net.reshape(f"{name}.{part}.heads", y, tokens, heads, depth)
        parts[part] = net.transpose(f"{name}.{part}.transpose", y, *axes)
    scores = net.matmul(f"{name}.scores", parts["query"], parts["key"])
    weights = net.add("Softmax", f"{name}.softmax", [scores], net.shapes[scores], axis=-1)
    y = net.matmul(f"{name}.context", weights, parts["value"])
    y = net.reshape(f"{name}.joined", net.transpose(f"{name}.transpose", y, 1, 0, 2), tokens,
                    channels)
    return net.product(f"{name}.output", y, channels)


def feed_forward(net: "ZooNetwork", name: str, x: str) -> str:
    channels = net.shapes[x][-1]
    y = net.product(f"{name}.fc1", x, 4 * channels)
    return net.product(f"{name}.fc2", gelu(net, f"{name}.gelu", y), channels)


def gelu(net: "ZooNetwork", name: str, x: str) -> str:
    """``x (1 + erf(x / sqrt(2))) / 2``, in the operators of opset 17."""
    shape = net.shapes[x]
    y = net.scalar("Div", f"{name}.div", x, sqrt(2))
    y = net.add("Erf", f"{name}.erf", [y], shape)
    y = net.scalar("Add", f"{name}.add", y, 1)
    y = net.add("Mul", f"{name}.mul", [x, y], shape)
    return net.scalar("Mul", f"{name}.half", y, 0.5)


def classified(net: "ZooNetwork", x: str, classes: int) -> None:
    y = net.add("ReduceMean", "mean", [x], net.shapes[x][1:], axes=[1], keepdims=0)
    net.dense("classifier", y, classes)


def _softmax(attributes: Mapping[str, Any], x: Array) -> Array:
    powers = x - x.max(axis=-1, keepdims=True)
    np.exp(powers, out=powers)          # in place: scores are the largest values of a network
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


def _normalized(attributes: Mapping[str, Any], x: Array, weight: Array, bias: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(attributes["epsilon"])) * weight + bias


MEANING: dict[str, Callable[..., Array]] = {
    "Reshape": lambda attributes, x, shape: x.reshape(*(x.shape[axis] if extent == 0 else extent
                                                        for axis, extent in enumerate(shape))),
    "Transpose": lambda attributes, x: x.transpose(attributes["perm"]),
    "MatMul": lambda attributes, x, y: x @ y,
    "LayerNormalization": _normalized,
    "Softmax": _softmax,
    "Div": lambda attributes, x, y: x / y,
    "Mul": lambda attributes, x, y: x * y,
    "Erf": lambda attributes, x: np.vectorize(erf, otypes=[np.float32])(x),
    "ReduceMean": lambda attributes, x: x.mean(axis=tuple(attributes["axes"]),
                                               keepdims=bool(attributes["keepdims"])),
}
