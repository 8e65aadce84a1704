"""The steps of a segment: groups of operators and their code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.cpu_gpu_backends.llvm import Kernel
from compiler.graph.fusion import Group
from compiler.graph.graph import TensorType


@dataclass(frozen=True, slots=True)
class GroupCode:
    """One group and its code, which takes the group's inputs in order, then its result and its
    workspaces; a group that is only a view has none.
    """

    group: Group
    kernel: Kernel | None
    type: TensorType

    def calls(self, names: Sequence[str], scratch: Sequence[str]) -> Iterator[str]:
        if self.kernel is not None:
            yield f"{self.kernel.program.name}: {', '.join([*names, *scratch])}"
