"""The memory of a segment: where the results of its groups lie, and what they need meanwhile."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from compiler.graph.fusion import Group, overwritable
from compiler.graph.graph import Graph
from compiler.graph.memory import LINE, MemoryPlan, MemoryTask, plan_memory
from compiler.graph.reference import evaluate_node
from compiler.graph.room import bytes_of
from compiler.te import Buffer, numpy_dtype


def plan_groups(graph: Graph, groups: Sequence[Group],
                workspaces: Sequence[Sequence[Buffer] | None], in_place: bool = True,
                alignment: int = LINE, copied: Sequence[str] = (),
                leads: Sequence[Mapping[str, int]] = (), inside: bool = False) -> MemoryPlan:
    """Plans where the groups' results and their `workspaces` lie; a view, which has None, lies
    where what it shows does. Inputs, constants and outputs of the graph lie elsewhere, but those
    outputs that are `copied` in the end. Unless `in_place`, no result takes the place of what it is
    computed from. `leads` has for each group the inputs that its result may lie over, and by how
    many bytes it must begin before them. With `inside` the graph's inputs lie there, too, from the
    beginning to their last reader, and all outputs but constants to the end.
    """
    root = storage(groups)
    tasks = [_task(graph, group, needed, root, in_place, over)
             for group, needed, over in zip(groups, workspaces, leads or [{}] * len(groups),
                                            strict=True)]
    kept = tuple(dict.fromkeys(map(root, graph.outputs if inside else copied)))
    tasks += [MemoryTask(kept, "")] * bool(kept)
    outside = set(map(root, graph.outputs)) - set(kept)
    made = [group.output for group in groups
            if not group.is_view and group.output not in outside]
    given = graph.inputs if inside else ()
    before = [*(MemoryTask((), value) for value in given),
              *[MemoryTask(tuple(given), "")] * bool(given)]
    plan = plan_memory([*before, *tasks], {value: bytes_of(graph.values[value])
                                           for value in (*given, *made)}, alignment)
    return replace(plan, workspaces=plan.workspaces[len(before):])


def _task(graph: Graph, group: Group, needed: Sequence[Buffer] | None,
          root: Callable[[str], str], in_place: bool, leads: Mapping[str, int]
          ) -> MemoryTask:
    if needed is None:
        return MemoryTask((), group.output)
    reads = tuple(map(root, group.inputs))

    def whole(values: Iterable[str]) -> list[str]:
        """The values that have all bytes of where they lie, and are read as nothing else."""
        return [value for value in values if reads.count(root(value)) == 1
                and bytes_of(graph.values[value]) == bytes_of(graph.values[root(value)])]

    free = whole(overwritable(graph, group) if in_place else ())
    return MemoryTask(reads, group.output, tuple(int(buffer.size_bytes) for buffer in needed),
                      tuple(map(root, free)), {root(value): leads[value] for value in whole(leads)})


def storage(groups: Sequence[Group]) -> Callable[[str], str]:
    """Maps each value to the one in whose memory it lies: a view to what it shows."""
    shown = {group.output: group.inputs[0] for group in groups if group.is_view}

    def root(value: str) -> str:
        while value in shown:
            value = shown[value]
        return value
    return root


def shown(graph: Graph, view: Group) -> int:
    """The place where a view begins in what it shows, in bytes."""
    (node,), type_ = view.nodes, graph.values[view.inputs[0]]
    source = np.empty(type_.shape, numpy_dtype(type_.dtype))
    seen = evaluate_node(node, [source])
    if not seen.size or not np.may_share_memory(seen, source):
        return 0                    # all of its elements, in their order
    return seen.ctypes.data - source.ctypes.data
