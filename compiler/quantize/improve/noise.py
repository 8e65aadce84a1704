"""Measures how far a quantized network is from the float one: noise of each layer, agreement of
outputs.

The signal to quantization noise ratio of a value is 10 log10(sum x**2 / sum (x - y)**2) decibels
over all samples and elements, x in float and y quantized; it is undefined (None) without noise.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log10

import numpy as np

from compiler.graph.graph import Graph
from compiler.quantize.networks.network import Layer, LayeredNetwork, layers_after
from compiler.quantize.plans.plan import Plan
from compiler.quantize.plans.writer import write, write_part
from compiler.quantize.ranges.calibration import Samples, program
from compiler.quantize.ranges.scales import Scale

Array = np.ndarray
LARGEST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(float).tiny)
Tick = Callable[[int], None]
Scales = Mapping[str, Scale]


@dataclass(slots=True)
class Noise:
    """Energies of a signal and of what was added to it."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, real: Array, other: Array) -> None:
        """Adds a batch where the signal is finite; noise is clipped to the largest float32."""
        wide = real.astype(np.float64)
        known = np.isfinite(wide)
        wide = np.where(known, wide, 0)
        bounded = np.nan_to_num(np.where(known, other.astype(np.float64), 0), nan=LARGEST,
                                posinf=LARGEST, neginf=-LARGEST)
        self.signal += float(np.sum(wide * wide))
        self.noise += float(np.sum((wide - bounded) ** 2))

    @property
    def decibels(self) -> float | None:
        """The signal to noise ratio; None without noise."""
        if not self.noise:
            return None
        return 10 * log10(max(max(self.signal, TINY) / self.noise, TINY))


@dataclass(slots=True)
class Measured:
    """Figures of a quantized network against the float one: noise of the values by name, and in how
    many places of an output [N, C, ...] the largest element along axis 1 is the same.
    """

    noises: dict[str, Noise]
    outputs: Sequence[str]
    places: dict[str, int] = field(default_factory=dict)
    equal: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, real: Array, other: Array) -> None:
        self.noises[name].add(real, other)
        if name in self.outputs and real.ndim in (2, 4) and real.shape[1] > 1:
            same = real.argmax(axis=1) == other.argmax(axis=1)
            self.places[name] = self.places.get(name, 0) + same.size
            self.equal[name] = self.equal.get(name, 0) + int(same.sum())

    @property
    def decibels(self) -> float | None:
        """The signal to noise ratio of the worst output in dB; None without noise."""
        return min((decibels for name in self.outputs
                    if (decibels := self.noises[name].decibels) is not None), default=None)

    @property
    def agreement(self) -> float | None:
        """Share of equal places, 0..1, of the worst output; None where no output has classes."""
        return min((self.equal[name] / count for name, count in self.places.items()), default=None)


def observed(graph: Graph) -> list[str]:
    """The float32 values that nodes make."""
    return [value for value in results_of(graph) if graph.values[value].dtype == "float32"]


def results_of(graph: Graph) -> list[str]:
    return [value for node in graph.nodes for value in node.outputs]


def measure(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Scales, samples: Samples,
            tick: Tick = lambda count: None) -> Measured:
    """Runs the quantized network on all samples and measures the noise of every layer's result and
    output.
    """
    written = write(network, plan, scales)
    observable = set(observed(graph))
    values = [layer.value for layer in network.layers if layer.value in observable]
    real_run = program(graph, values)
    other_run = program(written.graph, [written.names[value] for value in values])
    measured = Measured({value: Noise() for value in values},
                        [value for value in network.outputs if value in observable])
    for batch in samples.batches():
        real, approximate = real_run(batch), other_run(batch)
        for value in values:
            measured.add(value, real[value], approximate[written.names[value]])
        tick(samples.batch)
    return measured


def alone(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Scales, samples: Samples,
          tick: Tick = lambda count: None) -> dict[str, Noise]:
    """The noise of each quantized layer by itself, by the name of its value: it reads the float
    network's values, and quantizes them, its weights and its result.
    """
    layers = [layer for layer in network.layers if layer.value in plan.quantized]
    runs = {layer.value: part(network, graph, plan, scales, [layer], layer.value)
            for layer in layers}
    noises = {layer.value: Noise() for layer in layers}
    real_run = program(graph, results_of(graph))
    for batch in samples.batches():
        real = {**real_run(batch), **batch}
        for value, run in runs.items():
            noises[value].add(real[value], run(real))
        tick(samples.batch)
    return noises


def part(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Scales, layers: Sequence[Layer],
         output: str) -> Callable[[Mapping[str, Array]], Array]:
    """Builds a function that computes a value by some layers in QDQ form from the float network's
    values.
    """
    written = write_part(network, graph, plan, scales, layers, [output])
    part, name = written.graph, written.names.get(output, output)
    run = program(part, part.outputs)
    return lambda real: run({value: real[value] for value in part.inputs})[name]


def effects(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Scales, samples: Samples,
            limit: int, tick: Tick = lambda count: None) -> dict[str, Noise]:
    """The noise at the network's outputs when only this layer is quantized, by the name of its
    value: of quantized layers that compute, over at most `limit` samples, or one batch.
    """
    real_run, noises = program(graph, results_of(graph)), {}
    batches = [{**real_run(batch), **batch} for batch in samples.batches(limit)]
    for layer in network.layers:
        if layer.value in plan.quantized and layer.value not in plan.moved:
            noises[layer.value] = Noise()
            for value, run in _downstream(network, graph, plan, scales, layer):
                for real in batches:
                    noises[layer.value].add(real[value], run(real))
            tick(1)
    return noises


def _downstream(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Scales, layer: Layer
                ) -> Iterator[tuple[str, Callable[[Mapping], Array]]]:
    """Each float output that depends on the layer, with the layers that compute it."""
    layers = [layer, *layers_after(network, layer.value)]
    reached = {layer.value for layer in layers}
    single = replace(plan, quantized=frozenset([layer.value]))
    for value in network.outputs:
        if value in reached.intersection(observed(graph)):
            yield value, part(network, graph, single, scales, layers, value)
