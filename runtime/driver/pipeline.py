"""The pipeline: one list of all stages of a network, from import to compiled segments.

::

    import                           the graph as it was read
    fold-constants, clean-up, ...    graph -> graph:
                                     `compiler.graph.passes.pipeline.standard_passes`
    partition                        graph -> the target that computes each node
    layout                           images that are NHWC, and where they are converted
    compile                          a `Compiled` for each segment, by stages of its target:
      forms, layers, tiles, loops,     the accelerator's (`accel.mapping.texts`)
      stream, program
      ..., fuse, plan-memory,          a processor's or GPU's passes (its list), then these
      kernels

Every stage's result has a text form, and every stage a contract, its docstring.
`lockstep compile --dump` writes the text of each, `lockstep show` prints one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, ClassVar

from compiler.defects import blamed, is_defect, told
from compiler.graph.division.layout import Layout, lay_out
from compiler.graph.division.partition import ACCEL, HOST, Partition, subgraph
from compiler.graph.division.placement import Pins
from compiler.graph.division.prefixes import masks_of
from compiler.graph.division.protocols import CannotCompile, Compiled, CompilesPrefixes
from compiler.graph.graph import Graph, Node
from compiler.graph.notes import Note
from compiler.graph.passes.pipeline import AfterStage, PipelineStage, run, standard_passes
from compiler.ops.records.operator import Numbers
from compiler.ops.records.stored_floats import FLOAT_PRODUCTS
from compiler.ops.registry import find
from compiler.te import is_float
from compiler.texts import SegmentTexts
from runtime.driver.auto import Choice, Refused, choose, greedy
from runtime.driver.costs import Pricing
from runtime.driver.targets import Targets

IN_FLOAT = ("nothing runs on the accelerator: it computes {}, and no layer of the network is "
            "quantized; give calibration samples (--calibration FILE, calibration= in Python), or "
            "a network that `lockstep quantize` made")

NEARLY = ("nothing runs on the accelerator: it computes {}, and no layer of the network stands "
          "between quantizations, DequantizeLinear -> layer -> QuantizeLinear; nearest is ")

COMPUTED_SCALES = ("nothing runs on the accelerator: the network computes the scales by which it "
                   "quantizes, and its products are in float; give the float network that it was "
                   "made of")


OTHER_FLOATS = ("nothing runs on the accelerator: it multiplies {}, and the layers of the network "
                "are quantized to {}; give a machine of these (docs/fp8.md), or the network in "
                "float")

ALIKE_FLOATS = ("nothing runs on the accelerator: it multiplies {}, and no layer of the network "
                "stands between conversions of that type that saturate and have one positive scale "
                "(docs/fp8.md)")


def is_about_float(note: str) -> bool:
    """True if a note of a graph says that nothing runs on the accelerator, and why."""
    return note.startswith(IN_FLOAT[:IN_FLOAT.index(":")])


@dataclass(frozen=True, slots=True)
class Divided:
    """A graph with a target for each node; `choice` where costs have decided."""

    partition: Partition
    choice: Choice | None = None

    @property
    def results(self) -> Sequence[tuple[str, Any]]:
        """The results that a dump shows, by name."""
        return [(Divide.name, self.partition)]


@dataclass(frozen=True, slots=True)
class LaidOut:
    layout: Layout
    choice: Choice | None = None

    @property
    def results(self) -> Sequence[tuple[str, Any]]:
        return [(LayOut.name, self.layout)]


@dataclass(frozen=True, slots=True)
class Built:
    """All that a module needs except devices. `graph` is the layout's, with notes for the user."""

    graph: Graph
    layout: Layout
    compiled: tuple[Compiled, ...]
    choice: Choice | None = None

    @property
    def results(self) -> Sequence[tuple[str, Any]]:
        """Each stage of the targets once, with what it made of all segments that went through it.
        """
        made: dict[str, list[tuple[str, Any]]] = {}
        segments = self.layout.partition.segments
        for number, (segment, compiled) in enumerate(zip(segments, self.compiled, strict=True)):
            for name, result in compiled.stages.items():
                made.setdefault(name, []).append((f"segment {number} on {segment.target}", result))
        return [(name, SegmentTexts(results)) for name, results in made.items()]


@dataclass(frozen=True, slots=True)
class Divide:
    """Before: a verified graph. After: each node is on one of the targets that take it, on the
    first of them unless `auto` or `pins` say otherwise; segments and copies are in order of
    execution. With `auto` no candidate of `runtime.driver.auto` costs less. `pricing` is made of
    the graph where it is not given. A node is on no target by which it is `refused`. Raises
    PinRefused.
    """

    targets: Targets
    pins: Pins | None = None
    auto: bool = False
    pricing: Pricing | None = None
    pipelined: bool = False
    refused: Refused = field(default_factory=dict)
    name: ClassVar[str] = "partition"

    def __call__(self, graph: Graph) -> Divided:
        pricing = self.pricing
        if self.auto and pricing is None:
            pricing = Pricing(graph, self.targets, pipelined=self.pipelined)
        if pricing is None:
            return Divided(greedy(graph, self.targets, self.pins, self.refused))
        pricing.refuse(self.refused)
        choice = choose(pricing, self.pins)
        return Divided(choice.price.partition, choice)


@dataclass(frozen=True, slots=True)
class LayOut:
    """Before: a partition. After: the same segments of a graph that computes the same to the bit,
    with the fewest bytes of images to convert (`compiler.graph.division.layout.lay_out`).
    """

    targets: Targets
    name: ClassVar[str] = "layout"

    def __call__(self, divided: Divided) -> LaidOut:
        return LaidOut(lay_out(divided.partition, self.targets.borders(divided.partition.graph)),
                       divided.choice)


@dataclass(frozen=True, slots=True)
class Compile:
    """Before: a partition with its layout. After: each segment compiled by its target; a segment
    that pricing compiled is not compiled again, unless it can read less of caches where the
    position is small.
    """

    targets: Targets
    integerize: bool = True
    name: ClassVar[str] = "compile"

    def __call__(self, laid_out: LaidOut) -> Built:
        graph, compiled = laid_out.layout.partition.graph, []
        for segment in laid_out.layout.partition.segments:
            part, target = subgraph(graph, segment), self.targets[segment.target].target
            masks = masks_of(graph, part) if isinstance(target, CompilesPrefixes) else {}
            if isinstance(target, CompilesPrefixes) and masks:
                compiled.append(target.compile_prefixes(part, masks))
            elif laid_out.choice:
                compiled.append(laid_out.choice.pricing.compiled(segment.target, part))
            else:
                compiled.append(target.compile(part))
        return Built(self.noted(graph), laid_out.layout, tuple(compiled), laid_out.choice)

    def noted(self, graph: Graph) -> Graph:
        """The graph, with a note where nothing of it runs on the accelerator."""
        told = any(map(is_about_float, graph.notes))
        if ACCEL in self.targets.names and self.integerize and _is_float(graph) and not told:
            device = self.targets.device
            elements = device.machine.config.operand if device else "int8"
            return replace(graph, notes=(_advice(graph, elements), *graph.notes))
        return graph


def _advice(graph: Graph, elements: str) -> str:
    """Why nothing runs on an accelerator of these `elements`: that nothing is quantized or, where
    something is, which layer lacks the least, and what.
    """
    if others := dict.fromkeys(str(node.attrs["dtype"]) for node in graph.nodes
                               if node.op == "decodefloat"):
        return ALIKE_FLOATS.format(elements) if elements in others else OTHER_FLOATS.format(
            elements, " and ".join(others))
    notes = [note for note in map(Note.of, graph.notes) if note and find(note.op).contracts]
    if not notes or all(find(node.op).numbers is not Numbers.CONVERSION for node in graph.nodes):
        return COMPUTED_SCALES if _computes_bytes(graph) else IN_FLOAT.format(elements)
    if is_float(elements):
        return ALIKE_FLOATS.format(elements)
    nearest = min(notes, key=lambda note: note.reason.count(" missing "))
    return f"{NEARLY.format(elements)}{nearest.node} ({nearest.op}): {nearest.reason}"


def _computes_bytes(graph: Graph) -> bool:
    """True if operators read quantized numbers that others compute."""
    return any(graph.values[value].dtype in ("int8", "uint8", "int16", "uint16")
               for node in graph.nodes for value in node.outputs if value not in graph.outputs)


def _is_float(graph: Graph) -> bool:
    """True if the graph has float products, and computes nothing in integers or floats of few bits.
    """
    operators = [find(node.op) for node in graph.nodes]
    return (any(operator.contracts and operator.integer for operator in operators)
            and all(operator.numbers is not Numbers.INTEGER
                    and operator.name not in FLOAT_PRODUCTS for operator in operators))


def pipeline(targets: Targets, pins: Pins | None = None, auto: bool = False,
             integerize: bool = True, pipelined: bool = False, sums: bool = True,
             twice: bool = True) -> tuple[PipelineStage, ...]:
    """The whole list, for these targets. `sums` and `twice` are as in `standard_passes`, where an
    accelerator is among the targets.
    """
    auto = auto and len(targets.names) > 1
    return (*standard_passes(integerize, targets.accumulator_bits, targets.exact,
                             sums and not targets.exact, targets.takes_rows, twice,
                             targets.float_types),
            Divide(targets, pins, auto, pipelined=pipelined), LayOut(targets),
            Compile(targets, integerize))


def cheapest(graph: Graph, targets: Targets, pins: Pins | None = None, auto: bool = False,
             integerize: bool = True, pipelined: bool = False, after: AfterStage | None = None
             ) -> Built:
    """The graph, built for these targets. With `auto` products that nothing quantizes are sums of
    integers, or computed twice, only where the whole costs less so. Lists of stages that make the
    same graph are built once.
    """
    lists = [pipeline(targets, pins, auto, integerize, pipelined, sums, twice)
             for sums, twice in ((True, True), (True, False), (False, False))]
    if not auto or targets.exact:
        return build(lists[0], graph, after)
    different = _different(graph, lists)
    if len(different) == 1:
        return build(different[0], graph, after)
    built = [build(stages, graph) for stages in different]
    best = min(range(len(built)), key=lambda place: _cost(built[place]))
    return built[best] if after is None else build(different[best], graph, after)


def _cost(built: Built) -> float:
    assert built.choice is not None
    return built.choice.price.cost


def _different(graph: Graph, lists: Sequence[Sequence[PipelineStage]]
               ) -> list[Sequence[PipelineStage]]:
    """The lists of which no earlier one makes the same graph."""
    shared = list(takewhile(lambda alike: all(stage == alike[0] for stage in alike), zip(*lists)))
    start = run([stage for stage, *_ in shared], graph)
    found: list[tuple[Sequence[PipelineStage], tuple[Node, ...]]] = []
    for stages in lists:
        passes = list(takewhile(lambda stage: not isinstance(stage, Divide), stages))
        nodes = run(passes[len(shared):], start).nodes
        if all(nodes != known for _, known in found):
            found.append((stages, nodes))
    return [stages for stages, _ in found]


def build(stages: Sequence[PipelineStage], graph: Graph, after: AfterStage | None = None) -> Built:
    """Runs the stages, the last of which is `Compile`, on the graph. Where a target fails to
    compile nodes that it takes, which is a defect, they run again with these on the host.
    """
    while True:
        try:
            built = run(stages, graph, after)
        except Exception as error:
            nodes = blamed(error)
            left = [node for node in nodes if not _is_on_host(stages, node)]
            if not left or not (is_defect(error) or isinstance(error, CannotCompile)):
                raise
            stages = _on_host(stages, left, told(", ".join(left), error))
        else:
            assert isinstance(built, Built)
            return built


def _is_on_host(stages: Sequence[PipelineStage], node: str) -> bool:
    return any(node == name for stage in stages if isinstance(stage, Divide)
               for name, _ in stage.refused)


def _on_host(stages: Sequence[PipelineStage], nodes: Sequence[str], reason: str
             ) -> list[PipelineStage]:
    """The stages with a division that leaves these nodes to the host."""
    return [replace(stage, refused={**stage.refused, **{
        (node, target): reason for node in nodes for target in stage.targets.names
        if target != HOST}}) if isinstance(stage, Divide) else stage for stage in stages]
