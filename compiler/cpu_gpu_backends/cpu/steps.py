"""The steps of a segment: groups of operators and their code."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler.cpu_gpu_backends.llvm import Kernel
from compiler.graph.fusion import Group
from compiler.graph.graph import TensorType

__all__ = ["GroupCode", "storage"]


@dataclass(frozen=True, slots=True)
class GroupCode:
    """One group and its code, which takes the group's inputs in order, then its result and its
    workspaces; a group that is only a view has none.
    """

    group: Group
    kernel: Kernel | None
    type: TensorType


def storage(groups: Sequence[Group]) -> Callable[[str], str]:
    """Maps each value to the one in whose memory it lies: a view to what it shows."""
    shown = {group.output: group.inputs[0] for group in groups if group.is_view}

    def root(value: str) -> str:
        while value in shown:
            value = shown[value]
        return value
    return root
