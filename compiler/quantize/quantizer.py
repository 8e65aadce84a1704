"""Post-training quantization to int8: from a float graph and samples to its QDQ form."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from onnx import ModelProto

from compiler.errors import ArgumentError, called_by_name
from compiler.files import write_bytes
from compiler.frontend.building.binding import Bindings
from compiler.frontend.onnx.exporting import Variant, exported_model
from compiler.frontend.onnx.importing import convert
from compiler.graph.graph import Graph
from compiler.graph.notes import UNUSED, UNUSED_PART, Note
from compiler.graph.room import require_room
from compiler.ops.patterns import Pattern
from compiler.ops.term_patterns import TermPattern
from compiler.quantize.improve.bias_correction import correct_biases
from compiler.quantize.improve.budget import Budget
from compiler.quantize.improve.equalization import equalize
from compiler.quantize.improve.error_feedback import NEAREST, feed_errors_back, is_feedback
from compiler.quantize.improve.fragile import fragile
from compiler.quantize.improve.noise import Measured, Noise, Tick, alone, effects, measure
from compiler.quantize.improve.sparsity import Sparsity, pattern_of, prune
from compiler.quantize.improve.weight_bits import (bits_by_name, chosen_bits, is_weighted,
                                                   require_bits)
from compiler.quantize.made_for import marked
from compiler.quantize.networks.misses import why_unmatched
from compiler.quantize.networks.network import Layer, LayeredNetwork
from compiler.quantize.networks.preparation import prepare
from compiler.quantize.networks.recurrent import parts
from compiler.quantize.networks.source import Source, source_of
from compiler.quantize.networks.weights import WEIGHTED
from compiler.quantize.plans.meanings import steps_off, usable
from compiler.quantize.plans.plan import (Plan, disproportionate, in_own_scales,
                                           make_plan)
from compiler.quantize.plans.writer import write
from compiler.quantize.ranges.calibration import Samples, program
from compiler.quantize.ranges.observers import Observer, observer
from compiler.quantize.ranges.groups import WeightGroups
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.quantize.ranges.scales import ACCUMULATOR_BITS, ACTIVATION_BITS, Scale
from compiler.quantize.ranges.sets import CalibrationSet, calibration_set
from compiler.quantize.training.form import QuantizedTraining, in_training
from compiler.quantize.training.writer import TrainingForm
from compiler.quantize.settling import Declined, integer_nodes, planned_nodes, settled

RANKING_SAMPLES = 4         # for ranking layers before some fall back to float
NOTHING = "nothing runs on the accelerator: the quantizer left every layer in float"
KEPT = "kept in float on request"
USABLE_DECIBELS = 15
"""The least signal to noise at which outputs are of use."""

Array = np.ndarray
Ranges = dict[str, tuple[float, float]]
Watch = Callable[[str, int], AbstractContextManager[Tick]]
"""Called with the title of a task and its number of steps; returns a callback that counts them."""


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """Signal to quantization noise in decibels, None without noise.

    `alone_db`: the layer quantized by itself, reading the float network's values; None in float.
    `accumulated_db`: its result in the quantized network. `effect_db`: at the network's output
    with this layer alone quantized; only known where a budget asked for it. `reason` says why a
    layer is in float; `weight_bits` are None there, and where it has no weights. `by` is the
    machine's instruction whose meaning the layer has, `steps_off` how many steps of the result that
    is at most from the real expression that it matches; `declined` says why an instruction that
    matches is not used.
    """

    name: str
    op: str
    quantized: bool
    alone_db: float | None
    accumulated_db: float | None
    effect_db: float | None
    reason: str
    weight_bits: int | None = None
    by: str = ""
    steps_off: int | None = None
    declined: str = ""


@dataclass(frozen=True)
class Quantized:
    """The graph in QDQ form, for the extents of the samples, with its figures.
    `agreement`: the share of samples (of pixels where outputs are images) whose largest output is
    the same as in float, None without classes; `decibels`: of the output. Both over the calibration
    samples, of the worst output. `sparse` are the layers whose weights were pruned first,
    `made_for` says for which machine, by the keys of the file's metadata. `unused` says of each
    pattern that no layer has why, by its name.
    """

    graph: Graph
    layers: tuple[LayerFigures, ...]
    agreement: float | None
    decibels: float | None
    samples: int
    equalized: int
    fell_back: tuple[str, ...]
    forms: "_Forms"
    sparse: tuple[str, ...] = ()
    made_for: Mapping[str, str] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)
    layers_for: Callable[[float], tuple[str, ...]] = field(default=lambda decibels: (), repr=False)
    """The fewest of the layers that hurt most that stay in float for so many decibels."""
    learned: "Callable[[TrainingForm, Mapping[str, Array]], Quantized] | None" = field(
        default=None, repr=False)
    """The network with parameters that were learned in a form of it."""

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The layers that would have to stay in float for `USABLE_DECIBELS`, those that hurt most
        first; none where the outputs have as much. Found when it is read, by further trials.
        """
        usable = self.decibels is None or self.decibels >= USABLE_DECIBELS
        return () if usable else self.layers_for(USABLE_DECIBELS)

    def trainable(self, batch: int | None = None, *, freeze: Iterable[str] = ()
                  ) -> "QuantizedTraining[Quantized]":
        """The network as it is in training, for so many rows: what `lockstep.trainable` gives of a
        network in float, where all is rounded as it is here. Its `trained` makes the quantized
        network of the parameters of a `Trainer`; figures then compare with the float network.

        batch : extent of the first axis of all inputs, of an ONNX model; unless told, that of the
            samples. freeze : parameters that are not learned; ``*`` stands for any text.

        Raises QuantizeRefused for what cannot be trained, GradientRefused where the batch does not
        go through the network.
        """
        if self.sparse or self.hindrance or self.learned is None:
            raise QuantizeRefused(f"{self.forms.source.place}: " + (
                self.hindrance or "a network with sparse weights cannot be trained"))
        return in_training(*self.forms.of_rows(batch), batch, freeze, self.learned)

    def graph_of(self, shapes: Mapping[str, int] | None = None,
                 arrays: Mapping[str, Array] | None = None) -> Graph:
        """The graph for other extents of the network's open dimensions, taken from `shapes`, by
        name or place, or else from `arrays`, by the name of the input. Raises QuantizeRefused.
        """
        opened = any(isinstance(dim, str) for declared in self.forms.source.inputs
                     for dim in declared.dims)
        if opened or shapes or arrays:
            return self.forms.graph(shapes or {}, arrays or {})
        return self.graph

    @cached_property
    def model(self) -> ModelProto:
        """The graph as an ONNX model, with open dimensions where the network has them; its metadata
        say which version made it, and for which machine (`compiler.quantize.made_for`), and why it
        does not use instructions that match.
        """
        told = {**self.made_for, **{f"{UNUSED_PART}{name}": reason
                                    for name, reason in self.unused.items()}}
        return marked(exported_model(self.graph, self.forms.variants()), told)

    @property
    def fixed(self) -> dict[str, int]:
        """Open dimensions of the network that `model` fixes to the samples' extents, because ONNX
        cannot express the values that depend on them.
        """
        shapes = {value.name: value.type.tensor_type.shape.dim for value in self.model.graph.input}
        return {name: dim.dim_value for declared in self.forms.source.inputs
                for name, dim in zip(declared.dims, shapes[declared.name], strict=True)
                if isinstance(name, str) and dim.dim_value}

    @property
    def hindrance(self) -> str:
        """Why no layer is in int8: the most frequent reason among layers with weights, or among all
        layers where none has weights; empty where some layer is.
        """
        if any(layer.quantized for layer in self.layers):
            return ""
        weighted = [layer for layer in self.layers
                    if layer.op in (*WEIGHTED, "conv")] or self.layers
        if not weighted:
            return f"{NOTHING}: the network has no layers"
        reason, count = Counter(layer.reason for layer in weighted).most_common(1)[0]
        first = next(layer for layer in weighted if layer.reason == reason)
        more = f" ({count} layers like this)" if count > 1 else ""
        return f"{NOTHING}: {first.name} ({first.op}): {reason}{more}"

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model; raises FileError where it cannot be written."""
        write_bytes(path, self.model.SerializeToString(deterministic=True))


def unwatched(stage: str, steps: int) -> AbstractContextManager[Tick]:
    return nullcontext(lambda count: None)


@called_by_name
def quantize(model: Any, calibration: CalibrationSet, *,
             observer: str = "minmax", percentile: float = 99.99, equalize: bool = False,
             bias_correction: bool = True, keep_float: Iterable[str] = (),
             budget: float | str | None = None,
             weight_bits: int | Mapping[str, int] | Iterable[str] = 8,
             weight_groups: int | None = None, scale_bits: int | None = None,
             weight_rounding: str = NEAREST, activation_bits: int = 8,
             accumulator_bits: int = 32,
             sparsity: str | None = None, patterns: Sequence[Pattern | TermPattern] = (),
             made_for: Mapping[str, str] | None = None, example_inputs: Any = None,
             bind: Bindings | None = None, watch: Watch = unwatched) -> Quantized:
    """Quantize a float network. Nothing is random: same arguments, same model.

    Parameters
    ----------
    model : an ONNX file, or a model, which stays as it is; or what `compiler.frontend.models` takes
        besides: a file of another kind, an ExportedProgram, an nn.Module with its
        `example_inputs`, a graph. A first dimension that torch leaves open becomes 1.
    calibration : samples [N, ...] by the name of the input, or those of the only input; batches of
        either, in any iterable; the path of an .npz or .npy file, or several. docs/quantize.md says
        how samples of inputs without a batch are given.
    observer : ``minmax``, ``percentile`` (with its `percentile`, 99.99) or ``mse``.
    equalize : equalize channels of layers in a row first.
    bias_correction : correct biases by the means over the samples.
    keep_float : names of nodes that stay in float; a name stands for those too that begin with it
        and a dot: the parts of a node of ONNX, and what is in a module of PyTorch.
    budget : percentage points of agreement with the float network that may be lost, or text such
        as ``30dB``, the least signal to noise of the outputs; layers fall back to float, those
        that hurt most first, until it is met. Weights of fewer bits get 8 before that.
    weight_bits : 8, 4 or 2 bits for the weights of all layers but the first and the last; or bits
        by the names of layers, as for `keep_float`, ``*`` for all but these two.
    weight_groups : matrices of weights of 4 or 2 bits have a scale for each 16 to 1,024 inputs, a
        power of two, instead of one for each output channel; of `scale_bits`, 8 or 16, beside it.
    weight_rounding : ``nearest``, or ``feedback``: weights of fewer than 8 bits are rounded one
        column after another, each error taken from the columns behind it, so that the layers' sums
        over the samples stay (docs/quantize.md).
    sparsity : ``2:4`` keeps the two largest weights of each four input channels in a row, in all
        layers but the first and the last; the figures compare with the pruned float network.
        ``none`` keeps all, for any machine.
    activation_bits : 8; 4 or 2 for all activations but inputs and outputs of the network; or 16 for
        int16 activations with zero point 0, for a machine whose instructions are declared for
        these.
    accumulator_bits : of sums of products on a machine, 16 to 48: weights are as coarse as proves
        that sums of int16, or any in fewer than 32 bits, stay within.
    patterns : what instructions of a machine match; where a layer does, it has their meaning.
    made_for : the machine, as the file's metadata name it.
    example_inputs : what an nn.Module is exported with: a tensor, or a tuple of them.
    bind : inputs that become constants, by their name: arrays, or a number for all elements.
    watch : is notified of long tasks.

    Raises QuantizeRefused with one line: what, where and what to do; ArgumentError for options that
    are not known.
    """
    options = _Options(observer, percentile, equalize, bias_correction, tuple(keep_float),
                       Budget.of(budget), bits_by_name(weight_bits), pattern_of(sparsity),
                       activation_bits, accumulator_bits, tuple(patterns))
    options = replace(options, weight_groups=_groups(options, weight_groups, scale_bits),
                      feedback=is_feedback(weight_rounding, options.weight_bits,
                                           options.sparsity is not None, activation_bits,
                                           accumulator_bits))
    if accumulator_bits not in ACCUMULATOR_BITS:
        raise ArgumentError(f"accumulator_bits must be 16, 24, 32, 40 or 48, not "
                            f"{accumulator_bits!r}")
    if activation_bits not in ACTIVATION_BITS:
        raise ArgumentError(f"activation_bits must be 2, 4, 8 or 16, not {activation_bits!r}")
    samples = calibration_set(calibration)
    source = source_of(model, samples, example_inputs, bind, options.keep_float)
    fitted = Samples.of(source.inputs, source.place, samples)
    plain = replace(options, patterns=())
    quantized = settled(
        lambda declined: _Quantizer(source, fitted, options, watch, declined),
        lambda: _Quantizer(source, fitted, plain, watch, {})).run()
    return replace(quantized, made_for=dict(made_for or {}))


def quantize_ranges(model: ModelProto, ranges: Mapping[str, tuple[float, float]],
                    weight_bits: int | Mapping[str, int] = 8, weight_groups: int | None = None,
                    scale_bits: int | None = None) -> ModelProto:
    """The QDQ form of a float model from the least and greatest element of each value; layers whose
    values have none stay in float. Bits and groups of weights are as for `quantize`.
    """
    network, bits = prepare(convert(model)), bits_by_name(weight_bits)
    network.weight_bits = chosen_bits(network, {}, bits)
    network.weight_groups = WeightGroups.of(weight_groups, scale_bits,
                                            min(bits.values(), default=8))
    unknown = set(network.graph.values).difference(ranges)
    plan = make_plan(network, {}, unknown)
    if kept := disproportionate(network, plan, ranges):
        plan = make_plan(network, kept, unknown)
    return exported_model(write(network, plan, plan.scales(ranges)).graph)


@dataclass(frozen=True, slots=True)
class _Options:
    observer: str
    percentile: float
    equalize: bool
    bias_correction: bool
    keep_float: tuple[str, ...]
    budget: Budget | None
    weight_bits: Mapping[str, int]
    sparsity: Sparsity | None
    activation_bits: int
    accumulator_bits: int
    patterns: tuple[Pattern | TermPattern, ...]
    weight_groups: WeightGroups | None = None
    feedback: bool = False


def _groups(options: _Options, size: int | None, scale_bits: int | None) -> WeightGroups | None:
    """The groups of weights that were asked for."""
    return WeightGroups.of(size, scale_bits, min(options.weight_bits.values(), default=8),
                     options.activation_bits, options.accumulator_bits)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A choice of layers in float; `declined` says why matches have no meaning, by the value that
    they make.
    """

    network: LayeredNetwork
    plan: Plan
    scales: Mapping[str, Scale]
    declined: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Attempt(_Choice):
    """A choice of layers in float, and its results; `plain` is the network before its biases were
    corrected for all that is quantized.
    """

    measured: Measured
    plain: LayeredNetwork


@dataclass(frozen=True, slots=True)
class _Forms:
    """Forms of a quantized network for any extents of its open dimensions; it was calibrated with
    one set of them.
    """

    source: Source
    calibrated: Mapping[str, int]
    attempt: _Attempt
    patterns: tuple[Pattern | TermPattern, ...]
    declined: Declined

    def graph(self, shapes: Mapping[str, int], arrays: Mapping[str, Array]) -> Graph:
        network = prepare(self.source.graph(shapes, arrays), self.source.place, self.patterns,
                          self.declined)
        network.adopt(self.attempt.network)
        plan, scales = self.attempt.plan, self.attempt.scales
        return write(network, plan.within(network, scales), scales).graph

    def of_rows(self, batch: int | None) -> tuple[LayeredNetwork, Plan, Mapping[str, Scale]]:
        """The network with so many rows, its plan and scales. Raises QuantizeRefused."""
        source = self.source
        if batch is not None:
            if source.of_rows is None:
                raise QuantizeRefused(f"{source.place}: must be an ONNX model for a batch of "
                                      f"{batch}; leave the batch out")
            source = source.of_rows(batch)
        opened = {dim for declared in source.inputs for dim in declared.dims}
        network = prepare(source.graph({name: extent for name, extent in self.calibrated.items()
                                        if name in opened}), source.place, self.patterns,
                          self.declined)
        network.adopt(self.attempt.network)
        return network, self.attempt.plan.within(network, self.attempt.scales), self.attempt.scales

    def variants(self) -> Iterator[Variant]:
        """Variants with other extents: of all open dimensions; then with dimensions of equal extent
        kept equal, since they may have to be; then of some dimensions alone.
        """
        alone, alike = [[name] for name in self.calibrated], defaultdict(list)
        for name, extent in self.calibrated.items():
            alike[extent].append(name)
        together = list(alike.values())
        for groups in (alone, together, *([group] for group in together),
                       *([group] for group in alone)):
            variant = self._variant(groups) if groups else None
            if variant is not None:
                yield variant

    def _variant(self, groups: Sequence[Sequence[str]]) -> Variant | None:
        """The variant with other extents of some dimensions, equal within a group; None where the
        network is refused with these.
        """
        others = {name: self.calibrated[name] + number
                  for number, group in enumerate(groups, 1) for name in group}
        try:
            graph = self.graph({**self.calibrated, **others}, {})
        except QuantizeRefused:         # the network itself takes these alone
            return None
        return Variant(graph, {(self.calibrated[first], others[first]): first
                               for first, *_ in groups})


class _Quantizer:
    """Quantizes a network with its matches, but those that are `declined`; a
    `compiler.quantize.settling.Candidate`.
    """

    def __init__(self, source: Source, samples: Samples, options: _Options, watch: Watch,
                 declined: Declined):
        self.source, self.options, self.watch = source, options, watch
        self.make_observer = observer(options.observer, options.percentile,
                                      options.activation_bits)
        self.samples, self.declined = samples, declined
        self.network = prepare(source.graph(samples.shapes), source.place, options.patterns,
                               declined)
        self.network.activation_bits = options.activation_bits
        self.network.accumulator_bits = options.accumulator_bits
        self.network.weight_groups = options.weight_groups
        self.kept = source.recurrent.reasons(self.network) | _named(self.network,
                                                                    options.keep_float)
        self.network.weight_bits = chosen_bits(self.network, self.kept, options.weight_bits)
        self.sparse = tuple(prune(self.network, self.kept, options.sparsity)
                            if options.sparsity else ())
        self.equalized = equalize(self.network) if options.equalize else 0
        self.unbounded: set[str] = set()
        self.ranges: Ranges | None = None
        self.first = make_plan(self.network, self.kept)

    @property
    def planned(self) -> frozenset[str]:
        return planned_nodes(self.network, self.first)

    def integers(self) -> frozenset[str]:
        chosen = self._chosen(self._calibrated())
        return integer_nodes(chosen.network, chosen.plan, write(
            chosen.network, chosen.plan, chosen.scales).graph)

    def refused(self) -> Mapping[str, str]:
        reasons = self._left(self.first)
        if not reasons:
            chosen = self._chosen(self._calibrated())
            reasons = self._left(chosen.plan) | dict(chosen.declined)
        return reasons

    def _left(self, plan: Plan) -> dict[str, str]:
        """Why matches stay in float, by the value that they make."""
        return {layer.value: plan.reasons[layer.name] for layer in self.network.layers
                if layer.value in self.network.matched and layer.value not in plan.quantized}

    def run(self) -> Quantized:
        attempt, ranking, fallen = self._attempt(self._calibrated()), {}, ()
        require_bits(attempt.network, attempt.plan, self.options.weight_bits)
        budget = self.options.budget
        if budget is not None and not budget.met_by(attempt.measured, self.network.place):
            attempt = self._widen(attempt, budget)
        if budget is not None and not budget.met_by(attempt.measured, self.network.place):
            ranking = self._rank(attempt)
            attempt, fallen = self._fall_back(ranking, budget)
        return self._made(attempt, ranking, fallen)

    def _made(self, attempt: _Attempt, ranking: Mapping[str, Noise], fallen: tuple[str, ...]
              ) -> Quantized:
        unused = dict(self._unused(attempt))
        graph = replace(write(attempt.network, attempt.plan, attempt.scales).graph, notes=tuple(
            str(Note(name, "instruction", UNUSED, reason)) for name, reason in unused.items()))
        return Quantized(graph, self._figures(attempt, ranking), attempt.measured.agreement,
                         attempt.measured.decibels, self.samples.count, self.equalized, fallen,
                         _Forms(self.source, self.samples.shapes, attempt, self.options.patterns,
                                self.declined),
                         self.sparse, unused=unused, layers_for=lambda decibels: self._fall_back(
                             self._rank(attempt), Budget(decibels=decibels))[1],
                         learned=lambda form, arrays: self._learned(attempt, fallen, form, arrays))

    def _learned(self, attempt: _Attempt, fallen: tuple[str, ...], form: TrainingForm,
                 arrays: Mapping[str, Array]) -> Quantized:
        """The network of an attempt with parameters that were learned."""
        tensors, rounded, scales = form.learned(attempt.network, attempt.scales, arrays)
        network = replace(attempt.network, tensors=tensors, rounded=rounded)
        measured = measure(network, self.graph, attempt.plan, scales, self.samples)
        return self._made(_Attempt(network, attempt.plan, scales, attempt.declined, measured,
                                   network), {}, fallen)

    def _unused(self, attempt: _Attempt) -> Iterator[tuple[str, str]]:
        """Why no layer has a pattern, by its name."""
        graph, used = self.network.graph, {match.pattern.name for match in
                                           attempt.network.matched.values()}
        producers = graph.producers()
        for pattern in self.options.patterns:
            reasons = (f"at {producers[value].name} ({producers[value].op}) {reason}"
                       for (name, value), reason in self._reasons(attempt).items()
                       if name == pattern.name)
            if pattern.name not in used:
                yield pattern.name, next(reasons, "") or why_unmatched(graph, pattern)

    def _calibrated(self) -> Mapping[str, str]:
        """Why layers stay in float, by name, now that ranges are known."""
        if self.ranges is None:
            self.graph = self.network.float_graph()
            require_room(self.graph)
            self.ranges = self._calibrate([value for value in self.first.groups
                                           if value not in self.first.constants])
            self.kept |= (disproportionate(self.network, self.first, self.ranges)
                          | in_own_scales(self.network, self.first, self.ranges))
            plan = make_plan(self.network, self.kept, self.unbounded)
            self.kept |= fragile(self.network, self.graph, plan, plan.scales(self.ranges),
                                 self.samples, RANKING_SAMPLES)
        return self.kept

    def _calibrate(self, wanted: Collection[str]) -> Ranges:
        """The range of each value in the float network over all samples; non-finite values have
        none.
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

    def _chosen(self, kept: Mapping[str, str]) -> _Choice:
        network = replace(self.network, layers=list(self.network.layers),
                          tensors=dict(self.network.tensors))
        declined: dict[str, str] = {}
        assert self.ranges is not None
        while True:
            plan = make_plan(network, kept, self.unbounded)
            scales = plan.scales(self.ranges)
            network.matched, reasons = usable(network, plan, scales)
            declined |= reasons
            if not reasons:
                return _Choice(network, plan, scales, declined)

    def _attempt(self, kept: Mapping[str, str]) -> _Attempt:
        chosen = self._chosen(kept)
        network, plan, scales = chosen.network, chosen.plan, chosen.scales
        plain = replace(network, layers=list(network.layers))
        if self.options.bias_correction:
            with self.watch("bias correction", self.samples.count) as tick:
                correct_biases(network, self.graph, plan, scales, self.samples, tick)
        if self.options.feedback:
            with self.watch("error feedback", len(network.layers)) as tick:
                feed_errors_back(network, self.graph, plan, scales, self.samples,
                                 self.options.bias_correction, tick)
        with self.watch("comparing with float", self.samples.count) as tick:
            measured = measure(network, self.graph, plan, scales, self.samples, tick)
        return _Attempt(network, plan, scales, chosen.declined, measured, plain)

    def _rank(self, attempt: _Attempt) -> dict[str, Noise]:
        """The output noise of each layer quantized by itself, largest first."""
        plan = attempt.plan
        with self.watch("ranking layers", len(plan.quantized)) as tick:
            noises = effects(attempt.plain, self.graph, plan, attempt.scales, self.samples,
                             RANKING_SAMPLES, tick)
        order = sorted(noises, key=lambda value: -noises[value].noise)    # stable: depth decides
        return {value: noises[value] for value in order}

    def _widen(self, attempt: _Attempt, budget: Budget) -> _Attempt:
        """The fewest of the worst layers with weights of 8 bits with which the budget is met, by
        bisection; all of them where it is met with none.
        """
        few = self.network.weight_bits
        if not few:
            return attempt
        places = {value: place for place, value in enumerate(self._rank(attempt))}
        value = {layer.inner: layer.value for layer in self.network.layers}
        worst = sorted(few, key=lambda inner: places.get(value[inner], len(places)))
        low, high, best = 0, len(worst), None
        while high - low > 1 or best is None:
            middle = (low + high) // 2 if high - low > 1 else high
            self.network.weight_bits = {inner: few[inner] for inner in worst[middle:]}
            attempt = self._attempt(self.kept)
            if budget.met_by(attempt.measured, self.network.place) or middle == len(worst):
                high, best = middle, attempt
            else:
                low = middle
        self.network.weight_bits = best.network.weight_bits
        return best

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
        declined = self._declined(attempt)
        return tuple(_figures(layer, attempt, by_itself, ranking, "; ".join(
            said for name in layer.names for said in declined[name]))
                     for layer in attempt.plain.layers)

    def _declined(self, attempt: _Attempt) -> defaultdict[str, list[str]]:
        """Why instructions do not compute nodes that they match, by the node's name."""
        producers, said = self.network.graph.producers(), defaultdict[str, list[str]](list)
        for (name, value), reason in self._reasons(attempt).items():
            said[producers[value].name].append(f"{name} is not used: {reason}")
        return said

    def _reasons(self, attempt: _Attempt) -> Declined:
        """Why patterns that match are not used."""
        matched = self.network.matched
        return {**self.declined, **{(matched[value].pattern.name, value): reason
                                    for value, reason in attempt.declined.items()}}


def _figures(layer: Layer, attempt: _Attempt, by_itself: Mapping[str, Noise],
             ranking: Mapping[str, Noise], declined: str) -> LayerFigures:
    def decibels(noises: Mapping[str, Noise]) -> float | None:
        return noises[layer.value].decibels if layer.value in noises else None

    quantized = layer.value in attempt.plan.quantized
    match = attempt.network.matched.get(layer.value) if quantized else None
    return LayerFigures(layer.name, layer.node.op, quantized,
                        decibels(by_itself), decibels(attempt.measured.noises), decibels(ranking),
                        attempt.plan.reasons.get(layer.name, ""), _bits(layer, attempt),
                        match.pattern.name if match else "",
                        steps_off(match, layer.value, attempt.scales) if match else None,
                        declined)


def _bits(layer: Layer, attempt: _Attempt) -> int | None:
    """The bits of a quantized layer's weights; None for other layers."""
    weighted = layer.value in attempt.plan.quantized and is_weighted(layer, attempt.network)
    return attempt.network.weight_bits.get(layer.inner, 8) if weighted else None


def _named(network: LayeredNetwork, names: Sequence[str]) -> dict[str, str]:
    """Maps the layers that these nodes became to the reason."""
    kept = {name: parts(network, name) for name in names}
    for name, layers in kept.items():
        if not layers:
            raise QuantizeRefused(f"{network.place}: --keep-float must name a layer, one of "
                                  f"{', '.join(layer.name for layer in network.layers)}, "
                                  f"not {name!r}")
    return {layer.name: KEPT for layers in kept.values() for layer in layers}
