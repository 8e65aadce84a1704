"""Networks whose convolutions and dense layers multiply floats of few bits: a float network, and
samples, become its form with conversions around each such layer.

Activations have one scale each, the largest magnitude that the samples show on the greatest number
of the type; weights have one for each output. bfloat16 has the range of float32: it is a
conversion, without scales and samples.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto

from compiler.errors import ArgumentError, called_by_name
from compiler.files import write_bytes
from compiler.frontend.building.binding import Bindings
from compiler.frontend.onnx.exporting import exported_model
from compiler.graph.graph import Graph, Node
from compiler.graph.passes.pipeline import optimize, standard_passes
from compiler.graph.products.factors import IMAGES, outputs_axis
from compiler.graph.products.float_products import MOVES
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.records.stored_floats import STORED_FLOATS, numbers_of, stored_array
from compiler.ops.registry import find
from compiler.quantize.improve.noise import Noise
from compiler.quantize.made_for import marked
from compiler.quantize.networks.source import source_of
from compiler.quantize.quantizer import KEPT, NOTHING, Watch, unwatched
from compiler.quantize.ranges.calibration import Samples, program
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.quantize.ranges.sets import CalibrationSet, calibration_set
from compiler.te import is_float

Array = np.ndarray
BRAIN = "bfloat16"


@dataclass(frozen=True, slots=True)
class LayerInFloats:
    """A product of the network, and whether it is of floats of few bits; if not, the `reason`."""

    name: str
    op: str
    quantized: bool
    reason: str


@dataclass(frozen=True)
class InFloats:
    """The network for the extents of the samples, and its products. `decibels`: signal to noise of
    the worst output over the samples, None without noise. `form` makes it for extents that are
    given by name, or else those of arrays by the name of the input."""

    graph: Graph
    layers: tuple[LayerInFloats, ...]
    decibels: float | None
    samples: int
    form: Callable[[Mapping[str, int], Mapping[str, Array]], Graph] = field(repr=False)
    made_for: Mapping[str, str] = field(default_factory=dict)

    @property
    def products(self) -> tuple[str, ...]:
        """The layers that multiply floats of few bits."""
        return tuple(layer.name for layer in self.layers if layer.quantized)

    @property
    def left(self) -> dict[str, str]:
        """Why other layers do not, by their names."""
        return {layer.name: layer.reason for layer in self.layers if not layer.quantized}

    @property
    def hindrance(self) -> str:
        """Why no layer is in floats of few bits: the most frequent reason; empty where some are."""
        if self.products:
            return ""
        reasons = Counter(layer.reason for layer in self.layers).most_common(1)
        return f"{NOTHING}: {reasons[0][0] if reasons else 'the network has no layers'}"

    def graph_of(self, shapes: Mapping[str, int] | None = None,
                 arrays: Mapping[str, Array] | None = None) -> Graph:
        """The graph for other extents of the network's open dimensions, taken from `shapes`, by
        name or place, or else from `arrays`, by the name of the input. Raises QuantizeRefused.
        """
        return self.form(shapes or {}, arrays or {}) if shapes or arrays else self.graph

    @cached_property
    def model(self) -> ModelProto:
        """The graph as an ONNX model of opset 21: QuantizeLinear and DequantizeLinear of float8, or
        Cast to bfloat16 and back."""
        return marked(exported_model(self.graph), dict(self.made_for))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model; raises FileError where it cannot be written."""
        write_bytes(path, self.model.SerializeToString(deterministic=True))


@called_by_name
def in_floats(model: Any, calibration: CalibrationSet, *, activations: str = "float8_e4m3fn",
              weights: str | None = None, keep_float: Iterable[str] = (),
              example_inputs: Any = None, bind: Bindings | None = None,
              made_for: Mapping[str, str] | None = None, watch: Watch = unwatched) -> InFloats:
    """Put conversions to floats of few bits around the layers of a float network. Nothing is
    random.

    Parameters
    ----------
    model, calibration, example_inputs, bind : as for `compiler.quantize.quantize`.
    activations, weights : float8_e4m3fn, float8_e5m2 or bfloat16; weights are of the same type
        unless told. bfloat16 is for both.
    keep_float : names of layers that stay in float; a name stands for those too that begin with it
        and a dot, and that of a bias or Relu for the layer that it is a part of.
    made_for : what the file says of its machine. watch : is notified of long tasks.
    """
    weights = weights or activations
    for name, dtype in (("activations", activations), ("weights", weights)):
        if dtype not in STORED_FLOATS:
            raise ArgumentError(f"{name} must be one of {', '.join(STORED_FLOATS)}, not {dtype!r}")
    if BRAIN in (activations, weights) and activations != weights:
        raise ArgumentError(f"weights must be {BRAIN} where activations are, and no others, not "
                            f"{weights!r}")
    samples = calibration_set(calibration)
    source = source_of(model, samples, example_inputs, bind)
    fitted = Samples.of(source.inputs, source.place, samples)
    graph = optimize(source.graph(fitted.shapes), standard_passes(integerize=False))
    ops = {node.name: node.op for node in _products(graph)}
    kept = _kept(graph, keep_float, source.place)
    readers = graph.consumers()
    reasons = {node.name: KEPT if any(part.name in kept for part in _parts(graph, readers, node))
               else _hindrance(graph, node) for node in _products(graph)}
    writer = _Writer(graph, (activations, weights), reasons)
    scales = _scales(graph, fitted, writer.wanted, activations, watch)

    def form(shapes: Mapping[str, int], arrays: Mapping[str, Array]) -> Graph:
        other = optimize(source.graph(shapes, arrays), standard_passes(integerize=False))
        _require_known(source.place, (node.name for node in _products(other)), reasons)
        own = _Writer(other, (activations, weights), reasons)
        if activations != BRAIN:
            _require_known(source.place, own.wanted, scales)
        return own.graph(scales)

    made = writer.graph(scales)
    layers = tuple(LayerInFloats(name, op, not reasons[name], reasons[name])
                   for name, op in ops.items())
    return InFloats(made, layers, _decibels(graph, made, fitted, watch), fitted.count, form,
                    dict(made_for or {}))


def _require_known(place: str, names: Iterable[str], known: Mapping[str, Any]) -> None:
    """Raises QuantizeRefused for products and values that the samples did not have."""
    if new := next((name for name in names if name not in known), None):
        raise QuantizeRefused(f"{place}: samples must have the extents that are asked for: with "
                              "these the network has layers that it has not with those of the "
                              f"samples, such as {new}")


def _products(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if find(node.op).contracts]


def _kept(graph: Graph, names: Iterable[str], place: str) -> set[str]:
    """The nodes that these names stand for. Raises QuantizeRefused for names of none."""
    stand = {name: {node.name for node in graph.nodes
                    if node.name == name or node.name.startswith(f"{name}.")} for name in names}
    if unknown := sorted(str(name) for name, nodes in stand.items() if not nodes):
        products = ", ".join(node.name for node in _products(graph))
        raise QuantizeRefused(f"{place}: layers to keep in float must be some of "
                              f"{products or 'none'}, not {', '.join(unknown)}")
    return set().union(*stand.values())


def _parts(graph: Graph, readers: Mapping[str, Sequence[Node]], node: Node) -> list[Node]:
    """A product, and a bias and Relu that read it alone."""
    parts, axis = [node], 1 if node.op in IMAGES else -1
    for op in ("add", "relu"):
        value = parts[-1].outputs[0]
        reader, = alone if len(alone := readers[value]) == 1 else (None,)
        if reader and reader.op == op and value not in graph.outputs and (
                op == "relu" or _is_bias(graph, reader, value, axis)):
            parts.append(reader)
    return parts


def _is_bias(graph: Graph, node: Node, value: str, axis: int) -> bool:
    """True if a node adds a finite constant of the channels to a value, or a number."""
    other = node.inputs[1] if node.inputs[0] == value else node.inputs[0]
    array, shape = graph.constants.get(other), graph.values[value].shape
    if array is None or graph.values[node.outputs[0]].shape != shape:
        return False
    whole = (1,) * (len(shape) - array.ndim) + array.shape
    return bool(np.isfinite(array).all()) and array.size in (1, shape[axis]) and (
        array.size == 1 or whole[axis] == shape[axis])


def _hindrance(graph: Graph, node: Node) -> str:
    """Why a product stays in float; empty where it does not."""
    if not find(node.op).floats:
        return f"no operator multiplies floats of few bits for {node.op}"
    weight = graph.constants.get(node.inputs[1])
    if weight is None:
        return "its second factor is computed"
    if node.attrs.get("group", 1) != 1:
        return "its channels are in groups"
    for role, value in zip(("weight", "bias"), node.inputs[1:], strict=False):
        if value in graph.constants and not np.isfinite(graph.constants[value]).all():
            return f"its {role} has numbers that are not finite"
    return "" if weight.ndim == 2 or node.op in IMAGES else "its weight is a stack of matrices"


def _scales(graph: Graph, samples: Samples, wanted: Iterable[str], dtype: str, watch: Watch
            ) -> dict[str, Array]:
    """The scale of each value that is stored."""
    wanted = [*dict.fromkeys(wanted)]
    if dtype == BRAIN or not wanted:
        return {}
    most = dict.fromkeys(wanted, 0.0)
    run = program(graph, [value for value in wanted if value not in graph.inputs])
    with watch("calibration", samples.count) as tick:
        for batch in samples.batches():
            for value, array in {**batch, **run(batch)}.items():
                if value in most:
                    if not np.isfinite(array).all():
                        raise QuantizeRefused(f"{graph.name}: samples must make finite values of "
                                              f"{value!r}")
                    most[value] = max(most[value], float(np.abs(array).max(initial=0)))
            tick(samples.batch)
    return {value: _scale(np.array(magnitude), dtype) for value, magnitude in most.items()}


def _scale(most: Array, dtype: str) -> Array:
    """The scales by which the greatest number of the type stands for these magnitudes: at least
    the least number of float32, and 1 for 0."""
    scale = (most / float(ml_dtypes.finfo(dtype).max)).astype(np.float32)
    least = np.finfo(np.float32).smallest_subnormal
    return np.where(most > 0, np.maximum(scale, least), np.float32(1))


def _decibels(graph: Graph, made: Graph, samples: Samples, watch: Watch) -> float | None:
    """The signal to noise of the worst output of floats."""
    runs = [program(one, one.outputs) for one in (graph, made)]
    noises = {value: Noise() for value in graph.outputs if is_float(graph.values[value].dtype)}
    with watch("comparing with float", samples.count) as tick:
        for batch in samples.batches():
            real, other = (run(batch) for run in runs)
            for value, noise in noises.items():
                noise.add(real[value], other[value])
            tick(samples.batch)
    known = [noise.decibels for noise in noises.values() if noise.decibels is not None]
    return min(known, default=None)


class _Writer:
    """Writes the graph with conversions around some products."""

    def __init__(self, graph: Graph, types: tuple[str, str], reasons: Mapping[str, str]):
        self.source, self.types = graph, types
        self.products = {node.name: node for node in _products(graph) if not reasons[node.name]}
        readers = graph.consumers()
        self.ends = {_parts(graph, readers, node)[-1].outputs[0]: node
                     for node in self.products.values()}
        self.scales: Mapping[str, Array] = {}
        self.builder = Builder.like(graph)
        self.known: dict[str, str] = {}     # of what is read as it is stored
        self.exact: set[str] = set(self.ends)
        for node in graph.nodes:
            if node.op in MOVES and node.inputs[0] in self.exact:
                self.exact.add(node.outputs[0])

    @property
    def wanted(self) -> list[str]:
        """The values that are stored."""
        read = (node.inputs[0] for node in self.products.values())
        return [*(value for value in read if value not in self.exact), *self.ends]

    def graph(self, scales: Mapping[str, Array]) -> Graph:
        """With these scales of the values that are stored."""
        self.scales = scales
        for node in self.source.nodes:
            if node.name in self.products:
                x, w, *more = node.inputs
                x = x if x in self.exact else self._stored(x)
                node = replace(node, inputs=(x, self._weight(node, w), *more))
            value = node.outputs[0]
            if value in self.ends:
                inner = self.builder.fresh(f"{value}_float")
                self.builder.add(replace(node, outputs=(inner,)))
                self._converted(inner, value, self.scales.get(value))
            else:
                self.builder.add(node)
        return eliminate_dead_code(self.builder.finish(self.source.outputs))

    def _stored(self, value: str) -> str:
        """A value as it is when it was stored."""
        if value not in self.known:
            self.known[value] = self._converted(value, self.builder.fresh(f"{value}_known"),
                                                self.scales.get(value))
        return self.known[value]

    def _converted(self, value: str, result: str, scale: Array | None) -> str:
        """Converts a value to the type of activations and back."""
        codes = self.builder.fresh(f"{value}_stored")
        names = [self.builder.fresh_node(f"{value}_{role}") for role in ("encode", "decode")]
        if scale is None:
            pairs = (("cast", {"to": BRAIN}), ("cast", {"to": "float32"}))
            parameters = []
        else:
            attrs = {"axis": 0, "dtype": self.types[0]}
            pairs = (("encodefloat", attrs), ("decodefloat", attrs))
            parameters = [self.builder.add_constant(self.builder.fresh(f"{value}_scale"), scale)]
        for (op, attrs), name, source, made in zip(pairs, names, (value, codes), (codes, result),
                                                   strict=True):
            self.builder.add(Node(op, name, (source, *parameters), (made,), attrs))
        return result

    def _weight(self, node: Node, value: str) -> str:
        """The weight as it is when it was stored, with a scale for each output."""
        array, axis, dtype = self.source.constants[value], outputs_axis(node), self.types[1]
        name = self.builder.fresh(f"{node.name}_weight")
        if dtype == BRAIN:
            return self.builder.add_constant(name, numbers_of(stored_array(array, dtype), dtype))
        others = tuple(place for place in range(array.ndim) if place != axis)
        scales = _scale(np.abs(array).max(axis=others), dtype)
        steps = array / scales.reshape([-1 if place == axis else 1 for place in range(array.ndim)])
        inputs = (self.builder.add_constant(self.builder.fresh(f"{name}_codes"),
                                            stored_array(steps.astype(np.float32), dtype)),
                  self.builder.add_constant(self.builder.fresh(f"{name}_scale"), scales))
        return self.builder.add(Node("decodefloat", self.builder.fresh_node(name), inputs, (name,),
                                     {"axis": axis, "dtype": dtype}))
