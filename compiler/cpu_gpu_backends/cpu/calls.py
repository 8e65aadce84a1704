"""The calls of a segment's kernels: at which places, and as text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.cpu_gpu_backends.cpu.steps import GroupCode
from compiler.cpu_gpu_backends.memory import shown
from compiler.graph.graph import Graph
from compiler.graph.memory import MemoryPlan
from compiler.te import Buffer

__all__ = ["ArrayPlace", "call_lines", "calls_of", "places_of", "workspaces_of"]


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """Bytes from the beginning of the block, or of the array of a slot."""

    slot: int | None
    offset: int = 0


def workspaces_of(steps: Sequence[GroupCode]) -> list[tuple[Buffer, ...] | None]:
    """What each step's kernel needs memory for, beside its result; a view has none."""
    return [step.kernel and step.kernel.program.outputs[1:] for step in steps]


def places_of(graph: Graph, steps: Sequence[GroupCode], plan: MemoryPlan,
              given: Mapping[str, ArrayPlace]) -> dict[str, ArrayPlace]:
    """Where every value lies: where it is `given`, in the block, or where a view shows it."""
    places = {**given}
    places |= {value: ArrayPlace(None, offset) for value, offset in plan.offsets.items()}
    for step in steps:
        if step.kernel is None:
            source = places[step.group.inputs[0]]
            places[step.group.output] = ArrayPlace(source.slot,
                                              source.offset + shown(graph, step.group))
    return places


def calls_of(steps: Sequence[GroupCode], plan: MemoryPlan, places: Mapping[str, ArrayPlace]
             ) -> Iterator[tuple[GroupCode, list[ArrayPlace]]]:
    """The steps with a kernel, each with the places of its arguments."""
    for number, step in enumerate(steps):
        if step.kernel is not None:
            given = [places[value] for value in (*step.group.inputs, step.group.output)]
            yield step, [*given, *(ArrayPlace(None, at) for at in plan.workspaces[number])]


def call_lines(names: Sequence[str], calls: Sequence[Sequence[ArrayPlace]],
               base: Callable[[ArrayPlace], str]) -> Iterator[str]:
    """Calls functions of these names, one after the other; returns the first status that is not 0.
    `base` gives the pointer from which a place is counted.
    """
    for number, (name, places) in enumerate(zip(names, calls, strict=True)):
        arguments = []
        for argument, place in enumerate(places):
            pointer = base(place)
            if place.offset:
                yield (f"  %v{number}_{argument} = getelementptr i8, ptr {pointer}, "
                       f"i64 {place.offset}")
                pointer = f"%v{number}_{argument}"
            arguments.append(f"ptr {pointer}")
        yield f"  %s{number} = call i32 @{name}({', '.join(arguments)})"
        yield f"  %e{number} = icmp ne i32 %s{number}, 0"
        yield f"  br i1 %e{number}, label %fail{number}, label %done{number}"
        yield f"fail{number}:"
        yield f"  ret i32 %s{number}"
        yield f"done{number}:"
