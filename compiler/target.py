"""What a back end must provide. Everything above knows CPU, GPU and accelerator by this alone.

A `Target` compiles parts of graphs. What it makes, a `Compiled`, is data that can be saved; put on
a device it is an `Executable`::

    target.compile(graph)  ->  Compiled  --.on(device)-->  Executable  --(values)-->  Outcome

A graph is divided between several targets by their names (`compiler.graph.partition`). The name is
what segments, copies, reports and pins show. Inputs begin on the target `HOST`, the processor that
runs this program, and outputs end there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from compiler.graph.graph import Graph, Node

__all__ = ["ACCEL", "HOST", "Compiled", "Executable", "Outcome", "Row", "Target", "Values"]

HOST, ACCEL = "host", "accel"
"""Names of the processor, and of the accelerator where there is one."""

Values = Mapping[str, np.ndarray]
Row = dict[str, Any]
"""Figures of one layer, or of one group of operators that are computed together: JSON."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an executable has computed: its outputs by name, and the device's own account of the run
    (`accel.machine.status.Run`); None where the device keeps none.
    """

    values: Values
    run: Any = None


@runtime_checkable
class Executable(Protocol):
    """Part of a network on a device. Several threads may call it at once.

    `device` is what executes it, None for this processor. `program` is the stream of instructions
    that the device executes, None for native code; `work` is what the layers have to do
    (`accel.machine.work.Work`), those that are computed at the same time together, empty where
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
        """The layers of an account of a run, as reports show them; none where there is none."""
        ...

    def profile(self, values: Values) -> tuple[Outcome, list[Row]]:
        """A call, and a row for each part of it: `name`, `op`, `seconds`, `cycles`, and `device`
        where that is another than the target itself.
        """
        ...


@runtime_checkable
class Compiled(Protocol):
    """Part of a network as data. `kind` names the codec that artifacts save it with
    (`runtime.artifact.parts`), None for what cannot be saved.
    """

    kind: ClassVar[str | None]

    def on(self, device: Any) -> Executable:
        """Ready to run on a device of the target's; the processor needs none."""
        ...


@runtime_checkable
class Target(Protocol):
    @property
    def name(self) -> str:
        """As segments, reports and pins show it; unique among the targets of a compilation."""
        ...

    @property
    def fingerprint(self) -> str:
        """All that what it compiles depends on, besides the graph: hash of the machine, processor
        and its features, device and version.
        """
        ...

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """None when the target takes `node` of `graph`, else the reason why not, one clause."""
        ...

    def compile(self, graph: Graph) -> Compiled:
        """A graph all of whose nodes it takes; ValueError names the first that it does not."""
        ...
