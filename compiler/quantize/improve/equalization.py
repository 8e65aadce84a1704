"""Cross-layer equalization: brings the channels of two consecutive layers to similar ranges.

After Nagel, van Baalen, Blankevoort, Welling: Data-free quantization through weight equalization
and bias correction, 2019, section 4.1. Everything between the two layers must pass a positive
factor of each channel: f(s x) = s f(x). Then output channel i of the first may be divided by s_i
and input channel i of the second multiplied by it; s_i = sqrt(r1_i / r2_i), with r the largest
magnitudes of the weights of the channel, makes both ranges sqrt(r1_i r2_i).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from compiler.graph.graph import Node
from compiler.ops.registry import OPERATORS
from compiler.quantize.networks.network import SLOPES, Layer, LayeredNetwork, bounds
from compiler.quantize.networks.weights import (WEIGHTED, canonical, has_constants, outputs,
                                                scaled, vector)

ROUNDS = 40
CLOSE = 1e-3            # iteration ends once the largest factor is this near to 1
PASSING = {name for name, operator in OPERATORS.items() if operator.homogeneous}    # of images

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Pair:
    """The places of two layers; each channel of the first becomes `repeat` input channels of the
    second.
    """

    first: int
    second: int
    repeat: int


def equalize(network: LayeredNetwork) -> int:
    """Replaces weights and biases; the network's float function changes by rounding alone. Returns
    the number of pairs.
    """
    chain = list(pairs(network))
    for place in {place for pair in chain for place in (pair.first, pair.second)}:
        _own_weights(network, place)
    for _ in range(ROUNDS):
        farthest = max((_balance(network, pair) for pair in chain), default=0.0)
        if farthest < CLOSE:
            break
    return len(chain)


def pairs(network: LayeredNetwork) -> Iterator[Pair]:
    """Finds pairs of layers with weights where the second is the first's only reader, possibly
    through layers that pass factors.
    """
    readers, places = network.readers(), {layer.name: i for i, layer in enumerate(network.layers)}
    for first, layer in enumerate(network.layers):
        if not _has_weights(layer, network):
            continue
        value = layer.value
        channels = outputs(layer.node, network.tensors[layer.node.inputs[1]])
        passing = PASSING if layer.node.op.startswith("conv") else SLOPES
        while _lets_pass(layer) and value not in network.outputs:
            following = readers.get(value, [])
            if len(following) != 1 or following[0].node.inputs.count(value) != 1:
                break
            layer = following[0]
            if _has_weights(layer, network) and layer.node.inputs[0] == value:
                width = _width(layer, network)
                if width % channels == 0:
                    yield Pair(first, places[layer.name], width // channels)
                break
            if not _passes(layer, network, passing):
                break
            value = layer.value


def _has_weights(layer: Layer, network: LayeredNetwork) -> bool:
    node, tensors = layer.node, network.tensors
    if node.op not in WEIGHTED or node.inputs[1] not in tensors:
        return False
    return (node.op != "matmul" or tensors[node.inputs[1]].ndim == 2) and (
        has_constants(node, tensors))


def _width(layer: Layer, network: LayeredNetwork) -> int:
    """The number of input channels."""
    view = canonical(layer.node, network.tensors[layer.node.inputs[1]])
    return view.shape[0] * view.shape[2]


def _lets_pass(layer: Layer) -> bool:
    return layer.clamp is None or bounds(layer.clamp) == (0.0, inf)


def _passes(layer: Layer, network: LayeredNetwork, passing: Collection[str]) -> bool:
    """True if the layer's node passes a factor of each channel; a reshape does where it flattens
    images.
    """
    node, values = layer.node, network.graph.values
    if node.op not in passing:
        return False
    before, after = (values[value].shape for value in (node.inputs[0], layer.inner))
    return node.op != "reshape" or (len(before) == 4 and len(after) == 2
                                    and before[0] == after[0])


def _own_weights(network: LayeredNetwork, place: int) -> None:
    """Gives the layer constants that no other layer reads, and a bias in vector form."""
    layer = network.layers[place]
    inputs = list(layer.node.inputs)
    for role, array in zip((1, 2), (network.tensors[inputs[1]],
                                    vector(layer.node, network.tensors)), strict=True):
        if role < len(inputs):
            name = network.names.fresh(inputs[role])
            network.tensors[name], inputs[role] = array, name
    network.layers[place] = replace(layer, node=replace(layer.node, inputs=tuple(inputs)))


def _balance(network: LayeredNetwork, pair: Pair) -> float:
    """Equalizes one pair; returns the largest distance of a factor from 1."""
    tensors = network.tensors
    first, second = (network.layers[place].node for place in (pair.first, pair.second))
    own = _largest(first, tensors, (2, 3))
    next_ = _largest(second, tensors, (1, 3)).reshape(-1, pair.repeat).max(axis=1)
    used = (own > 0) & (next_ > 0)
    factors = np.sqrt(np.divide(own, next_, out=np.ones_like(own), where=used))
    _scale(first, tensors, 1 / factors)
    name = second.inputs[1]
    tensors[name] = scaled(second, tensors[name], inward=np.repeat(factors, pair.repeat))
    return float(np.max(np.abs(factors - 1)))


def _largest(node: Node, tensors: Mapping[str, Array], axes: Sequence[int]) -> Array:
    """Largest magnitude of the weights of each output or input channel, float64."""
    view = canonical(node, tensors[node.inputs[1]])
    return np.abs(view.astype(np.float64)).max(axis=tuple(axes)).reshape(-1)


def _scale(node: Node, tensors: dict[str, Array], factors: Array) -> None:
    _, weight, *biases = node.inputs
    tensors[weight] = scaled(node, tensors[weight], outward=factors)
    for name in biases:
        tensors[name] = (tensors[name] * factors).astype(tensors[name].dtype)
