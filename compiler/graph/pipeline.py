"""The list of graph passes, and hooks that see the graph after each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from compiler.graph.graph import Graph
from compiler.graph.passes.dead_code import EliminateDeadCode
from compiler.graph.passes.drop_identities import DropIdentities
from compiler.graph.passes.fold_constants import FoldConstants
from compiler.graph.passes.fold_scales import FoldScales
from compiler.graph.passes.integerize import Integerize
from compiler.graph.passes.sink_dequantize import SinkDequantize
from compiler.graph.passes.transpose_weights import TransposeWeights
from compiler.graph.verify import verify

__all__ = ["AfterPass", "Pass", "dump_into", "optimize", "standard_passes"]

AfterPass = Callable[[int, str, Graph], None]


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
        DropIdentities(),
        *(to_integers if integerize else ()),
        FoldConstants(),
        DropIdentities(),
        FoldScales(),
        TransposeWeights(),
        EliminateDeadCode(),
    )


def optimize(graph: Graph, passes: Sequence[Pass] | None = None,
             after: AfterPass | None = None) -> Graph:
    """Runs the passes (`standard_passes()` unless told), verifying the graph after each.

    `after(index, name, graph)` is called for the imported graph, with index 0 and name `import`,
    and then after every pass.
    """
    run = standard_passes() if passes is None else passes
    after = after or (lambda index, name, graph: None)
    after(0, "import", verify(graph))
    for index, one in enumerate(run, start=1):
        graph = verify(one(graph))
        after(index, one.name, graph)
    return graph


def dump_into(folder: Path) -> AfterPass:
    """A hook that writes each graph as text: 00-import.txt, 01-fold-constants.txt, ..."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(index: int, name: str, graph: Graph) -> None:
        (folder / f"{index:02d}-{name}.txt").write_text(str(graph), encoding="utf-8")
    return write
