"""Prices of targets for one graph: simulated for the accelerator, measured for this processor."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from accel.figures.attribution import layer_ends
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.compiled import CompiledSegment
from accel.mapping.memory.borders import core, with_borders
from accel.mapping.memory.layout import (BLOCKED, BLOCKED_ROWS, LAST, PLAIN, PLAIN_ROWS, blocks_of,
                                         from_memory, to_memory)
from accel.mapping.memory.views import images
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from compiler.graph.division.channels_last import FROM_LAST
from compiler.graph.division.partition import Segment, subgraph
from compiler.graph.division.protocols import (ACCEL, HOST, Compiled, Crossing, Measure, Priced,
                                               Target)
from compiler.graph.graph import Graph, Node, TensorType
from compiler.native import digest
from runtime.pricing.link import LINK, Link


@dataclass
class AccelPrices:
    """Prices of the accelerator. Cycles come from the cycle simulator, with the memory of the
    machine, and become seconds by its clock. A node costs its share of the cycles of the last
    segment that was simulated with it.

    `cycles` are those of the nodes, `overhead_cycles` those of a segment without its layers.
    """

    graph: Graph
    target: AccelTarget
    measure: Measure
    link: Link = LINK
    cycles: dict[str, float] = field(default_factory=dict)
    overhead_cycles: float = 0.0
    simulated: dict[tuple[str, ...], tuple[CompiledSegment, int]] = field(default_factory=dict)

    @property
    def _clock(self) -> float:
        return self.target.machine.config.clock_mhz * 1e6

    def assumed(self) -> dict[str, dict[str, Any]]:
        return self.link.assumptions()

    def start(self) -> float:
        return self.link.start_seconds + self.overhead_cycles / self._clock

    def node(self, node: Node) -> float:
        return self.cycles.get(node.name, 0) / self._clock

    def segment(self, graph: Graph) -> Priced:
        """Compiles a segment once, whatever layouts its tensors have. Raises LoweringError for a
        segment that the accelerator cannot have after all.
        """
        compiled, cycles = self._simulated(core(graph))
        compiled = replace(compiled, program=with_borders(compiled.program, graph))
        return Priced(compiled, self.link.start_seconds + cycles / self._clock, cycles)

    def least(self, graph: Graph) -> float:
        if tuple(node.name for node in graph.nodes) in self.simulated:
            return self.segment(graph).seconds
        return self.link.start_seconds

    def crossing(self, value: str, kind: TensorType, outwards: bool, last: bool = False
                 ) -> Crossing:
        """Prices a copy. Plain tensors go to the accelerator; its blocks, padding included, come
        back.
        """
        size, change = self._change(value, kind, outwards, last)
        where = HOST if outwards else ACCEL
        seconds = self.measure(
            f"layout for {where} of {kind}{', NHWC' if last else ''} in {size} bytes", change)
        return Crossing(size, self.link.copy_seconds(size) + seconds, seconds)

    def _change(self, value: str, kind: TensorType, outwards: bool, last: bool
                ) -> tuple[int, Callable[[], object]]:
        """The bytes that cross the link, and a function that changes the layout."""
        image = len(kind.shape) == 4
        if not outwards:
            given = samples({value: kind})[value]
            layout = PLAIN if image and not last else PLAIN_ROWS
            return given.nbytes, lambda: to_memory(given, layout)
        blocks = blocks_of(self.target.machine.config)
        logical = tuple(kind.shape[axis] for axis in FROM_LAST) if last else kind.shape
        stored = np.zeros(images(logical).stored_shape(blocks), blocks.element)
        layout = BLOCKED if image else BLOCKED_ROWS
        layout = LAST[layout] if last else layout
        return stored.nbytes, lambda: from_memory(stored, layout, kind.shape)

    def _simulated(self, part: Graph) -> tuple[CompiledSegment, int]:
        """Compiles and simulates a segment once; its cycles become those of its nodes."""
        key = tuple(node.name for node in part.nodes)
        if key not in self.simulated:
            compiled = self.target.compile_core(part)
            run = cycle.simulate(self.target.machine, compiled.program, values=False)
            if not run.ok:
                raise AssertionError(f"{key[0]} to {key[-1]}: {run.describe()}")
            self.simulated[key] = compiled, run.cycles
            self._attribute(part, compiled, layer_ends(compiled.program, run), run.cycles)
        return self.simulated[key]

    def _attribute(self, part: Graph, compiled: CompiledSegment, ends: list[int],
                   total: int) -> None:
        """Attributes cycles to nodes. Layers that are computed at the same time share their cycles
        in proportion to the least that each needs; a view has none.
        """
        self.cycles |= {node.name: 0.0 for node in part.nodes}
        begin = 0
        for group, end in zip(compiled.groups, ends, strict=True):
            needs = [self._least_cycles(layer) for layer in group]
            for layer, need in zip(group, needs, strict=True):
                self.cycles[layer.node.name] += (end - begin) * need / sum(needs)
            begin = end
        self.overhead_cycles = total - begin

    def _least_cycles(self, layer: MappedLayer) -> float:
        config = self.target.machine.config
        moved = layer.size(*layer.inputs, *layer.constants, "output")
        return max(layer.macs / config.macs_per_cycle, moved / config.bus_bytes)


@dataclass
class MeasuredPrices:
    """Prices of a target by running and measuring its executables: of this processor, and of others
    that compute on arrays of this process. Nothing is copied. A segment's time is divided among its
    nodes in proportion to each one's own time.
    """

    graph: Graph
    target: Target
    measure: Measure
    device: object = None
    seconds: dict[str, float] = field(default_factory=dict)
    _alone: dict[str, float] = field(default_factory=dict)
    _call: float | None = None
    _compiled: dict[tuple[tuple[Node, ...], tuple[str, ...]], Compiled] = field(
        default_factory=dict)

    def assumed(self) -> dict[str, dict[str, Any]]:
        return {}

    def start(self) -> float:
        """The seconds of a segment that computes nothing."""
        if self._call is None:
            kind = TensorType((1,), "int8")
            compiled = self.target.compile(Graph("call", ("x",), ("x",), (), {"x": kind}))
            run, given = compiled.on(self.device), samples({"x": kind})
            self._call = self.measure(f"call {inspect.getsource(type(compiled))}",
                                      lambda: run(given))
        return self._call

    def node(self, node: Node) -> float:
        return self.seconds.get(node.name, self._alone_seconds(node))

    def segment(self, graph: Graph) -> Priced:
        total = self._measured(graph)
        known = {node.name: node for node in self.graph.nodes}
        alone = {node.name: self._alone_seconds(known[node.name]) for node in graph.nodes
                 if node.name in known}
        scale = max(0.0, total - self.start()) / (sum(alone.values()) or 1.0)
        self.seconds |= {name: seconds * scale for name, seconds in alone.items()}
        return Priced(self._compiled_part(graph), total)

    def least(self, graph: Graph) -> float:
        return 0.0

    def crossing(self, value: str, kind: TensorType, outwards: bool, last: bool = False
                 ) -> Crossing:
        return Crossing()

    def _measured(self, part: Graph) -> float:
        types = {value: part.values[value] for value in part.inputs}
        compiled, given = self._compiled_part(part), samples(types)
        run = compiled.on(self.device)
        key = digest([*compiled.text, *map(str, types.values())])
        return self.measure(f"segment of {len(part.nodes)} nodes {key}", lambda: run(given))

    def _alone_seconds(self, node: Node) -> float:
        """The seconds of a segment that has this node alone, without its start."""
        if node.name not in self._alone:
            read = dict.fromkeys(v for v in node.inputs if v not in self.graph.constants)
            total = self._measured(subgraph(self.graph, Segment(
                self.target.name, (node,), tuple(read), node.outputs)))
            self._alone[node.name] = max(0.0, total - self.start())
        return self._alone[node.name]

    def _compiled_part(self, part: Graph) -> Compiled:
        key = (part.nodes, part.outputs)        # nodes name their values, which name their layouts
        if key not in self._compiled:
            self._compiled[key] = self.target.compile(part)
        return self._compiled[key]


def samples(types: Mapping[str, TensorType]) -> dict[str, np.ndarray]:
    """Values like those of networks: small, of both signs where there are signs."""
    rng = np.random.default_rng(0)
    return {name: (rng.standard_normal(kind.shape).astype(kind.dtype)
                   if kind.dtype == "float32" else
                   rng.integers(0, 100, kind.shape).astype(kind.dtype))
            for name, kind in types.items()}
