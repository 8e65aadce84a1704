"""The memory of a segment: where the results of its groups lie, and what they need meanwhile."""

from collections.abc import Callable, Sequence

import numpy as np

from compiler.graph.fusion import Group, overwritable
from compiler.graph.graph import Graph
from compiler.graph.memory import LINE, MemoryPlan, MemoryTask, plan_memory
from compiler.graph.reference import evaluate_node
from compiler.graph.room import bytes_of
from compiler.te import Buffer, numpy_dtype

__all__ = ["plan_groups", "shown", "storage"]


def plan_groups(graph: Graph, groups: Sequence[Group],
                workspaces: Sequence[Sequence[Buffer] | None], in_place: bool = True,
                alignment: int = LINE, copied: Sequence[str] = ()) -> MemoryPlan:
    """Plans where the groups' results and their `workspaces` lie; a view, which has None, lies
    where what it shows does. Inputs, constants and outputs of the graph lie elsewhere, but those
    outputs that are `copied` in the end. Unless `in_place`, no result takes the place of what it is
    computed from.
    """
    root = storage(groups)
    tasks = [_task(graph, group, needed, root, in_place)
             for group, needed in zip(groups, workspaces, strict=True)]
    kept = tuple(dict.fromkeys(map(root, copied)))
    tasks += [MemoryTask(kept, "")] * bool(kept)
    outside = set(map(root, graph.outputs)) - set(kept)
    sizes = {group.output: bytes_of(graph.values[group.output]) for group in groups
             if not group.is_view and group.output not in outside}
    return plan_memory(tasks, sizes, alignment)


def _task(graph: Graph, group: Group, needed: Sequence[Buffer] | None,
          root: Callable[[str], str], in_place: bool) -> MemoryTask:
    if needed is None:
        return MemoryTask((), group.output)
    reads = tuple(map(root, group.inputs))
    free = (root(value) for value in (overwritable(graph, group) if in_place else ())
            if bytes_of(graph.values[value]) == bytes_of(graph.values[root(value)]))
    return MemoryTask(reads, group.output, tuple(int(buffer.size_bytes) for buffer in needed),
                      tuple(value for value in free if reads.count(value) == 1))


def storage(groups: Sequence[Group]) -> Callable[[str], str]:
    """Maps each value to the one in whose memory it lies: a view to what it shows."""
    shown = {group.output: group.inputs[0] for group in groups if group.is_view}

    def root(value: str) -> str:
        while value in shown:
            value = shown[value]
        return value
    return root


def shown(graph: Graph, view: Group) -> int:
    """Where in what it shows a view begins, in bytes."""
    (node,), type_ = view.nodes, graph.values[view.inputs[0]]
    source = np.empty(type_.shape, numpy_dtype(type_.dtype))
    seen = evaluate_node(node, [source])
    if not seen.size or not np.may_share_memory(seen, source):
        return 0                    # all of its elements, in their order
    return seen.ctypes.data - source.ctypes.data
