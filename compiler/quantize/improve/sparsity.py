"""Prunes weights to a pattern: of every few input channels in a row the largest weights stay.

2:4 keeps two of each four neighbouring input channels, for every output channel and tap on its own,
by magnitude. The first and the last layer keep all their weights, as do layers with fewer input
channels in a group than a pattern has. An accelerator with a product of such weights finds them by
itself (docs/sparse.md).
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from compiler.quantize.improve.weight_bits import is_weighted
from compiler.quantize.networks.network import LayeredNetwork
from compiler.quantize.networks.weights import canonical, restored
from compiler.quantize.ranges.refusal import QuantizeRefused

Sparsity = tuple[int, int]
"""How many weights stay, of how many."""


def pattern_of(given: object) -> Sparsity | None:
    """The pattern of a text ``2:4``; None for none of it, or ``none``."""
    if given is None or given == "none":
        return None
    parts = given.split(":") if isinstance(given, str) else []
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 3 for part in parts) or not (
            0 < int(parts[0]) < int(parts[1])):
        raise QuantizeRefused(f"sparsity must be N:M with 0 < N < M < 100, such as 2:4, not "
                              f"{given!r}")
    return int(parts[0]), int(parts[1])


def prune(network: LayeredNetwork, kept: Mapping[str, str], pattern: Sparsity) -> list[str]:
    """Replaces the weights of the layers between the first and the last of those with constant
    weights that are not in `kept`, which are in float. Returns the layers' names."""
    places = [place for place, layer in enumerate(network.layers)
              if is_weighted(layer, network) and layer.name not in kept]
    names: list[str] = []
    for place in places[1:-1]:
        layer = network.layers[place]
        weight = network.tensors[layer.node.inputs[1]]
        if canonical(layer.node, weight).shape[2] < pattern[1]:
            continue
        inner = network.names.fresh(f"{layer.node.inputs[1]}.sparse")
        network.tensors[inner] = restored(
            layer.node, pruned(canonical(layer.node, weight), pattern), weight.shape)
        network.layers[place] = replace(layer, node=replace(
            layer.node, inputs=(layer.node.inputs[0], inner, *layer.node.inputs[2:])))
        names.append(layer.name)
    return names


def pruned(weight: np.ndarray, pattern: Sparsity) -> np.ndarray:
    """Weights [groups, outputs, inputs, taps] without the smallest of each few inputs."""
    (stays, size), sparse = pattern, np.array(weight)
    for first in range(0, sparse.shape[2], size):
        part = sparse[:, :, first:first + size]
        order = np.argsort(-np.abs(part), axis=2, kind="stable")
        np.put_along_axis(part, order[:, :, stays:], 0, axis=2)
    return sparse
