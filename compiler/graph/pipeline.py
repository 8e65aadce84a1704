"""The list of graph passes, and hooks that see the graph after each.

What follows on the passes makes no graph any more, but has a text too, which hooks see alike:

- ``partition`` (`compiler.graph.partition`): segments, each for one target, and copies;
- ``layout`` (`compiler.graph.layout`): which images the host has as NCHW, which as NHWC, and where
  that changes: with the fewest bytes, over the whole network;
- ``fuse`` (`compiler.graph.fusion`), for each segment of the host: groups, each of one kernel;
- ``plan-memory`` (`compiler.graph.memory`), the same: where each value lies.
"""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import ClassVar, Protocol

from compiler.files import write_text
from compiler.graph.fusion import Groups
from compiler.graph.graph import Graph
from compiler.graph.layout import Layout
from compiler.graph.memory import MemoryPlan
from compiler.graph.partition import Partition
from compiler.graph.passes.dead_code import EliminateDeadCode
from compiler.graph.passes.clean_up import CleanUp
from compiler.graph.passes.fold_constants import FoldConstants
from compiler.graph.passes.fold_scales import FoldScales
from compiler.graph.passes.integerize import Integerize
from compiler.graph.passes.sink_dequantize import SinkDequantize
from compiler.graph.passes.transpose_weights import TransposeWeights
from compiler.graph.verify import verify

__all__ = ["AfterPass", "Pass", "Result", "Show", "dump_into", "numbered", "optimize",
           "standard_passes"]

Result = Graph | Partition | Layout | Groups | MemoryPlan
AfterPass = Callable[[int, str, Result], None]
Show = Callable[[str, Result], None]


class Pass(Protocol):
    """A frozen dataclass whose fields are its options and whose docstring is its contract."""

    name: ClassVar[str]

    def __call__(self, graph: Graph) -> Graph: ...


def standard_passes(integerize: bool = True) -> tuple[Pass, ...]:
    """What happens to every imported network, in order; without `integerize` ONNX's float
    semantics hold.
    """
    to_integers: tuple[Pass, ...] = (SinkDequantize(), Integerize())
    return (
        FoldConstants(dequantize=False),
        CleanUp(),
        *(to_integers if integerize else ()),
        FoldConstants(),
        CleanUp(),
        FoldScales(),
        TransposeWeights(),
        EliminateDeadCode(),
    )


def optimize(graph: Graph, passes: Sequence[Pass] | None = None,
             after: AfterPass | None = None) -> Graph:
    """Runs the passes (`standard_passes()` unless told), verifying the graph after each that
    changes it.

    `after(index, name, graph)` is called for the imported graph, with index 0 and name `import`,
    and then after every pass.
    """
    run = standard_passes() if passes is None else passes
    after = after or (lambda index, name, graph: None)
    after(0, "import", verify(graph))
    for index, one in enumerate(run, start=1):
        made = one(graph)
        graph = made if made is graph else verify(made)
        after(index, one.name, graph)
    return graph


def numbered(after: AfterPass | None, first: int) -> Show:
    """A hook for what follows on the passes; the first result has the number `first`."""
    numbers = count(first)

    def show(name: str, result: Result) -> None:
        if after is not None:
            after(next(numbers), name, result)
    return show


def dump_into(folder: Path) -> AfterPass:
    """A hook that writes each result as text: 00-import.txt, 01-fold-constants.txt, ..."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(index: int, name: str, result: Result) -> None:
        write_text(folder / f"{index:02d}-{name}.txt", str(result))
    return write
