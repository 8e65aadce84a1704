"""A segment as one object file that needs nothing else: kernels, constants, and two functions of C.

::

    i32 NAME_init(ptr self, ptr weights)
    i32 NAME_run(ptr self, ptr inputs, ptr outputs, ptr arena)

`compiler.exports.interface` says what they promise. `self` holds the address of the constants;
`inputs` and `outputs` hold addresses of arrays. Kernels are the ones that a segment calls in this
process, so results are the same to the bit on a processor that rounds products alike.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

import numpy as np

from compiler.cpu_gpu_backends.cpu.calls import (ArrayPlace, CallFrame, call_lines,
                                                 calling_functions, calls_of, places_of,
                                                 workspaces_of)
from compiler.cpu_gpu_backends.cpu.overlaps import leads_of
from compiler.cpu_gpu_backends.cpu.segment import HostSegment
from compiler.cpu_gpu_backends.exports import (HEADER_BYTES, INSIDE, arrays_of, direct_outputs,
                                               network_hash, side_by_side, weights_file)
from compiler.cpu_gpu_backends.llvm import Processor, object_code
from compiler.cpu_gpu_backends.llvm.emitting.emit import LlvmFunction, emit_functions
from compiler.cpu_gpu_backends.memory import plan_groups, storage
from compiler.exports import CArray, CInterface, ExportError
from compiler.exports.interface import STATUSES
from compiler.exports.objects import missing_symbols
from compiler.graph.graph import Graph
from compiler.graph.room import bytes_of

WEIGHTS = "lockstep.weights"
STATUS = {end: number for number, (end, _) in enumerate(STATUSES)}


@dataclass(frozen=True, slots=True)
class Exported:
    """The code of a network, and its interface; `weights` is the file of weights, empty where they
    are in the code. No arena can have fewer than `live_bytes`, in use in one kernel.
    """

    interface: CInterface
    machine: Processor
    code: bytes
    text: str
    weights: bytes
    live_bytes: int


def exported(segment: HostSegment, name: str, machine: Processor, apart: bool | None = None,
             arrays: Mapping[str, CArray] | None = None, title: str = "", inside: bool = False
             ) -> Exported:
    """The segment of a whole network, as a library of functions that begin with `name`.

    With `apart` its constants are a file, without they are in the code; by default that depends on
    their size (`INSIDE`). `arrays` describe inputs and outputs that have a scale. With `inside`
    these have places in the arena, which later values may take, too. Raises ExportError for a name
    that C does not take and for a segment that was read from a file.
    """
    if any(step.kernel and step.kernel.function is None for step in segment.steps):
        raise ExportError(f"{segment.graph.name} must be compiled from a model to be exported: a "
                          f"compiled file has machine code of its own processor alone")
    graph, alignment = segment.graph, machine.instructions.alignment
    layout = _Layout(segment, alignment, inside)
    apart = len(layout.weights) > INSIDE if apart is None else apart
    hashed = network_hash(graph, layout.weights)
    weights = weights_file(hashed, layout.weights) if apart else b""
    interface = CInterface(
        name, hashed.hex(), layout.placed(arrays_of(graph, graph.inputs, arrays)),
        layout.placed(arrays_of(graph, graph.outputs, arrays)), layout.plan.size, alignment,
        len(weights), alignment, title)
    text = "\n".join(_text(segment, layout, interface, machine))
    code = object_code(text, machine)
    interface = replace(interface, notes=_needs(code, machine))
    return Exported(interface, machine, code, text, weights, layout.plan.live)


def _needs(code: bytes, machine: Processor) -> tuple[str, ...]:
    """The functions that the code calls, for the reader of the header."""
    if machine.architecture == "wasm32":
        return ()
    called = ", ".join(missing_symbols(code)) or "nothing"
    return tuple(wrap(f"The code calls {called} of other libraries.", 88))


class _Layout:
    """The layout of memory: constants one after the other in `weights`, what is computed in the
    arena. An output is written where the caller wants it, or `copied` there in the end: one that
    shows an input, a constant or a part of something larger, or what another output shows. With
    `inside` inputs and outputs lie in the arena: where the caller has them elsewhere, they are
    copied.
    """

    def __init__(self, segment: HostSegment, alignment: int, inside: bool):
        graph, steps = segment.graph, segment.steps
        groups = [step.group for step in steps]
        root = storage(groups)
        used = {root(value) for group in groups for value in group.inputs}
        used |= set(map(root, graph.outputs))
        offsets, self.weights = side_by_side(
            {value: array for value, array in segment.constants.items() if value in used},
            alignment)
        direct = {} if inside else direct_outputs(graph, groups)
        owners = {of: graph.outputs.index(output) for of, output in direct.items()}
        self.inside = inside
        self.copied = {place: value for place, value in enumerate(graph.outputs)
                       if owners.get(root(value)) != place}
        self.plan = plan_groups(graph, groups, workspaces_of(steps), alignment=alignment,
                                copied=[value for value in self.copied.values()
                                        if root(value) not in owners],
                                leads=leads_of(steps), inside=inside)
        first = 1 + len(graph.inputs)           # slots: constants, inputs, outputs
        given = {value: ArrayPlace(0, offset) for value, offset in offsets.items()}
        if not inside:
            given |= {value: ArrayPlace(1 + place) for place, value in enumerate(graph.inputs)}
        given |= {value: ArrayPlace(first + place) for value, place in owners.items()}
        self.places = places_of(graph, steps, self.plan, given)
        self.calls = list(calls_of(steps, self.plan, self.places))

    def placed(self, arrays: Sequence[CArray]) -> tuple[CArray, ...]:
        """The arrays, with their offsets in the arena where they have a place there."""
        if not self.inside:
            return tuple(arrays)
        places = [self.places[array.name] for array in arrays]
        return tuple(array if place.slot is not None else replace(array, offset=place.offset)
                     for array, place in zip(arrays, places, strict=True))


def _text(segment: HostSegment, layout: _Layout, interface: CInterface, machine: Processor
          ) -> Iterator[str]:
    functions: dict[LlvmFunction, str] = {}
    for step, _ in layout.calls:
        assert step.kernel is not None and step.kernel.function is not None
        function = step.kernel.function
        functions.setdefault(function, f"{interface.name}.{len(functions)}.{function.program.name}")
    names = {name: function for function, name in functions.items()}
    yield emit_functions(names, machine, "internal").text()
    if not interface.weights_bytes:
        size = max(1, len(layout.weights))
        yield (f"@{WEIGHTS} = internal constant [{size} x i8] c\"{_escaped(layout.weights)}\", "
               f"align {interface.weights_alignment}")
    yield from _init(interface)
    called = [functions[step.kernel.function] for step, _ in layout.calls
              if step.kernel and step.kernel.function]
    yield from _run(segment.graph, layout, interface, called)
    yield "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


_ESCAPES = np.array([f"\\{byte:02X}".encode() for byte in range(256)])


def _escaped(data: bytes) -> str:
    """Bytes in a string of LLVM's."""
    return _ESCAPES[np.frombuffer(data, np.uint8)].tobytes().decode() if data else "\\00"


def _init(interface: CInterface) -> Iterator[str]:
    yield f"define i32 @{interface.name}_init(ptr %self, ptr %weights) nounwind {{"
    if not interface.weights_bytes:
        yield from _refused("given", "icmp ne ptr %weights, null", "WEIGHTS")
        yield f"  store ptr @{WEIGHTS}, ptr %self"
    else:
        yield from _refused("none", "icmp eq ptr %weights, null", "WEIGHTS")
        yield from _misaligned("weights", interface.weights_alignment, "WEIGHTS")
        for number, word in enumerate(struct.unpack("<4Q", bytes.fromhex(interface.hash))):
            yield f"  %p{number} = getelementptr i64, ptr %weights, i32 {number}"
            yield f"  %w{number} = load i64, ptr %p{number}, align 1"
            yield from _refused(f"other{number}", f"icmp ne i64 %w{number}, {_signed(word)}",
                                "OTHER_WEIGHTS")
        yield f"  %first = getelementptr i8, ptr %weights, i32 {HEADER_BYTES}"
        yield "  store ptr %first, ptr %self"
    yield "  ret i32 0"
    yield "}"


def _run(graph: Graph, layout: _Layout, interface: CInterface, names: Sequence[str]
         ) -> Iterator[str]:
    def loads(slot: int) -> Iterator[str]:
        if not slot:
            yield "  %a0 = load ptr, ptr %self"
            return
        inputs = len(graph.inputs)
        table, row = ("inputs", slot - 1) if slot <= inputs else ("outputs", slot - 1 - inputs)
        yield f"  %p{slot} = getelementptr ptr, ptr %{table}, i32 {row}"
        yield f"  %a{slot} = load ptr, ptr %p{slot}"

    frame = CallFrame(("%self", "%inputs", "%outputs", "%arena"), 3, loads)
    kernels = f"{interface.name}.kernels"
    yield from calling_functions(kernels, frame, names, [places for _, places in layout.calls],
                                 "internal ")
    yield f"define i32 @{interface.name}_run({frame.typed}) nounwind {{"
    if interface.arena_bytes:
        yield from _refused("none", "icmp eq ptr %arena, null", "ARENA")
        yield from _misaligned("arena", interface.arena_alignment, "ARENA")
    for slot in range(1 + len(graph.inputs) + len(graph.outputs)):
        yield from loads(slot)

    def copied(name: str, value: str, slot: int, into: bool) -> Iterator[str]:
        """Copies between the place of a value and the caller's array, if that is another one."""
        place = layout.places[value]
        yield f"  %own.{name} = getelementptr i8, ptr {frame.base(place)}, i64 {place.offset}"
        if layout.inside:
            yield f"  %is.{name} = icmp eq ptr %own.{name}, %a{slot}"
            yield f"  br i1 %is.{name}, label %is.there.{name}, label %copy.{name}"
            yield f"copy.{name}:"
        target, source = f"%own.{name}", f"%a{slot}"
        if not into:
            target, source = source, target
        yield (f"  call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, "
               f"i64 {bytes_of(graph.values[value])}, i1 false)")
        if layout.inside:
            yield f"  br label %is.there.{name}"
            yield f"is.there.{name}:"

    if layout.inside:
        for place, value in enumerate(graph.inputs):
            yield from copied(f"in{place}", value, 1 + place, True)
    yield from call_lines(0, kernels, frame.typed)
    for output, value in layout.copied.items():
        yield from copied(f"out{output}", value, 1 + len(graph.inputs) + output, False)
    yield "  ret i32 0"
    yield "}"


def _misaligned(name: str, alignment: int, status: str) -> Iterator[str]:
    yield f"  %at.{name} = ptrtoint ptr %{name} to i64"
    yield f"  %odd.{name} = and i64 %at.{name}, {alignment - 1}"
    yield from _refused(f"odd.{name}", f"icmp ne i64 %odd.{name}, 0", status)


def _refused(label: str, condition: str, status: str) -> Iterator[str]:
    """Returns the status where the condition holds."""
    yield f"  %is.{label} = {condition}"
    yield f"  br i1 %is.{label}, label %refuse.{label}, label %go.{label}"
    yield f"refuse.{label}:"
    yield f"  ret i32 {STATUS[status]}"
    yield f"go.{label}:"


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
