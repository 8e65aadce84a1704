"""The protocols of back ends. Everything above knows CPU, GPU and accelerator by this alone.

A `Target` compiles parts of graphs. What it makes, a `Compiled`, is data that can be saved; put on
a device it is an `Executable`::

    target.compile(graph)  ->  Compiled  --.on(device)-->  Executable  --(values)-->  Outcome

A graph is divided between several targets by their names (`compiler.graph.division.partition`). The
name is what segments, copies, reports and pins show. Inputs begin on the target `HOST`, the
processor that runs this program, and outputs end there.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from compiler.errors import Error
from compiler.graph.division.cheapest_orders import NCHW, Order
from compiler.graph.division.partition import ACCEL, HOST
from compiler.graph.division.prefixes import Tail
from compiler.graph.graph import Graph, Node, TensorType

__all__ = ["ACCEL", "HOST", "CannotCompile", "Compiled", "CompilesPrefixes", "Crossing", "Emits",
           "Executable", "KeepsInputs", "Measure", "Outcome", "Priced", "Prices", "RefusesInside",
           "Row", "Target", "Values", "plain"]

Values = Mapping[str, np.ndarray]
Row = dict[str, Any]
"""Figures of one layer, or of one group of operators that are computed together: JSON."""


class CannotCompile(Error, ValueError):
    """A segment that its target cannot have after all, though it takes each of its nodes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of an executable: its outputs by name, and the device's own account of the run
    (`accel.machine.status.Run`); None where the device keeps none.
    """

    values: Values
    run: Any = None


@runtime_checkable
class KeepsInputs(Protocol):
    """An executable that can keep inputs in its device's memory from one call
    to the next, so that only what changes is copied.
    """

    def keep(self, names: Collection[str]) -> None:
        """Keeps these inputs, if they are some of the segment."""
        ...

    def note(self, name: str, array: np.ndarray) -> None:
        """Says what a kept input is now, where the call itself has changed it."""
        ...


@runtime_checkable
class Executable(Protocol):
    """Part of a network on a device. Several threads may call it at once.

    `device` is what executes it, None for this processor. `program` is the stream of instructions
    that the device executes, None for native code; `work` is what the layers have to do
    (`accel.figures.work.Work`), those that are computed at the same time together, empty where
    nobody counts it.
    """

    @property
    def device(self) -> Any: ...

    @property
    def program(self) -> Any: ...

    @property
    def work(self) -> Sequence[Sequence[Any]]: ...

    def __call__(self, values: Values) -> Outcome:
        """Outputs, from an array for every input, of its declared shape and type."""
        ...

    def rows(self, run: Any) -> list[Row]:
        """The layers of an account of a run, as reports show them; none without an account."""
        ...

    def profile(self, values: Values) -> tuple[Outcome, list[Row]]:
        """A call, and a row for each part of it: `name`, `op`, `seconds`, `cycles`, and `device`
        where that is another than the target itself.
        """
        ...


@runtime_checkable
class Compiled(Protocol):
    """Part of a network as data. `kind` names the codec that artifacts save it with
    (`runtime.artifact.parts`), None for what cannot be saved. What has the same `text`, line by
    line, takes the same time.
    """

    kind: ClassVar[str | None]

    @property
    def text(self) -> Sequence[str]: ...

    @property
    def stages(self) -> Mapping[str, Any]:
        """The results of its compilation's stages, by the name of the pass."""
        ...

    def on(self, device: Any) -> Executable:
        """Ready to run on a device of the target's; the processor needs none."""
        ...


@runtime_checkable
class Emits(Protocol):
    """A compiled part whose code people can read."""

    def emitted(self, kind: str, comment: str, arch: str) -> str | None:
        """The text of all its code; None where it has none of this kind. `comment` begins a comment
        in such text; `arch` is the architecture of what is compiled for one.
        """
        ...

    def listing(self) -> Iterator[str]:
        """Lines that say which buffers there are, and what the host starts, in order."""
        ...


@runtime_checkable
class Target(Protocol):
    @property
    def name(self) -> str:
        """As segments, reports and pins show it; unique among the targets of a compilation."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies all that compiled code depends on, apart from the graph: hash of the machine,
        processor and its features, device and version.
        """
        ...

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """None when the target takes `node` of `graph`, else the reason why not, one clause."""
        ...

    def borders(self, graph: Graph) -> Mapping[str, Order | None] | None:
        """The layouts of the inputs and outputs of a segment lie in its memory:
        `compiler.graph.division.layout`. `plain` is right for every target that has arrays as they
        are.
        """
        ...

    def compile(self, graph: Graph) -> Compiled:
        """A graph all of whose nodes it takes; ValueError names the first that it does not."""
        ...


@runtime_checkable
class RefusesInside(Protocol):
    """A target that may refuse in a segment what it takes in the graph."""

    def refusals_inside(self, part: Graph, whole: Graph) -> Mapping[str, str]:
        """The reasons, by the name of the node."""
        ...


@runtime_checkable
class CompilesPrefixes(Protocol):
    """A target whose code may read only the first places of caches while the
    position is small.
    """

    def compile_prefixes(self, graph: Graph, masks: Mapping[str, Tail]) -> Compiled:
        """As `compile`; `masks` are inputs that say what is behind the position
        (`compiler.graph.division.prefixes.masks_of`).
        """
        ...


def plain(graph: Graph) -> Mapping[str, Order | None]:
    """Every input and output in row-major order, images as NCHW."""
    return dict.fromkeys((*graph.inputs, *graph.outputs), NCHW)


@dataclass(frozen=True, slots=True)
class Crossing:
    """The cost of a value that crosses between the host and a target, which reads or makes it: so
    many bytes and seconds, `layout_seconds` of them for the change of layout.
    """

    size_bytes: int = 0
    seconds: float = 0.0
    layout_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Priced:
    """A segment and its price: `seconds` include the start; `cycles` are 0 where the target counts
    none.
    """

    compiled: Compiled
    seconds: float
    cycles: int = 0


Measure = Callable[[str, Callable[[], object]], float]
"""Seconds of a call. The text names what is called and begins with ``segment of N nodes``,
``call`` (of a segment that computes nothing) or ``layout``.
"""


class Prices(Protocol):
    """The prices of one target for one graph, in seconds."""

    def assumed(self) -> dict[str, dict[str, Any]]:
        """The assumptions that were not measured, as reports show it: name to `value` and
        `unit`."""
        ...

    def start(self) -> float:
        """A segment, whatever it computes."""
        ...

    def node(self, node: Node) -> float:
        """An estimate for a node that the target takes, without starts and copies: its share of the
        last segment that was priced with it; before there was one, what is known of it by itself.
        """
        ...

    def segment(self, graph: Graph) -> Priced:
        """A segment as it is, its layout included."""
        ...

    def least(self, graph: Graph) -> float:
        """A bound on the price of a segment with any layout, for which nothing is compiled."""
        ...

    def crossing(self, value: str, kind: TensorType, outwards: bool, last: bool = False
                 ) -> Crossing:
        """A value of this type that comes from the target (`outwards`) or goes there; `last`: the
        host has the image with its channels last.
        """
        ...
