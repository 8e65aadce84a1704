"""Post-training quantization to int8: from a float ONNX model and samples to its QDQ form."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from compiler.errors import require_names
from compiler.files import write_bytes
from compiler.frontend.binding import (
    Bindings,
    bound_graph,
    bound_model,
    extents_of,
    real_inputs,
)
from compiler.frontend.models import is_of_torch
from compiler.frontend.onnx_export import exported_model
from compiler.frontend.onnx_import import ImportRefused, check_model, convert, read_model
from compiler.graph.graph import Graph
from compiler.quantize.bias_correction import correct_biases
from compiler.quantize.budget import Budget
from compiler.quantize.calibration import Samples, first_run, imported, program
from compiler.quantize.equalization import equalize
from compiler.quantize.network import Layer, Network, prepare
from compiler.quantize.noise import (
    Measured,
    Noise,
    Tick,
    alone,
    effects,
    measure,
)
from compiler.quantize.observers import Observer, observer
from compiler.quantize.plan import Plan, make_plan
from compiler.quantize.refusal import QuantizeRefused
from compiler.quantize.scales import Scale
from compiler.quantize.sets import CalibrationSet, calibration_set
from compiler.quantize.weights import WEIGHTED
from compiler.quantize.writer import write

__all__ = ["LayerFigures", "Quantized", "Watch", "quantize", "quantize_ranges"]

RANKING_SAMPLES = 4         # that layers are ranked on before some fall back to float
BRANCHING = ("If", "Loop", "Scan", "SequenceMap")
NOTHING = "nothing runs on the accelerator: the quantizer left every layer in float"
KEPT = "kept in float on request"

Array = np.ndarray
Ranges = dict[str, tuple[float, float]]
Watch = Callable[[str, int], AbstractContextManager[Tick]]
"""Called with what begins and how many steps it has; what it gives hears of steps done."""


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """Signal to quantization noise in decibels, None without noise.

    `alone_db`: the layer quantized by itself, reading the float network's values; None in float.
    `accumulated_db`: its result in the quantized network. `effect_db`: at the network's output
    with this layer alone quantized; only known where a budget asked for it. `reason` says why a
    layer is in float.
    """

    name: str
    op: str
    quantized: bool
    alone_db: float | None
    accumulated_db: float | None
    effect_db: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Quantized:
    """The QDQ model and what is known of it. `agreement`: the share of samples (of pixels where
    outputs are images) whose largest output is the same as in float, None without classes;
    `decibels`: of the output. Both over the calibration samples, of the worst output.
    """

    model: ModelProto
    layers: tuple[LayerFigures, ...]
    agreement: float | None
    decibels: float | None
    samples: int
    equalized: int
    fell_back: tuple[str, ...]

    @property
    def hindrance(self) -> str:
        """Why no layer is in int8, by the reason that most layers with weights have, or most of
        all where none has; empty where some layer is.
        """
        if any(layer.quantized for layer in self.layers):
            return ""
        weighted = [layer for layer in self.layers if layer.op in WEIGHTED] or self.layers
        if not weighted:
            return f"{NOTHING}: the network has no layers"
        reason, count = Counter(layer.reason for layer in weighted).most_common(1)[0]
        first = next(layer for layer in weighted if layer.reason == reason)
        more = f" ({count} layers like this)" if count > 1 else ""
        return f"{NOTHING}: {first.name} ({first.op}): {reason}{more}"

    def save(self, path: str | PathLike[str]) -> None:
        """Raises FileError where it cannot be written."""
        write_bytes(path, self.model.SerializeToString(deterministic=True))


def _unwatched(stage: str, steps: int) -> AbstractContextManager[Tick]:
    return nullcontext(lambda count: None)


def quantize(model: Any, calibration: CalibrationSet, *,
             observer: str = "minmax", percentile: float = 99.99, equalize: bool = False,
             bias_correction: bool = False, keep_float: Iterable[str] = (),
             budget: float | str | None = None, example_inputs: Any = None,
             bind: Bindings | None = None, watch: Watch = _unwatched, **unknown: Any) -> Quantized:
    """Quantize a float network. Nothing is random: same arguments, same model.

    Parameters
    ----------
    model : an ONNX file, or a model, which stays as it is; or what `compiler.frontend.models` takes
        besides: a .pt2 file, an ExportedProgram, an nn.Module with its `example_inputs`, a graph.
        A first dimension that torch leaves open becomes 1.
    calibration : samples [N, ...] by the name of the input, or those of the only input; batches of
        either, in any iterable; the path of an .npz or .npy file, or several. docs/quantize.md says
        how samples of inputs without a batch are given.
    observer : ``minmax``, ``percentile`` (with its `percentile`, 99.99) or ``mse``.
    equalize : equalize channels of layers in a row first.
    bias_correction : correct biases by the means over the samples.
    keep_float : names of nodes that stay in float.
    budget : percentage points of agreement with the float network that may be lost, or text such
        as ``30dB``, the least signal to noise of the outputs; layers fall back to float, those
        that hurt most first, until it is met.
    example_inputs : what an nn.Module is exported with: a tensor, or a tuple of them.
    bind : inputs that become constants, by their name: arrays, or a number for all elements.
    watch : is told of long work.

    Raises QuantizeRefused with one line: what, where and what to do; ArgumentError for options that
    are not known.
    """
    require_names("quantize", unknown, signature(quantize).parameters.keys() - {"unknown"})
    options = _Options(observer, percentile, equalize, bias_correction, tuple(keep_float),
                       Budget.of(budget))
    place = str(model) if isinstance(model, str | PathLike) else "model"
    samples = calibration_set(calibration)
    try:
        model = _bound(model, samples, example_inputs, bind, place)
        check_model(model, place)
    except ImportRefused as error:
        raise QuantizeRefused(str(error)) from None
    fitted = Samples.of(real_inputs(model.graph), place, samples)
    network = prepare(model, place, options.keep_float, fitted.shapes)
    return _Quantizer(network, fitted, options, watch).run()


def _bound(model: Any, samples: Mapping[str, Array] | Array, example_inputs: Any,
           bind: Bindings | None, place: str) -> ModelProto:
    """The model with constants for bound inputs, and without control flow and functions: these are
    resolved for one sample at a time.
    """
    if is_of_torch(model):
        from compiler.frontend import torch_export

        model = torch_export.of_samples(model, samples, example_inputs)
    if isinstance(model, Graph):
        return exported_model(bound_graph(model, bind))
    model = bound_model(_loaded(model), bind, place)
    if not any(node.op_type in BRANCHING for node in model.graph.node) and not model.functions:
        return model
    inputs = real_inputs(model.graph)
    shapes = extents_of(inputs, first_run(inputs, samples))
    return exported_model(convert(model, shapes=shapes, place=place))


def quantize_ranges(model: ModelProto, ranges: Mapping[str, tuple[float, float]]) -> ModelProto:
    """The QDQ form of a float model from the least and greatest element of each of its values."""
    network = prepare(model)
    plan = make_plan(network, imported(network.float_model(), network.place, every=True))
    return _typed(write(network, plan, plan.scales(ranges)).model)


def _loaded(model: Any) -> ModelProto:
    if isinstance(model, ModelProto):
        return model
    if not isinstance(model, str | PathLike):
        raise QuantizeRefused("model must be an ONNX file or model to be quantized, not "
                              f"{type(model).__name__}")
    try:
        return read_model(Path(model))
    except ImportRefused as error:
        raise QuantizeRefused(str(error)) from None


def _typed(model: ModelProto) -> ModelProto:
    """The model with every type that shape inference finds; as it is where it is too large."""
    try:
        return onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return model


@dataclass(frozen=True, slots=True)
class _Options:
    observer: str
    percentile: float
    equalize: bool
    bias_correction: bool
    keep_float: tuple[str, ...]
    budget: Budget | None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A choice of layers in float, and what came of it."""

    network: Network
    plan: Plan
    scales: Mapping[str, Scale]
    measured: Measured


class _Quantizer:
    def __init__(self, network: Network, samples: Samples, options: _Options, watch: Watch):
        self.network, self.options, self.watch = network, options, watch
        self.make_observer = observer(options.observer, options.percentile)
        self.samples = samples
        self.graph = self._imported()
        self.kept = _named(network, options.keep_float)
        self.equalized = 0
        self.unbounded: set[str] = set()

    def run(self) -> Quantized:
        if self.options.equalize:
            self.equalized = equalize(self.network, self.graph)
            self.graph = self._imported()
        self.ranges = self._calibrate(make_plan(self.network, self.graph, self.kept).groups)
        attempt, ranking, fallen = self._attempt(self.kept), {}, ()
        budget = self.options.budget
        if budget is not None and not budget.met_by(attempt.measured, self.network.place):
            ranking = self._rank(attempt)
            attempt, fallen = self._fall_back(ranking, budget)
        model = _typed(write(attempt.network, attempt.plan, attempt.scales).model)
        onnx.checker.check_model(model)
        return Quantized(model, self._figures(attempt, ranking), attempt.measured.agreement,
                         attempt.measured.decibels, self.samples.count, self.equalized, fallen)

    def _imported(self) -> Graph:
        return imported(self.network.float_model(), self.network.place, self.samples.shapes,
                        every=True)

    def _calibrate(self, wanted: Collection[str]) -> Ranges:
        """The range of each of these values, from the float network on all samples; those that are
        not finite have none.
        """
        watchers: dict[str, Observer] = {value: self.make_observer() for value in wanted}
        run = program(self.graph, [value for value in wanted if value not in self.graph.inputs])
        with self.watch("calibration", self.samples.count) as tick:
            for batch in self.samples.batches():
                for value, array in {**batch, **run(batch)}.items():
                    if value in watchers and np.isfinite(array).all():
                        watchers[value].update(array)
                    else:
                        watchers.pop(value, None)
                tick(self.samples.batch)
        self.unbounded = set(wanted).difference(watchers)
        self.samples.require_finite(self.network.place, self.unbounded)
        return {value: watcher.range() for value, watcher in watchers.items()}

    def _attempt(self, kept: Mapping[str, str]) -> _Attempt:
        network = replace(self.network, layers=list(self.network.layers),
                          tensors=dict(self.network.tensors))
        plan = make_plan(network, self.graph, kept, self.unbounded)
        scales = plan.scales(self.ranges)
        if self.options.bias_correction:
            with self.watch("bias correction", self.samples.count) as tick:
                correct_biases(network, self.graph, plan, scales, self.samples, tick)
        with self.watch("comparing with float", self.samples.count) as tick:
            measured = measure(network, self.graph, plan, scales, self.samples, tick)
        return _Attempt(network, plan, scales, measured)

    def _rank(self, attempt: _Attempt) -> dict[str, Noise]:
        """Noise at the output of each layer by itself, those that hurt most first."""
        plan = attempt.plan
        with self.watch("ranking layers", len(plan.quantized)) as tick:
            found = effects(attempt.network, self.graph, plan, attempt.scales, self.samples,
                            RANKING_SAMPLES, tick)
        order = sorted(found, key=lambda value: -found[value].noise)    # stable: depth decides
        return {value: found[value] for value in order}

    def _fall_back(self, ranking: Mapping[str, Noise], budget: Budget
                   ) -> tuple[_Attempt, tuple[str, ...]]:
        """The fewest of the worst layers in float with which the budget is met, by bisection."""
        named = {layer.value: layer.name for layer in self.network.layers}
        worst = [named[value] for value in ranking]
        low, high, best = 0, len(worst), None
        while high - low > 1 or best is None:
            middle = (low + high) // 2 if high - low > 1 else high
            attempt = self._attempt({**dict.fromkeys(worst[:middle], budget.reason), **self.kept})
            if budget.met_by(attempt.measured, self.network.place) or middle == len(worst):
                high, best = middle, attempt
            else:
                low = middle
        return best, tuple(worst[:high])

    def _figures(self, attempt: _Attempt, ranking: Mapping[str, Noise]
                 ) -> tuple[LayerFigures, ...]:
        with self.watch("layers alone", self.samples.count) as tick:
            by_itself = alone(attempt.network, self.graph, attempt.plan, attempt.scales,
                              self.samples, tick)
        return tuple(_figures(layer, attempt, by_itself, ranking)
                     for layer in attempt.network.layers)


def _figures(layer: Layer, attempt: _Attempt, by_itself: Mapping[str, Noise],
             ranking: Mapping[str, Noise]) -> LayerFigures:
    def decibels(noises: Mapping[str, Noise]) -> float | None:
        return noises[layer.value].decibels if layer.value in noises else None

    return LayerFigures(layer.name, layer.node.op_type, layer.value in attempt.plan.quantized,
                        decibels(by_itself), decibels(attempt.measured.noises), decibels(ranking),
                        attempt.plan.reasons.get(layer.name, ""))


def _named(network: Network, names: Sequence[str]) -> dict[str, str]:
    """The layers that these nodes became, with the reason."""
    layers = {name: layer.name for layer in network.layers for name in layer.names}
    for name in names:
        if name not in layers:
            raise QuantizeRefused(f"{network.place}: --keep-float must name a layer, one of "
                                  f"{', '.join(layer.name for layer in network.layers)}, "
                                  f"not {name!r}")
    return {layers[name]: KEPT for name in names}
