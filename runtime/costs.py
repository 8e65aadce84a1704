"""What it costs to run parts of a network: the accelerator simulated, the host measured.

Cycles of the accelerator come from the cycle simulator and become seconds by the clock of the
machine. Times of the host, and of the changes of layout at its border, are measured on the
computer that this runs on: processor time, the least of several samples, kept in the cache of
`compiler.native` by what was run and on which processor, so that they are the same the next time.
A kept time says how long the clock went meanwhile; where that is much longer, other work was in
the way, and the next process measures anew. What nobody can measure here is assumed: see `Link`.
"""

import inspect
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from accel.figures.attribution import layer_ends
from accel.mapping.borders import core, with_borders
from accel.mapping.layers import Layer
from accel.mapping.layout import (BLOCKED, BLOCKED_ROWS, LAST, PLAIN, PLAIN_ROWS, blocks_of,
                                  from_memory, to_memory)
from accel.mapping.target import AccelTarget, CompiledSegment
from accel.mapping.views import images
from accel.sim import cycle
from accel.sim.dram import DRAM, Dram
from compiler.cpu_gpu_backends.cpu.target import CpuTarget, HostSegment
from compiler.errors import ArgumentError
from compiler.graph.channels_last import FROM_LAST
from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.layout import Borders, Layout, lay_out
from compiler.graph.partition import (ACCEL, HOST, Copy, Partition, Segment, Target, divide,
                                      subgraph)
from compiler.native import digest, note, noted, processor

__all__ = ["LINK", "CopyPrice", "Link", "Price", "Pricing", "SegmentPrice", "Timing", "known",
           "measured", "segment_borders"]


@dataclass(frozen=True, slots=True)
class Link:
    """What is assumed of the way between host and accelerator.

    Parameters
    ----------
    bytes_per_second : of a copy. A processor that writes to memory which its caches do not hold,
        as drivers of boards with common memory do, reaches about the default.
    latency_seconds : of a copy, whatever its size.
    start_seconds : from the host's decision to start a program until the host knows that it has
        ended, without the cycles in between.
    """

    bytes_per_second: float = 400e6
    latency_seconds: float = 5e-6
    start_seconds: float = 20e-6

    def __post_init__(self):
        if not self.bytes_per_second > 0:
            raise ArgumentError(f"bytes_per_second must be positive, not {self.bytes_per_second!r}")
        for name in ("latency_seconds", "start_seconds"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name} must be at least 0, not {getattr(self, name)!r}")

    def copy_seconds(self, size_bytes: int) -> float:
        return self.latency_seconds + size_bytes / self.bytes_per_second

    def assumptions(self) -> dict[str, dict[str, Any]]:
        """As reports show them."""
        units = {"bytes_per_second": "B/s", "latency_seconds": "s", "start_seconds": "s"}
        return {f"link.{name}": {"value": getattr(self, name), "unit": unit}
                for name, unit in units.items()}


LINK = Link()


@dataclass(frozen=True, slots=True)
class SegmentPrice:
    """`cycles` are 0 on the host; `seconds` include the start."""

    segment: Segment
    seconds: float
    cycles: int = 0


@dataclass(frozen=True, slots=True)
class CopyPrice:
    """`size_bytes` go over the link; the change of layout is `layout_seconds` of `seconds`."""

    copy: Copy
    size_bytes: int
    seconds: float
    layout_seconds: float


@dataclass(frozen=True, slots=True)
class Price:
    """One inference, a step after the other."""

    partition: Partition
    steps: tuple[SegmentPrice | CopyPrice, ...]

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


Measure = Callable[[str, Callable[[], object]], float]
"""Seconds of a call. The text names what is called and begins with ``segment of N nodes``,
``call`` (of a segment that computes nothing) or ``layout``.
"""


@dataclass
class Pricing:
    """Prices of one optimized graph, whose integer layers `accel` may have.

    As `compiler.graph.placement.Costs` it estimates: what a node costs on either target is its
    share of the last simulated or measured segment that it was in; on the host, before there was
    one, what it takes by itself. `division` is exact: it compiles, simulates and measures the
    segments as they are. `times` are the seconds of all that was measured, by what it was.
    """

    graph: Graph
    accel: AccelTarget
    link: Link = LINK
    dram: Dram = DRAM
    host: CpuTarget = field(default_factory=CpuTarget)
    measure: Measure = field(default_factory=lambda: measured)
    cycles: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    overhead_cycles: float = 0.0
    _alone: dict[str, float] = field(default_factory=dict)
    _call: float | None = None
    _copies: dict[tuple[Copy, TensorType, bool], CopyPrice] = field(default_factory=dict)
    _refusals: dict[tuple[str, Target], str | None] = field(default_factory=dict)
    _programs: dict[tuple[str, ...], tuple[CompiledSegment, int]] = field(default_factory=dict)
    _natives: dict[tuple[tuple[Node, ...], tuple[str, ...]], HostSegment] = field(
        default_factory=dict)

    @property
    def targets(self) -> tuple[Target, ...]:
        return HOST, ACCEL

    def refusal(self, node: Node, target: Target) -> str | None:
        """Why the target cannot have the node; None where it can."""
        if (node.name, target) not in self._refusals:
            one = self.accel if target == ACCEL else self.host
            self._refusals[node.name, target] = one.refusal(self.graph, node)
        return self._refusals[node.name, target]

    def node(self, node: Node, target: Target) -> float | None:
        if self.refusal(node, target) is not None:
            return None
        if target == HOST:
            return self.seconds.get(node.name, self._alone_seconds(node))
        return self.cycles.get(node.name, 0) / self._clock

    def copy(self, value: str, source: Target, target: Target) -> float:
        """With a change of layout, which the layout pass may spare."""
        made = Copy(value, source, target)
        return self._copied(made, self.graph.values[value]).seconds

    def start(self, target: Target) -> float:
        if target == HOST:
            return self._call_seconds()
        return self.link.start_seconds + self.overhead_cycles / self._clock

    def _measured(self, what: str, run: Callable[[], object]) -> float:
        self.times[what] = self.measure(what, run)
        return self.times[what]

    @property
    def _clock(self) -> float:
        return self.accel.machine.config.clock_mhz * 1e6

    def division(self, parts: Partition) -> Price:
        """Of the partition with its layout. Raises LoweringError where the accelerator cannot have
        a segment after all.
        """
        layout = lay_out(parts, segment_borders(self.graph, self.accel))
        return Price(layout.partition, tuple(self.price(layout, step)
                                             for step in layout.partition.steps))

    def price(self, layout: Layout, step: Segment | Copy) -> SegmentPrice | CopyPrice:
        """Of a step of the partition that has this layout."""
        graph = layout.partition.graph
        if isinstance(step, Copy):
            return self._copied(step, graph.values[step.value], step.value in layout.last)
        return self._segment(graph, step)

    def least(self, step: Segment | Copy) -> float:
        """A bound on the price of a step, with any layout, for which nothing is compiled."""
        if isinstance(step, Copy):
            price = self._copied(step, self.graph.values[step.value])
            return price.seconds - price.layout_seconds
        if step.target == HOST:
            return 0.0
        if tuple(node.name for node in step.nodes) in self._programs:
            return self._segment(self.graph, step).seconds
        return self.link.start_seconds

    def divided(self, targets: Mapping[str, Target], reasons: Mapping[str, str]) -> Partition:
        return divide(self.graph, targets, reasons, self.start)

    def _segment(self, graph: Graph, segment: Segment) -> SegmentPrice:
        part = subgraph(graph, segment)
        if segment.target == HOST:
            return SegmentPrice(segment, self._shared_seconds(part))
        _, cycles = self._simulated(core(part))
        return SegmentPrice(segment, self.link.start_seconds + cycles / self._clock, cycles)

    def program(self, part: Graph) -> CompiledSegment:
        """Of a segment of the accelerator, compiled once, whatever layouts its tensors have."""
        compiled, _ = self._simulated(core(part))
        return replace(compiled, program=with_borders(compiled.program, part))

    def _simulated(self, part: Graph) -> tuple[CompiledSegment, int]:
        """With its cycles, which become those of the nodes that it has."""
        key = tuple(node.name for node in part.nodes)
        if key not in self._programs:
            compiled = self.accel.compile_core(part)
            run = cycle.simulate(self.accel.machine, compiled.program, values=False,
                                 dram=self.dram)
            if not run.ok:
                raise AssertionError(f"{key[0]} to {key[-1]}: {run.describe()}")
            self._programs[key] = compiled, run.cycles
            self._attribute(part, compiled, layer_ends(compiled.program, run), run.cycles)
        return self._programs[key]

    def _attribute(self, part: Graph, compiled: CompiledSegment, ends: list[int],
                   total: int) -> None:
        """Layers that are computed at the same time share their cycles by what each needs at
        least; a view has none.
        """
        self.cycles |= {node.name: 0.0 for node in part.nodes}
        begin = 0
        for group, end in zip(compiled.groups, ends, strict=True):
            needs = [self._least_cycles(layer) for layer in group]
            for layer, need in zip(group, needs, strict=True):
                self.cycles[layer.node.name] += (end - begin) * need / sum(needs)
            begin = end
        self.overhead_cycles = total - begin

    def _least_cycles(self, layer: Layer) -> float:
        config, stages = self.accel.machine.config, layer.operator.stages
        moved = sum(stages[role].buffer.size_bytes
                    for role in (*layer.inputs, *layer.constants, "output"))
        return max(layer.macs / config.macs_per_cycle, moved / config.bus_bytes)

    def _native(self, part: Graph) -> HostSegment:
        key = (part.nodes, part.outputs)        # nodes name their values, which name their layouts
        if key not in self._natives:
            self._natives[key] = self.host.compile(part)
        return self._natives[key]

    def _shared_seconds(self, part: Graph) -> float:
        """Of a segment of the host, which become those of the nodes that it has: in proportion to
        what each takes by itself.
        """
        total = self._host_seconds(part)
        known = {node.name: node for node in self.graph.nodes}
        alone = {node.name: self._alone_seconds(known[node.name]) for node in part.nodes
                 if node.name in known}
        scale = max(0.0, total - self._call_seconds()) / (sum(alone.values()) or 1.0)
        self.seconds |= {name: seconds * scale for name, seconds in alone.items()}
        return total

    def _alone_seconds(self, node: Node) -> float:
        """Of a segment of the host that has this node alone, without its start."""
        if node.name not in self._alone:
            read = dict.fromkeys(v for v in node.inputs if v not in self.graph.constants)
            total = self._host_seconds(subgraph(
                self.graph, Segment(HOST, (node,), tuple(read), node.outputs)))
            self._alone[node.name] = max(0.0, total - self._call_seconds())
        return self._alone[node.name]

    def _call_seconds(self) -> float:
        """Of a segment of the host that computes nothing."""
        if self._call is None:
            kind = TensorType((1,), "int8")
            native = self.host.compile(Graph("call", ("x",), ("x",), (), {"x": kind}))
            given = _samples({"x": kind})
            self._call = self._measured(f"call {inspect.getsource(type(native))}",
                                        lambda: native(given))
        return self._call

    def _host_seconds(self, part: Graph) -> float:
        native = self._native(part)
        types = {value: part.values[value] for value in part.inputs}
        what = [step.kernel.text if step.kernel else "view" for step in native.steps]
        given = _samples(types)
        key = digest([*what, *map(str, types.values())])
        return self._measured(f"segment of {len(part.nodes)} nodes {key}", lambda: native(given))

    def _copied(self, copy: Copy, kind: TensorType, last: bool = False) -> CopyPrice:
        if (copy, kind, last) not in self._copies:
            self._copies[copy, kind, last] = self._measured_copy(copy, kind, last)
        return self._copies[copy, kind, last]

    def _measured_copy(self, copy: Copy, kind: TensorType, last: bool) -> CopyPrice:
        """To the accelerator go plain tensors; from it come its blocks, padding included. `last`:
        the host has the image with its channels last.
        """
        image = len(kind.shape) == 4
        if copy.target == ACCEL:
            given = _samples({copy.value: kind})[copy.value]
            layout = PLAIN if image and not last else PLAIN_ROWS
            size, change = given.nbytes, lambda: to_memory(given, layout)
        else:
            blocks = blocks_of(self.accel.machine.config)
            logical = tuple(kind.shape[axis] for axis in FROM_LAST) if last else kind.shape
            stored = np.zeros(images(logical).stored_shape(blocks), np.int8)
            layout = BLOCKED if image else BLOCKED_ROWS
            layout = LAST[layout] if last else layout
            size, change = stored.nbytes, lambda: from_memory(stored, layout, kind.shape)
        what = f"layout for {copy.target} of {kind}{', NHWC' if last else ''} in {size} bytes"
        seconds = self._measured(what, change)
        return CopyPrice(copy, size, self.link.copy_seconds(size) + seconds, seconds)


def segment_borders(graph: Graph, accel: AccelTarget) -> Borders:
    """What the layout pass asks about segments of the graph."""
    return lambda segment: (None if segment.target == HOST
                            else accel.borders(subgraph(graph, segment)))


def _samples(types: Mapping[str, TensorType]) -> dict[str, np.ndarray]:
    """Values like those of networks: small, of both signs where there are signs."""
    rng = np.random.default_rng(0)
    return {name: (rng.standard_normal(kind.shape).astype(kind.dtype)
                   if kind.dtype == "float32" else
                   rng.integers(0, 100, kind.shape).astype(kind.dtype))
            for name, kind in types.items()}


KIND = "times"                      # of entries of the cache


@dataclass(frozen=True, slots=True)
class Timing:
    """What one call takes, and what it can be judged by.

    Parameters
    ----------
    seconds : processor time of the thread that calls, the least of several samples. Where a kernel
        has several threads, the others compute while this one does, so they add nothing.
    wall_seconds : by the clock, in that sample.
    samples : how many there were.
    """

    seconds: float
    wall_seconds: float
    samples: int

    @property
    def is_quiet(self) -> bool:
        """Whether the thread had a processor almost all the time: no other work disturbed it."""
        return 0 < self.seconds < float("inf") and self.wall_seconds <= _QUIET * self.seconds


_SAMPLES, _MOST_SAMPLES = 5, 200
_ENOUGH_SECONDS, _MOST_SECONDS = 0.05, 0.5      # of all samples: quiet ones, and others
_SAMPLE_SECONDS = 50e-6             # a call that is shorter is repeated within a sample
_TICKS = 100                        # of the clock in a sample, at least
_QUIET = 1.25
_known: dict[str, float] = {}


def measured(key: str, run: Callable[[], object]) -> float:
    """Seconds of one `run`, or what was kept for this key and processor. What was measured while
    other work disturbed it holds for this process alone: the next one measures anew.
    """
    entry = _entry(key)
    if entry not in _known:
        kept = _kept(entry)
        if kept is None:
            kept = _time(run)
            with suppress(OSError):         # without a cache it is measured again
                note(KIND, entry, json.dumps(asdict(kept)))
        _known[entry] = kept.seconds
    return _known[entry]


def known(key: str) -> float | None:
    """What `measured` would give without measuring; None where it would have to."""
    entry = _entry(key)
    if entry in _known:
        return _known[entry]
    kept = _kept(entry)
    return None if kept is None else kept.seconds


def _entry(key: str) -> str:
    return digest(["host times", key, processor()])


def _time(run: Callable[[], object]) -> Timing:
    """The quickest of several samples. While none is quiet there are more of them, for a while."""
    run()                                   # code and data come into the caches
    calls = _calls(run)
    samples: list[tuple[float, float]] = []
    while _wants_more(samples):
        samples.append(_sample(run, calls))
    seconds, wall = min(samples)
    return Timing(seconds / calls, wall / calls, len(samples))


def _wants_more(samples: list[tuple[float, float]]) -> bool:
    count, spent = len(samples), sum(wall for _, wall in samples)
    if count < _SAMPLES:
        return True
    seconds, wall = min(samples)
    enough = _ENOUGH_SECONDS if Timing(seconds, wall, count).is_quiet else _MOST_SECONDS
    return count < _MOST_SAMPLES and spent < enough


def _calls(run: Callable[[], object]) -> int:
    """Calls of a sample: so many that it is long beside a tick of the clock."""
    least = max(_SAMPLE_SECONDS, _TICKS * time.get_clock_info("thread_time").resolution)
    calls = 1
    while (wall := _sample(run, calls)[1]) < least:
        calls = max(2 * calls, int(calls * least / wall) + 1 if wall > 0 else 0)
    return calls


def _sample(run: Callable[[], object], calls: int) -> tuple[float, float]:
    """Seconds of the processor and by the clock for so many calls."""
    wall, begin = time.perf_counter(), time.thread_time()
    for _ in range(calls):
        run()
    return time.thread_time() - begin, time.perf_counter() - wall


def _kept(entry: str) -> Timing | None:
    """What was kept, if it was quiet; None for any other and for what cannot be judged."""
    try:
        kept = Timing(**json.loads(noted(KIND, entry) or ""))
        return kept if kept.is_quiet else None
    except (ValueError, TypeError):
        return None
