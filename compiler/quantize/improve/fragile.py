"""Functions that lose too much in 8 bits: of a sum of squares, whose root then has no small values,
or of the state of a cell.

Those that compute from what other elementwise operators make stay in float with these, down to the
products, whose results have as many steps as they need.
"""

from collections.abc import Iterable, Iterator, Mapping

from compiler.graph.graph import Graph
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.quantize.improve.noise import Noise, Scales
from compiler.quantize.networks.network import FUNCTION, PICKS, Layer, LayeredNetwork
from compiler.quantize.networks.trials import evaluated
from compiler.quantize.plans.plan import USELESS, Plan
from compiler.quantize.ranges.calibration import Samples, program

LEAST_DECIBELS = 20
"""The least signal to noise of a function of what is rounded to its scale."""


def fragile(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Scales, samples: Samples,
            limit: int) -> dict[str, str]:
    """Why functions, and the elementwise layers that serve them alone, stay in float, by name;
    judged by at most `limit` samples, or one run, of the float network `graph`.
    """
    losses = _losses(network, graph, plan, scales, samples, limit)
    reasons = {layer.name: f"in int8 it would have {decibels:.1f} dB"
               for layer, decibels in losses if decibels < LEAST_DECIBELS}
    if reasons:
        reasons |= _before(network, plan, reasons)
    return reasons


def _losses(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Scales, samples: Samples,
            limit: int) -> Iterator[tuple[Layer, float]]:
    """The signal to noise, in dB, of each function of what elementwise layers make."""
    makers = {layer.value: layer for layer in network.layers}
    functions = {layer: value for layer in network.layers
                 if layer.value in plan.quantized and _is_function(network, layer)
                 and _is_elementwise(network, makers.get(
                     value := plan.origin(_source(network, layer))))}
    if not functions:
        return
    noises = {layer: Noise() for layer in functions}
    run = program(graph, list(dict.fromkeys(functions.values())))
    for batch in samples.batches(limit):
        made = run(batch)
        for layer, value in functions.items():
            real = made[value].reshape(-1)
            results = [evaluated(network.tensors, layer.nodes(),
                                 {_source(network, layer): numbers})
                       for numbers in (real, scales[value].rounded(real).astype(real.dtype))]
            if results[0] is not None and results[1] is not None:
                noises[layer].add(results[0], results[1])
    for layer, noise in noises.items():
        if noise.decibels is not None:
            yield layer, noise.decibels


def _is_function(network: LayeredNetwork, layer: Layer) -> bool:
    """True if the layer computes elements from one value and numbers, as no instruction of the
    machine does.
    """
    constants = [network.tensors[value] for value in layer.read if value in network.tensors]
    return (layer.node.op == FUNCTION and _is_elementwise(network, layer)
            and len(layer.read) - len(constants) == 1
            and all(constant.size == 1 for constant in constants))


def _source(network: LayeredNetwork, function: Layer) -> str:
    """The value that a function of one value reads."""
    return next(value for value in function.read if value not in network.tensors)


def _is_elementwise(network: LayeredNetwork, layer: Layer | None) -> bool:
    """True for arithmetic of computed values and functions of one, which no instruction matches."""
    return (layer is not None and layer.value not in network.matched
            and all(find(node.op).kind is Kind.ELEMENTWISE for node in layer.nodes()))


def _before(network: LayeredNetwork, plan: Plan, kept: Iterable[str]) -> Mapping[str, str]:
    """Why elementwise layers, and what moves their results, stay in float: only layers in float
    read what they make.
    """
    readers, floats, served = network.readers(), {*kept}, dict[str, str]()
    for layer in reversed(network.layers):
        reading = readers.get(layer.value, ())
        if layer.value not in plan.quantized:
            floats.add(layer.name)
        elif (reading and all(reader.name in floats for reader in reading)
              and (_is_elementwise(network, layer) or layer.node.op in PICKS)):
            floats.add(layer.name)
            served[layer.name] = USELESS
    return served
