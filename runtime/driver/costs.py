"""Costs of divisions of a network: prices of segments and copies, and of both together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.graph.division.layout import Layout, lay_out
from compiler.graph.division.partition import HOST, Copy, Partition, Segment, divide, subgraph
from compiler.graph.division.protocols import Compiled, Measure
from compiler.graph.graph import Graph, Node, TensorType
from runtime.driver.targets import Targets
from runtime.pricing.timing import measured


@dataclass(frozen=True, slots=True)
class SegmentPrice:
    """The price of a segment. `cycles` are 0 on the host; `seconds` include the start."""

    segment: Segment
    seconds: float
    cycles: int = 0


@dataclass(frozen=True, slots=True)
class CopyPrice:
    """The price of a copy: `size_bytes` cross the link, and the change of layout takes
    `layout_seconds` of `seconds`.
    """

    copy: Copy
    size_bytes: int
    seconds: float
    layout_seconds: float


@dataclass(frozen=True, slots=True)
class Price:
    """The prices of all steps of a partition. Its `cost` is the seconds of one inference, or with
    `pipelined` those of an inference of many.
    """

    partition: Partition
    steps: tuple[SegmentPrice | CopyPrice, ...]
    pipelined: bool = False

    @property
    def cost(self) -> float:
        return self.pipelined_seconds if self.pipelined else self.seconds

    @property
    def seconds(self) -> float:
        """The time of one inference. Each target does a step at a time, in order; steps that do not
        wait for another target's results run at the same time.
        """
        return elapsed(self.partition.steps, self._seconds())

    @property
    def pipelined_seconds(self) -> float:
        """The time of one inference among many in a pipeline: the busiest target decides."""
        return busiest(self.partition.steps, self._seconds())

    def _seconds(self) -> list[float]:
        return [step.seconds for step in self.steps]


def elapsed(steps: Iterable[Segment | Copy], seconds: Iterable[float]) -> float:
    """The end of the last step when the steps take these seconds."""
    free: dict[str, float] = {}
    ready: dict[tuple[str, str], float] = {}
    for step, duration in zip(steps, seconds, strict=True):
        worker = _worker(step)
        if isinstance(step, Copy):
            read, written = [(step.value, step.source)], [(step.value, step.target)]
        else:
            read = [(value, step.target) for value in step.inputs]
            written = [(value, step.target) for value in step.outputs]
        begin = max([free.get(worker, 0.0), *(ready.get(value, 0.0) for value in read)])
        free[worker] = begin + duration
        ready |= dict.fromkeys(written, free[worker])
    return max(free.values(), default=0.0)


def busiest(steps: Iterable[Segment | Copy], seconds: Iterable[float]) -> float:
    """The seconds of all steps of the busiest target."""
    total: dict[str, float] = {}
    for step, duration in zip(steps, seconds, strict=True):
        total[_worker(step)] = total.get(_worker(step), 0.0) + duration
    return max(total.values(), default=0.0)


def _worker(step: Segment | Copy) -> str:
    """The target that performs a step; the target with memory of its own performs copies."""
    if isinstance(step, Segment):
        return step.target
    return step.source if step.target == HOST else step.target


@dataclass
class Pricing:
    """Prices of one optimized graph that is divided between these targets.

    As `compiler.graph.division.placement.Costs` it estimates. `division` is exact: it compiles and
    prices the segments as they are, each target by its own `Prices`.
    `pipelined` selects the objective (`Price`); `times` are the measured seconds by key.
    """

    graph: Graph
    placed: Targets
    measure: Measure = field(default_factory=lambda: measured)
    pipelined: bool = False
    times: dict[str, float] = field(default_factory=dict)
    _copies: dict[tuple[Copy, TensorType, bool], CopyPrice] = field(default_factory=dict)
    _refusals: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def __post_init__(self):
        self.prices = {target.name: target.prices(self.graph, self._measured)
                       for target in self.placed}

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the targets, the host first: inputs begin and outputs end there."""
        return (HOST, *(name for name in self.placed.names if name != HOST))

    def assumed(self) -> dict[str, dict[str, Any]]:
        """The assumed figures, as reports show them."""
        return {name: value for prices in self.prices.values()
                for name, value in prices.assumed().items()}

    def refusal(self, node: Node, target: str) -> str | None:
        """Why the target cannot have the node; None where it can."""
        if (node.name, target) not in self._refusals:
            self._refusals[node.name, target] = self.placed[target].target.refusal(
                self.graph, node)
        return self._refusals[node.name, target]

    def refuse(self, refused: Mapping[tuple[str, str], str]) -> None:
        """Keeps nodes from targets, for these reasons, by the names of both."""
        self._refusals |= refused

    def node(self, node: Node, target: str) -> float | None:
        if self.refusal(node, target) is not None:
            return None
        return self.prices[target].node(node)

    def copy(self, value: str, source: str, target: str) -> float:
        """The seconds of a copy, with a change of layout that the layout pass may save."""
        return self._copied(Copy(value, source, target), self.graph.values[value]).seconds

    def start(self, target: str) -> float:
        return self.prices[target].start()

    def _measured(self, measurement: str, run: Callable[[], object]) -> float:
        self.times[measurement] = self.measure(measurement, run)
        return self.times[measurement]

    def division(self, parts: Partition) -> Price:
        """Prices a partition, its layout conversions included. Raises LoweringError where the
        accelerator cannot have a segment after all.
        """
        layout = lay_out(parts, self.placed.borders(self.graph))
        steps = tuple(self.price(layout, step) for step in layout.partition.steps)
        return Price(layout.partition, steps, self.pipelined)

    def together(self, steps: Sequence[Segment | Copy], seconds: Iterable[float]) -> float:
        """The cost of these steps with these seconds each."""
        return busiest(steps, seconds) if self.pipelined else elapsed(steps, seconds)

    def estimate(self, step: Segment | Copy) -> float:
        """Estimates the price of a step by those of its nodes alone."""
        if isinstance(step, Copy):
            return self.copy(step.value, step.source, step.target)
        return self.start(step.target) + sum(self.node(node, step.target) or 0.0
                                             for node in step.nodes)

    def price(self, layout: Layout, step: Segment | Copy) -> SegmentPrice | CopyPrice:
        """Prices a step of the partition in this layout."""
        graph = layout.partition.graph
        if isinstance(step, Copy):
            return self._copied(step, graph.values[step.value], step.value in layout.last)
        priced = self.prices[step.target].segment(subgraph(graph, step))
        return SegmentPrice(step, priced.seconds, priced.cycles)

    def least(self, step: Segment | Copy) -> float:
        """A lower bound on the price of a step with any layout; it compiles nothing."""
        if isinstance(step, Copy):
            price = self._copied(step, self.graph.values[step.value])
            return price.seconds - price.layout_seconds
        return self.prices[step.target].least(subgraph(self.graph, step))

    def divided(self, targets: Mapping[str, str], reasons: Mapping[str, str]) -> Partition:
        return divide(self.graph, targets, reasons, self.start)

    def compiled(self, target: str, part: Graph) -> Compiled:
        """The compiled segment, which pricing has compiled."""
        return self.prices[target].segment(part).compiled

    def _copied(self, copy: Copy, kind: TensorType, last: bool = False) -> CopyPrice:
        key = copy, kind, last
        if key not in self._copies:
            outwards = copy.target == HOST
            crossing = self.prices[copy.source if outwards else copy.target].crossing(
                copy.value, kind, outwards, last)
            self._copies[key] = CopyPrice(copy, crossing.size_bytes, crossing.seconds,
                                          crossing.layout_seconds)
        return self._copies[key]
