"""Empirical bias correction: removes the shift that quantization adds to each channel's mean.

Rounding weights shifts the mean of a layer's results. For each quantized layer with weights, the
mean over samples and places of its pre-activation results, with quantized inputs and weights, is
compared with the float layer's, and the difference goes into the bias (Nagel et al. 2019, section
4.2, by samples instead of statistics).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.quantize.improve.noise import Scales, Tick, part, results_of
from compiler.quantize.networks.affine import with_bias
from compiler.quantize.networks.network import Layer, LayeredNetwork
from compiler.quantize.networks.weights import WEIGHTED, result_axis, vector
from compiler.quantize.plans.plan import Plan
from compiler.quantize.ranges.calibration import Samples, program

Array = np.ndarray


def correct_biases(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Scales,
                   samples: Samples, tick: Tick = lambda count: None) -> dict[str, float]:
    """Replaces the biases of the network's quantized layers. Returns each layer's largest change,
    by its name.
    """
    layers = {place: layer for place, layer in enumerate(network.layers)
              if _is_correctable(layer, network, plan)}
    runs = {place: _before_activation(network, graph, plan, scales, layer)
            for place, layer in layers.items()}
    shifts = {place: np.zeros(()) for place in runs}
    real_run = program(graph, results_of(graph))
    for batch in samples.batches():
        real = {**real_run(batch), **batch}
        for place, run in runs.items():
            shifts[place] = shifts[place] + _channel_sums(
                layers[place].node, real[layers[place].inner] - run(real))
        tick(samples.batch)
    changed = {}
    for place, layer in layers.items():
        shape = graph.values[layer.inner].shape
        channels = shape[result_axis(layer.node, len(shape))]
        count = samples.count // samples.batch * prod(shape) // channels
        shift = (shifts[place] / count).astype(np.float32)
        if not np.isfinite(shift).all():
            continue
        network.layers[place] = with_shift(network, layer, shift, len(shape))
        changed[layer.name] = float(np.abs(shift).max())
    return changed


def _is_correctable(layer: Layer, network: LayeredNetwork, plan: Plan) -> bool:
    """True if the layer is quantized and has constant weights."""
    node = layer.node
    return (layer.value in plan.quantized and node.op in WEIGHTED
            and node.inputs[1] in network.tensors)


def _before_activation(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Scales,
                       layer: Layer) -> Callable[[Mapping[str, Array]], Array]:
    """Computes the layer's sums from quantized inputs and weights; the sums have no scale."""
    single = replace(plan, quantized=frozenset([layer.inner]))
    others = {value: scale for value, scale in scales.items() if value != layer.inner}
    return part(network, graph, single, others, [replace(layer, clamp=None)], layer.inner)


def _channel_sums(node: Node, array: Array) -> Array:
    """Sums in float64 over all axes but that of the channels."""
    kept = result_axis(node, array.ndim)
    return array.sum(axis=tuple(i for i in range(array.ndim) if i != kept), dtype=np.float64)


def with_shift(network: LayeredNetwork, layer: Layer, shift: Array, rank: int) -> Layer:
    """The layer with a bias that no other layer reads: its own plus a number for each channel.
    `rank` is that of its result.
    """
    bias = network.names.fresh(f"{layer.name}.bias")
    network.tensors[bias] = vector(layer.node, network.tensors) + shift
    node = replace(layer.node, inputs=(*layer.node.inputs[:2], bias))
    return replace(layer, node=with_bias(node, rank))
