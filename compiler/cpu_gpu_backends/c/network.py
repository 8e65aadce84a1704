"""Networks as one file of C99: constants, kernels, and the function that calls them in order.

Where values lie in the arena of a call is fixed when the text is made, as `cpu.entry` does it for
native code. A result of the network is written where the caller wants it; what only shows a part
of another value, or an input, is copied there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap
from typing import Any

import numpy as np

from compiler.cpu_gpu_backends.cpu.schedules.attention import is_one_kernel
from compiler.cpu_gpu_backends.cpu.groups import with_workspaces
from compiler.cpu_gpu_backends.exports import (HEADER_BYTES, INSIDE, arrays_of, direct_outputs,
                                               network_hash, side_by_side, weights_file)
from compiler.cpu_gpu_backends.groups import Recipe, recipe_of, unscheduled
from compiler.cpu_gpu_backends.memory import plan_groups, shown, storage
from compiler.cpu_gpu_backends.simt.names import spelled
from compiler.cpu_gpu_backends.simt.serial import WIDTH
from compiler.graph.fusion import Group, fuse
from compiler.graph.graph import Graph
from compiler.graph.passes.pipeline import lower
from compiler.graph.room import bytes_of
from compiler.exports import CInterface, header
from compiler.exports.names import is_identifier
from compiler.ir import Program, program_text
from compiler.texts import Part, PartedText

from .constants import array_lines
from .helpers import BEGIN, STORED, helper_texts
from .kernels import CError, CFunction, comment_lines, function, is_word, note
from .lowering import PASSES
from .schedule import scheduled

ON_STACK = 1 << 10      # bytes of an array of a kernel; longer ones lie in the arena
ALIGNMENT = 16          # bytes


@dataclass(frozen=True, slots=True)
class CFiles:
    """A network in C: the text of its file, that of the header, which it includes, and the bytes
    of the constants where these are apart. `stages` are what it went through, by name.
    """

    source: str
    header: str
    weights: bytes | None
    include: str
    interface: CInterface
    stages: Mapping[str, Any] = field(compare=False, repr=False)

    @property
    def alone(self) -> str:
        """One text, with the header inside."""
        return self.source.replace(self.include, self.header, 1)


@dataclass(frozen=True, slots=True)
class CStep:
    """A group, its program and its function; None for a view."""

    group: Group
    program: Program | None = None
    function: CFunction | None = None


def network_files(graph: Graph, name: str, header_name: str = "", apart: bool | None = False
                  ) -> CFiles:
    """The network as C; `name` is an identifier, with which all that other files see begins;
    `header_name` is the header's file, by default NAME.h. With constants `apart` the text has none
    of them; None: where they take more than 16 MiB. Raises CError for what C cannot say.
    """
    if not is_identifier(name) or is_word(name):
        raise CError(f"Name of a network in C must be an identifier that nothing else has, not "
                     f"{name!r}")
    return CNetwork(graph, name, header_name or f"{name}.h", apart).files


def kernel_program(recipe: Recipe) -> Program:
    """The program of a group, in short vectors and one thread; its outputs are the result and then
    what it needs memory for meanwhile.
    """
    return with_workspaces(scheduled(unscheduled(recipe)), ON_STACK)


class CNetwork:
    """A network and its text: `graph` is what C computes, `steps` are its groups in order, `plan`
    says where results lie, `files` are what is written.
    """

    def __init__(self, graph: Graph, name: str, header_name: str, apart: bool | None):
        graph, lowering = lower(graph, PASSES)
        self.graph, self.name = graph, name
        fused = fuse(graph, is_one_kernel)
        self.groups = fused.groups
        self.root = storage(self.groups)
        self.direct = direct_outputs(graph, self.groups)
        self.copied = [(output, self.root(output)) for output in graph.outputs
                       if self.direct.get(self.root(output)) != output]
        self.steps = self._steps()
        self.plan = plan_groups(
            replace(graph, outputs=tuple(self.direct)), self.groups,
            [step.program and step.program.outputs[1:] for step in self.steps],
            alignment=ALIGNMENT)
        self.stages = {**lowering, "fuse": fused, "plan-memory": self.plan,
                       "kernels": PartedText([
                           _kernel_part(step.group, step.program)
                           for step in self.steps if step.program])}
        self.constants = self._constants()
        wanted = [*graph.inputs, *self.constants, *(step.group.output for step in self.steps)]
        self.names = spelled(dict.fromkeys(wanted), ("self", "inputs", "outputs", "arena", "bytes"),
                             is_word)
        if apart is None:
            apart = sum(array.nbytes for array in self.constants.values()) > INSIDE
        self.files = self._files(f'#include "{header_name}"\n', apart)

    def _steps(self) -> list[CStep]:
        """Equal groups share a function, which is called after the first of them."""
        programs: dict[Recipe, Program] = {}
        called: dict[Recipe, list[Group]] = {}
        recipes: dict[str, Recipe] = {}
        for group in self.groups:
            if not group.is_view:
                recipe = recipes[group.output] = recipe_of(self.graph, group)
                if recipe not in programs:
                    programs[recipe] = kernel_program(recipe)
                called.setdefault(recipe, []).append(group)
        made = {recipe: self._function(number, recipe, programs[recipe], called[recipe])
                for number, recipe in enumerate(programs)}
        return [CStep(group) if group.is_view else CStep(
            group, programs[recipes[group.output]], made[recipes[group.output]])
            for group in self.groups]

    def _function(self, number: int, recipe: Recipe, program: Program, groups: Sequence[Group]
                  ) -> CFunction:
        """The function of groups that compute the same, named after the first operator."""
        first, given = groups[0].nodes[0].name, self._ends(groups)
        name = spelled([f"k{number}_{first}"], (), is_word)[f"k{number}_{first}"]
        return function(program, name, [f"x{place}" for place in recipe.overwritable],
                        comment="\n".join([*map(_operators, groups), *_types(recipe, given)]),
                        given={f"x{place}": ends for place, ends in given.items()})

    def _ends(self, groups: Sequence[Group]) -> dict[int, tuple[int, int]]:
        """The least and the greatest number of inputs of groups that are constants of int32."""
        found = {}
        for place in range(len(groups[0].inputs)):
            arrays = [self.graph.constants.get(group.inputs[place]) for group in groups]
            if all(array is not None and array.dtype == np.int32 and array.size
                   for array in arrays):
                found[place] = (min(int(array.min()) for array in arrays if array is not None),
                                max(int(array.max()) for array in arrays if array is not None))
        return found

    def _constants(self) -> dict[str, np.ndarray]:
        """The constants that kernels read, or that are shown as outputs."""
        used = {self.root(value) for group in self.groups if not group.is_view
                for value in group.inputs} | {of for _, of in self.copied}
        return {value: array for value, array in self.graph.constants.items() if value in used}

    # The text

    def _files(self, include: str, apart: bool) -> CFiles:
        offsets, data = side_by_side(self.constants, ALIGNMENT)
        hashed = network_hash(self.graph, data)
        weights = weights_file(hashed, data) if apart and data else None
        offsets = {} if weights is None else offsets
        interface = self._interface(hashed, len(weights or b""))
        functions = list(dict.fromkeys(step.function for step in self.steps if step.function))
        used = [helper for one in functions for helper in one.used]
        arrays = [] if weights else ["\n".join(array_lines(
            f"const_{self.names[value]}", self.graph.values[value].dtype, array)) + "\n"
            for value, array in self.constants.items()]
        source = "\n".join([
            self._head(interface), include, BEGIN, *helper_texts(used),
            *arrays, *(one.text for one in functions), *self._init(interface),
            *self._run(interface, offsets), ""])
        return CFiles(source, header(interface), weights, include, interface,
                      self.stages)

    def _head(self, interface: CInterface) -> str:
        most = max((step.function.stack_bytes for step in self.steps if step.function), default=0)
        constants = sum(array.nbytes for array in self.constants.values())
        return "\n".join([
            f"/* {note(self.graph.name)} in C99: {len(self.graph.nodes)} operators in "
            f"{sum(step.function is not None for step in self.steps)} kernels,",
            f"   {constants:,} bytes of constants, {interface.arena_bytes:,} bytes of results on "
            f"the way,",
            f"   at most {most:,} bytes of arrays on the stack.",
            "",
            "   Integers wrap. Floats are those of IEEE 754, each operation rounded by itself: "
            "compile with",
            "   -ffp-contract=off, and not with -ffast-math. */", ""])

    def _interface(self, hashed: bytes, weights_bytes: int) -> CInterface:
        graph = self.graph
        return CInterface(
            self.name, hashed.hex(), arrays_of(graph, graph.inputs),
            arrays_of(graph, graph.outputs), self.plan.size, ALIGNMENT, weights_bytes, ALIGNMENT,
            f"{note(graph.name)}, in C99 for any processor")

    def _init(self, interface: CInterface) -> Iterator[str]:
        name, prefix = self.name, interface.prefix
        yield f"int32_t {name}_init(struct {name} *self, const void *weights) {{"
        if interface.weights_bytes:
            yield "  const unsigned char *const bytes = (const unsigned char *)weights;"
            yield "  static const unsigned char hash[32] = {"
            yield from (f"      {line}" for line in wrap(
                ", ".join(map(str, bytes.fromhex(interface.hash))) + "};", WIDTH - 8))
            yield f"  if (bytes == NULL || (uintptr_t)bytes % {ALIGNMENT} != 0) " + (
                f"return {prefix}WEIGHTS;")
            yield "  for (int i = 0; i < 32; ++i)"
            yield f"    if (bytes[i] != hash[i]) return {prefix}OTHER_WEIGHTS;"
            yield f"  self->weights = bytes + {HEADER_BYTES};"
        else:
            yield f"  if (weights != NULL) return {prefix}WEIGHTS;"
            yield "  self->weights = NULL;"
        yield f"  return {prefix}DONE;"
        yield "}\n"

    def _run(self, interface: CInterface, offsets: Mapping[str, int]) -> Iterator[str]:
        name, prefix = self.name, interface.prefix
        yield f"int32_t {name}_run(const struct {name} *self, const {name}_inputs *inputs,"
        yield f"{' ' * len(f'int32_t {name}_run(')}const {name}_outputs *outputs, void *arena) {{"
        if self.plan.size:
            yield "  unsigned char *const bytes = (unsigned char *)arena;"
            yield f"  if (arena == NULL || (uintptr_t)arena % {ALIGNMENT} != 0) " + (
                f"return {prefix}ARENA;")
        else:
            yield "  (void)arena;"
        if not offsets:
            yield "  (void)self;"
        for line in self._calls(interface, offsets):
            yield f"  {line}".rstrip()
        yield f"  return {prefix}DONE;"
        yield "}"

    def _calls(self, interface: CInterface, offsets: Mapping[str, int]) -> Iterator[str]:
        """The lines of a call: each value gets its place where it is first used or written."""
        inputs = dict(zip(self.graph.inputs, interface.input_members, strict=True))
        outputs = dict(zip(self.graph.outputs, interface.output_members, strict=True))
        fixed = {value: f"inputs->{inputs[value]}" for value in self.graph.inputs}
        fixed |= {value: self._weight(value, offsets) for value in self.constants}
        known: dict[str, str] = dict(fixed)
        copies = {of: [output for output, root in self.copied if root == of]
                  for _, of in self.copied}
        yield from self._copies(known, copies, outputs, tuple(fixed))
        for step, workspaces in zip(self.steps, self.plan.workspaces, strict=True):
            group, type_ = step.group, self.graph.values[step.group.output]
            if step.function is None or step.program is None:
                known[group.output] = self._view(group, known)
                continue
            yield ""
            yield from comment_lines(f"{_operators(group)}: {type_}")
            place = f"outputs->{outputs[self.direct[group.output]]}" if (
                group.output in self.direct) else self._at(self.plan.offsets[group.output],
                                                           type_.dtype)
            label = known[group.output] = self.names[group.output]
            yield f"{STORED[type_.dtype]} *const {label} = {place};"
            scratch = [self._at(offset, buffer.dtype) for offset, buffer in zip(
                workspaces, step.program.outputs[1:], strict=True)]
            arguments = [*(known[value] for value in group.inputs), label, *scratch]
            yield from _call(step.function.name, arguments)
            yield from self._copies(known, copies, outputs, (group.output,))

    def _copies(self, known: Mapping[str, str], copies: Mapping[str, Sequence[str]],
                outputs: Mapping[str, str], written: Sequence[str]) -> Iterator[str]:
        """Copies outputs that show what has been written."""
        for value in written:
            for output in copies.get(value, ()):
                begin, of = self._offset(output), known[value]
                source = f"(const unsigned char *){of} + {begin}" if begin else of
                yield (f"memcpy(outputs->{outputs[output]}, {source}, "
                       f"{bytes_of(self.graph.values[output])});")

    def _offset(self, value: str) -> int:
        """The offset of the value in the one in whose memory it lies, in bytes."""
        views = {group.output: group for group in self.groups if group.is_view}
        begin = 0
        while value in views:
            begin += shown(self.graph, views[value])
            value = views[value].inputs[0]
        return begin

    def _view(self, group: Group, known: Mapping[str, str]) -> str:
        of, begin = known[group.inputs[0]], shown(self.graph, group)
        if not begin:
            return of
        kind = STORED[self.graph.values[group.output].dtype]
        return f"(const {kind} *)((const unsigned char *)({of}) + {begin})"

    def _weight(self, value: str, offsets: Mapping[str, int]) -> str:
        if value not in offsets:
            return f"const_{self.names[value]}"
        kind = STORED[self.graph.values[value].dtype]
        return f"(const {kind} *)((const unsigned char *)self->weights + {offsets[value]})"

    def _at(self, offset: int, dtype: str) -> str:
        return f"({STORED[dtype]} *){f'(bytes + {offset})' if offset else 'bytes'}"


def _kernel_part(group: Group, program: Program) -> Part:
    return Part(tuple(node.name for node in group.nodes),
                lambda: iter((str(group), program_text(program))))


def _operators(group: Group) -> str:
    """The names of the group's operators."""
    return ", ".join(node.name if node.name == node.op else f"{node.op} {node.name}"
                     for node in group.nodes)


def _types(recipe: Recipe, given: Mapping[int, tuple[int, int]]) -> list[str]:
    """The arrays of a function, and what it may take for granted of those `given`."""
    def ends(place: int) -> str:
        return " ({} to {})".format(*given[place]) if place in given else ""
    return [", ".join([*(f"x{place}: {type_}{ends(place)}"
                         for place, type_ in enumerate(recipe.types)), f"y: {recipe.result}"])]


def _call(name: str, arguments: Sequence[str]) -> Iterator[str]:
    line = f"{name}({', '.join(arguments)});"
    if len(line) < 96:
        yield line
        return
    yield f"{name}("
    yield from (f"    {argument}{',' if place < len(arguments) - 1 else ');'}"
                for place, argument in enumerate(arguments))
