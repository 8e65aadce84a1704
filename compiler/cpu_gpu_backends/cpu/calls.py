"""The calls of a segment's kernels: at which places, and as text.

The time that LLVM takes for a function grows faster than its length. So thousands of calls are a
tree of functions, none of which makes more than `MOST_CALLS`; each has the same parameters, and
loads the addresses that its own calls need.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.cpu_gpu_backends.cpu.steps import GroupCode
from compiler.cpu_gpu_backends.memory import shown
from compiler.graph.graph import Graph
from compiler.graph.memory import MemoryPlan
from compiler.te import Buffer

MOST_CALLS = 32         # of one function
MOST_POINTERS = 128     # that it passes on to kernels


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """Bytes from the beginning of the block, or of the array of a slot."""

    slot: int | None
    offset: int = 0


def workspaces_of(steps: Sequence[GroupCode]) -> list[tuple[Buffer, ...] | None]:
    """The arrays that each step's kernel needs beside its result; a view has none."""
    return [step.kernel and step.kernel.program.outputs[1:] for step in steps]


def places_of(graph: Graph, steps: Sequence[GroupCode], plan: MemoryPlan,
              given: Mapping[str, ArrayPlace]) -> dict[str, ArrayPlace]:
    """The place of every value: where it is `given`, in the block, or where a view shows it."""
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


Calls = Sequence[tuple[str, Sequence[ArrayPlace]]]
"""Functions to call one after the other, each with the places of its arguments."""


@dataclass(frozen=True, slots=True)
class CallFrame:
    """The frame in which functions that call kernels find their arrays.

    `parameters` are those of each function, all pointers, as ``%block``. A place without a slot
    counts from the one at `block`; a place in slot N from ``%aN``, which the lines of `loads` set.
    """

    parameters: tuple[str, ...]
    block: int
    loads: Callable[[int], Iterator[str]]

    @property
    def typed(self) -> str:
        """The parameters, or what a function passes on, with their types."""
        return ", ".join(f"ptr {name}" for name in self.parameters)

    def base(self, place: ArrayPlace) -> str:
        """The pointer from which a place is counted."""
        return self.parameters[self.block] if place.slot is None else f"%a{place.slot}"


def calling_functions(name: str, frame: CallFrame, names: Sequence[str],
                      calls: Sequence[Sequence[ArrayPlace]], linkage: str = "") -> Iterator[str]:
    """The text of functions, the last of which, `name`, calls kernels of these names one after the
    other, by itself or by the others, and returns the first status that is not 0.
    """
    parts = list(_parts(list(zip(names, calls, strict=True))))
    yield from _functions(name, frame, parts, linkage, "")


def _parts(calls: Calls) -> Iterator[Calls]:
    """The calls in parts of `MOST_CALLS`, and of `MOST_POINTERS` where one call has no more."""
    begin = pointers = 0
    for number, (_, places) in enumerate(calls):
        pointers += len(places)
        if number > begin and (number - begin == MOST_CALLS or pointers > MOST_POINTERS):
            yield calls[begin:number]
            begin, pointers = number, len(places)
    yield calls[begin:]


def _functions(name: str, frame: CallFrame, parts: Sequence[Calls], linkage: str,
               attributes: str) -> Iterator[str]:
    """A tree of functions that call these parts, the root last."""
    if len(parts) == 1:
        lines = _kernel_calls(frame, parts[0])
    else:
        share = 1
        while share * MOST_CALLS < len(parts):
            share *= MOST_CALLS
        shares = [parts[first:first + share] for first in range(0, len(parts), share)]
        below = [f"{name}.{number}" for number in range(len(shares))]
        for other, some in zip(below, shares, strict=True):
            yield from _functions(other, frame, some, "internal ", "noinline ")
        lines = (line for number, other in enumerate(below)
                 for line in call_lines(number, other, frame.typed))
    yield f"define {linkage}i32 @{name}({frame.typed}) {attributes}nounwind {{"
    yield from lines
    yield "  ret i32 0"
    yield "}"


def _kernel_calls(frame: CallFrame, calls: Calls) -> Iterator[str]:
    for slot in sorted({place.slot for _, places in calls for place in places
                        if place.slot is not None}):
        yield from frame.loads(slot)
    for number, (name, places) in enumerate(calls):
        arguments = []
        for argument, place in enumerate(places):
            pointer = frame.base(place)
            if place.offset:
                yield (f"  %v{number}_{argument} = getelementptr i8, ptr {pointer}, "
                       f"i64 {place.offset}")
                pointer = f"%v{number}_{argument}"
            arguments.append(f"ptr {pointer}")
        yield from call_lines(number, name, ", ".join(arguments))


def call_lines(number: int, name: str, arguments: str) -> Iterator[str]:
    """Calls a function; returns its status where that is not 0."""
    yield f"  %s{number} = call i32 @{name}({arguments})"
    yield f"  %e{number} = icmp ne i32 %s{number}, 0"
    yield f"  br i1 %e{number}, label %fail{number}, label %done{number}"
    yield f"fail{number}:"
    yield f"  ret i32 %s{number}"
    yield f"done{number}:"
