"""Integers of constant weights, each the nearest one to its weight."""

import numpy as np

from compiler.graph.graph import Node
from compiler.quantize.networks.network import LayeredNetwork, RoundedWeight
from compiler.quantize.networks.weights import canonical, channel_axis, restored, vector
from compiler.quantize.ranges.groups import grouped_weight
from compiler.quantize.ranges.scales import quantized_weight

Array = np.ndarray


def nearest(network: LayeredNetwork, node: Node, bits: int, source: np.float32) -> RoundedWeight:
    """The weight of a node that reads data of the scale `source`: scales of groups where the
    network asks for them and the weight is a matrix of several.
    """
    axis, bias = channel_axis(node), vector(node, network.tensors)
    largest = np.abs(bias).reshape(node.attrs.get("group", 1) if axis else 1, -1).max(axis=0)
    return (_in_groups(network, node, bits, largest, source)
            or RoundedWeight(*quantized_weight(
                network.tensors[node.inputs[1]], axis, largest, source, bits,
                max(network.activation_bits, 8), network.accumulator_bits)))


def _in_groups(network: LayeredNetwork, node: Node, bits: int, bias: Array, source: np.float32
               ) -> RoundedWeight | None:
    """The weight of few bits with scales of groups; None of one that is no matrix of several."""
    groups, weight = network.weight_groups, network.tensors[node.inputs[1]]
    alike = canonical(node, weight)
    count, _, depth, taps = alike.shape
    if groups is None or bits == 8 or (count, taps) != (1, 1) or depth <= groups.size:
        return None
    steps, scale, factors = grouped_weight(alike[0, :, :, 0], bits, groups, bias, source)
    return RoundedWeight(restored(node, steps[None, :, :, None], weight.shape), scale, factors)
