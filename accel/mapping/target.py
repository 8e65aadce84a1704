"""The accelerator as a target of the compiler: a segment of an integer graph becomes a program.

`assemble` does the same for one scheduled loop program, say to try an instruction of your own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import is_
from typing import ClassVar

import numpy as np

from accel.datapath.dataflow import PlanError
from accel.machine.config import element_bytes
from accel.machine.device import Device
from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, ProgramError, Stream, TensorSlot, finish
from accel.machine.work import Work
from accel.mapping.bounds import bound_of
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.layers import build_layers, forms_of, refusal
from accel.mapping.loads import constants_first, padding_once
from accel.mapping.lowering import LoweringError, TensorPlacement, lower
from accel.mapping.memory.borders import core, orders, with_borders
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import blocks_of, stored_bytes
from accel.mapping.memory.misfits import idle_copy
from accel.mapping.memory_map import ALIGNMENT, MemoryMap
from accel.mapping.plans.choices import Choices, Group, LayerPart
from accel.mapping.plans.interleave import interleave
from accel.mapping.plans.search import EFFORTS, Effort, Search, Simulate
from accel.mapping.plans.stream_search import improved, read_stream
from accel.mapping.plans.text import stream_task
from accel.mapping.plans.work import work_of
from accel.mapping.prefixes import OWN_LAYER, PrefixStream, prefix_of_program, with_room
from accel.mapping.puts import PlacePut, narrowed, widened
from accel.mapping.schedules import prefix_of, require_instructions, scheduled
from accel.mapping.segment import AccelSegment
from accel.mapping.texts import Way, listing, stages_of
from accel.mapping.texts.prefixes_text import prefixes_text
from accel.proof.legal import IllegalProgram, ordered, prove
from compiler.defects import blame, blaming, is_defect, told
from compiler.graph.division.cheapest_orders import Order
from compiler.graph.graph import Graph, Node
from compiler.graph.division.prefixes import Tail, shorter_forms
from compiler.ir import Program
from compiler.plans import OWN, Learns, Plans, Task, replayed
from compiler.native import digest
from compiler.graph.division.target import ACCEL
from compiler.te import Buffer, is_float, numpy_dtype

__all__ = ["AccelTarget", "CompiledSegment", "assemble"]

EMITTED = ("loops", "program")
"""Stages that are written instead of a module, if asked for."""


@dataclass(frozen=True)
class CompiledSegment:
    """A program and the useful work of its layers, for reports: an entry for each of
    `AccelProgram.layers`, so layers computed at the same time share one. `way` says how the graph
    became the program; a loaded segment has none. `puts` are stores whose place a run decides, and
    `prefixes` streams for positions below some count of places, the shortest first. `dropped` has
    the counts for which there is none though the graph has a shorter form, and why; it is empty in
    a loaded segment.
    """

    program: AccelProgram
    work: tuple[tuple[Work, ...], ...]
    way: Way | None = None
    puts: tuple[PlacePut, ...] = ()
    prefixes: tuple[PrefixStream, ...] = ()
    dropped: tuple[tuple[int, str], ...] = ()
    kind: ClassVar[str | None] = "program"

    @property
    def groups(self) -> tuple[tuple[MappedLayer, ...], ...]:
        """The layers, those that are computed at the same time together; none if loaded."""
        return self.way.layers if self.way else ()

    @property
    def layers(self) -> tuple[MappedLayer, ...]:
        return tuple(layer for group in self.groups for layer in group)

    @property
    def text(self) -> list[str]:
        return [self.program.words.tobytes().hex()]

    @property
    def stages(self) -> dict[str, object]:
        if self.way is None:
            return {}
        shown: dict[str, object] = {**stages_of(self.way, self.program)}
        if self.prefixes or self.dropped:
            shown["prefixes"] = prefixes_text(self.way.machine, self.way.groups, self.program,
                                              self.prefixes, self.dropped)
        return shown

    def emitted(self, kind: str, comment: str, arch: str) -> str | None:
        if self.way is None or kind not in EMITTED:
            return None
        return stages_of(self.way, self.program)[kind].body

    def listing(self) -> Iterator[str]:
        return listing(self.program)

    def on(self, device: Device | None) -> AccelSegment:
        """Place the segment on a device. Raises ProgramError for a device with another machine."""
        assert device is not None, "a program needs a device"
        self.program.require(device.machine)
        return AccelSegment(self.program, self.work, device, self.puts, self.prefixes)


@dataclass(frozen=True)
class AccelTarget:
    """Compiles for one machine. `threads` virtual threads hide memory latency (1: none do). `plans`
    gives the tiles of layers, and which two are computed at the same time; without, the closed
    formula does. Where no plan binds, a search of this `effort`
    (`accel.mapping.plans.search.EFFORTS`) finds better ways with `simulate`, and tells plans that
    learn what it finds.
    """

    machine: Machine
    threads: int = 2
    name: str = ACCEL
    plans: Plans = OWN
    effort: int | Effort = 0
    simulate: Simulate | None = field(default=None, compare=False)

    @property
    def fingerprint(self) -> str:
        """The machine's hash, which covers geometry, instructions and layouts; of a search also
        its effort, and the memory that it measures with.
        """
        if not self.effort:
            return self.machine.hash
        return digest([self.machine.hash, str(self.effort), repr(self.machine.config.memory)])

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """None when the accelerator takes the node, else the reason why not. It is taken where all
        steps of the node are mapped but the last, the lowering to instructions.
        """
        try:
            return self._refusal(graph, node)
        except LoweringError as error:
            return str(error)
        except Exception as error:
            if not is_defect(error):
                raise
            return told(f"{node.name} ({node.op})", error)

    def refusals_inside(self, part: Graph, whole: Graph) -> dict[str, str]:
        """The nodes of a segment that the target takes in the whole graph and not there, where
        other readers decide how values lie, and why. Copies that another segment reads stay.
        """
        blocks = blocks_of(self.machine.config)
        there, here = forms_of(whole, blocks), forms_of(part, blocks)
        reasons = {node.name: self.refusal(part, node) for node in part.nodes
                   if not (here.is_same(there, node) or idle_copy(here, node))}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def _refusal(self, graph: Graph, node: Node) -> str | None:
        accumulator = self.machine.config.accumulator
        if is_float(accumulator):
            return f"acc of the machine holds {accumulator}; layers are summed in integers"
        blocks = blocks_of(self.machine.config)
        forms = forms_of(graph, blocks)
        reason = refusal(graph, node, forms)
        if reason is not None:
            return reason
        for layer in build_layers(node, graph, forms, self.machine):
            tiles, threads = self._choices.cheapest(layer.operator)
            require_instructions(self.machine, layer.operator, tiles, threads)
        return None

    def borders(self, graph: Graph) -> Mapping[str, Order | None]:
        """The orders of a segment's inputs and outputs, as in
        `compiler.graph.division.layout.Borders`."""
        with blaming(node.name for node in graph.nodes):
            return orders(graph, forms_of(graph, blocks_of(self.machine.config)))

    def compile(self, graph: Graph) -> CompiledSegment:
        """Compile the whole graph to one stream, proved legal. Each `relayout` at its borders
        becomes the layout of a tensor; the instructions are those of the graph without it.
        """
        return self.compile_prefixes(graph, {})

    def compile_prefixes(self, graph: Graph, masks: Mapping[str, Tail]) -> CompiledSegment:
        """Compiles with streams for positions below some count of places, as far as `masks` let the
        graph have shorter forms (`compiler.graph.division.prefixes`). Each is proved.
        """
        segment = self.compile_core(core(graph), masks)
        return replace(segment, program=with_borders(segment.program, graph))

    def compile_core(self, graph: Graph, masks: Mapping[str, Tail] | None = None
                     ) -> CompiledSegment:
        """Compile a graph without `relayout`. Errors say by which nodes they came about
        (`compiler.defects.blamed`).
        """
        with blaming(node.name for node in graph.nodes):
            return self._compile_core(graph, masks)

    def _compile_core(self, graph: Graph, masks: Mapping[str, Tail] | None) -> CompiledSegment:
        forms = forms_of(graph, blocks_of(self.machine.config))
        groups = self._groups(graph, forms)
        memory = MemoryMap(graph, groups, forms)
        shorter = shorter_forms(graph, masks) if masks else {}
        if shorter:
            return self._with_prefixes(shorter, groups, memory)
        program, puts = self._program(groups, memory)
        with _blaming_layers(memory):
            prove(self.machine, program)
        return self._compiled(program, puts, groups, memory)

    def _groups(self, graph: Graph, forms: Forms) -> list[Group]:
        """The layers in the ways that are planned, and with an effort in those that a search finds.
        Plans of layers that bind come before one of the stream that does not.
        """
        layers, choices = self._layers(graph, forms), self._choices
        if not layers:
            return []
        task = stream_task(self.machine, layers, self.threads)
        binds, layers_bind = self.plans.binds(task), choices.are_bound(layers)
        groups = choices.groups(layers) if layers_bind and not binds else replayed(
            self.plans, task, lambda: "", lambda plan: (
                choices.groups_of(plan, layers) if plan else choices.groups(layers)))
        effort = EFFORTS[self.effort] if isinstance(self.effort, int) else self.effort
        if not (self.simulate and effort) or binds or layers_bind:
            return groups
        search = Search(choices, effort, self.simulate, self._assembler(graph, forms, groups))
        if not isinstance(self.plans, Learns):
            return search.improved(groups)
        return improved(search, groups, task, graph, replace(self, plans=OWN), self.plans)

    def cycles(self, task: Task, plan: str, seed: int) -> int:
        """The exact cycles of a stream by a plan, or of some of its layers as they stand in it
        (`accel.mapping.plans.streams`). Raises PlanRefused for a body that makes another task here,
        and for a plan that is not legal.
        """
        assert self.simulate is not None
        stream = read_stream(replace(self, plans=OWN), task.body, task.digest)
        return self.simulate(self.machine, stream.program(plan)).cycles

    def _with_prefixes(self, shorter: Mapping[int, Graph], groups: Sequence[Group],
                       memory: MemoryMap) -> CompiledSegment:
        """The whole, and what its shorter forms have of their own."""
        lowered = [*self._lowered(groups, memory)]
        program, puts = self._assembled(lowered, memory)
        whole = self._compiled(program, puts, groups, memory)
        prefixes, dropped = list[PrefixStream](), list[tuple[int, str]]()
        for places, graph in shorter.items():
            try:
                prefixes.append(self._shorter(places, graph, lowered, memory, whole.program))
            except LoweringError as error:      # a longer one, or the whole, serves its positions
                dropped.append((places, str(error)))
        room = {"weights": memory.weights, "activations_bytes": memory.activations}
        prove(self.machine, replace(program, **room))
        return replace(whole, program=with_room(replace(whole.program, **room), prefixes),
                       prefixes=tuple(prefixes), dropped=tuple(dropped))

    def _shorter(self, places: int, graph: Graph, lowered: Sequence["_Lowered"],
                 memory: MemoryMap, whole: AccelProgram) -> PrefixStream:
        """A shorter form, proved; groups that are the same in the whole are not lowered again."""
        forms = forms_of(graph, blocks_of(self.machine.config))
        layers = self._layers_like(graph, forms, memory)
        groups, shared, sides, begin = list[Group](), list[int](), list[bool](), 0
        for number, one in enumerate(lowered):
            mine = layers[begin:begin + len(one.group)]
            begin += len(one.group)
            same = all(map(is_, mine, (part.layer for part in one.group)))
            found = [one.group] if same else self._choices.groups(mine)
            groups += found
            shared += [number if same else OWN_LAYER] * len(found)
            sides += [(number + place) % 2 == 1 for place in range(len(found))]
        mapped = MemoryMap(graph, groups, forms, memory)
        program, puts = self._assembled([
            lowered[number] if number != OWN_LAYER else self._lowered_group(group, mapped, side)
            for group, number, side in zip(groups, shared, sides)], mapped)
        prove(self.machine, program)
        return prefix_of_program(places, narrowed(self.machine, program, puts), tuple(
            tuple(work_of(part.layer) for part in group) for group in groups), puts, whole, shared)

    def _layers_like(self, graph: Graph, forms: Forms, memory: MemoryMap) -> list[MappedLayer]:
        """The layers of a shorter form; nodes that are the same in the whole have the same layers.
        """
        before = {node.name: node for node in memory.graph.nodes}
        known: dict[str, list[MappedLayer]] = {}
        for layer in memory.layers.values():
            known.setdefault(layer.node.name, []).append(layer)
        layers: list[MappedLayer] = []
        for node in graph.nodes:
            same = before.get(node.name) == node and memory.forms.is_same(forms, node)
            layers += known.get(node.name, []) if same else self._layers(graph, forms, [node])
        if [layer.name for layer in layers] != [*memory.layers]:
            raise LoweringError("where less is read there are other layers")
        return layers

    def parts(self, graph: Graph, plan: str | None = None
              ) -> tuple[list[Group], Callable[[Sequence[Group]], AccelProgram]]:
        """The layers of a graph by a plan of all, or as the formula computes them, and what makes a
        program, with its tokens, of some of them, in this way or in others. Raises PlanRefused.
        """
        forms = forms_of(graph, blocks_of(self.machine.config))
        layers = self._layers(graph, forms)
        groups = (self._choices.groups(layers) if plan is None
                  else self._choices.groups_of(plan, layers))
        return groups, self._assembler(graph, forms, groups)

    def _assembler(self, graph: Graph, forms: Forms, groups: Sequence[Group]
                   ) -> Callable[[Sequence[Group]], AccelProgram]:
        """A function that makes a program of some layers, which lie in memory as among these
        groups; of all layers it makes the program that is compiled.
        """
        memory, count = MemoryMap(graph, groups, forms), sum(map(len, groups))

        def assembled(some: Sequence[Group]) -> AccelProgram:
            is_whole = sum(map(len, some)) == count
            return self._program(some, MemoryMap(graph, some, forms) if is_whole else memory)[0]
        return assembled

    @property
    def _choices(self) -> Choices:
        return Choices(self.machine, self.threads, self.plans)

    def _program(self, groups: Sequence[Group], memory: MemoryMap
                 ) -> tuple[AccelProgram, list[PlacePut]]:
        """The program of some layers, with its tokens, and the stores whose place a run decides:
        these write all places.
        """
        return self._assembled(self._lowered(groups, memory), memory)

    def _assembled(self, lowered: Iterable["_Lowered"], memory: MemoryMap
                   ) -> tuple[AccelProgram, list[PlacePut]]:
        streams: list[Stream] = []
        ends: list[tuple[str, int]] = []
        puts: list[PlacePut] = []
        for one in lowered:
            begin = ends[-1][1] if ends else 0
            puts += [put.after(begin) for put in one.puts]
            streams.append(one.stream)
            ends.append((" + ".join(part.layer.name for part in one.group),
                         begin + len(one.stream)))
        with _blaming_layers(memory):
            return _ended(
                self.machine, streams, weights=memory.weights, activations_bytes=memory.activations,
                io_bytes=memory.io, inputs=memory.inputs, outputs=memory.outputs,
                layers=tuple(ends)), puts

    def _lowered(self, groups: Sequence[Group], memory: MemoryMap) -> Iterator["_Lowered"]:
        return (self._lowered_group(group, memory, number % 2 == 1)
                for number, group in enumerate(groups))

    def _lowered_group(self, group: Group, memory: MemoryMap, from_above: bool) -> "_Lowered":
        with blaming(part.layer.node.name for part in group):
            parts = [self._stream(part, memory, from_above) for part in group]
        stream = parts[0] if len(parts) == 1 else interleave(
            self.machine, parts[0], parts[1], group[0].cost.work)
        puts = tuple(_put_of(self.machine, part.layer, memory.forms, stream) for part in group
                     if part.layer.node.op == "qput")
        return _Lowered(group, constants_first(
            self.machine, widened(self.machine, stream, puts)), puts)

    def _stream(self, part: LayerPart, memory: MemoryMap, from_above: bool) -> Stream:
        operator = part.layer.operator
        named = scheduled(self.machine, operator, part.tiles, part.threads)
        prefix = prefix_of(operator)
        theirs = {named.prefix + name.removeprefix(prefix): place
                  for name, place in memory.placement(part.layer).items()}
        stream = lower(self.machine, named.program, theirs, part.layer.name, part.room,
                       from_above, lambda name: named.renamed(name, prefix))
        return padding_once(self.machine, stream) if operator.row else stream

    def _compiled(self, program: AccelProgram, puts: Sequence[PlacePut], groups: Sequence[Group],
                  memory: MemoryMap) -> CompiledSegment:
        way = Way(self.machine, self.threads, memory.forms, tuple(groups),
                  {name: memory.placement(layer) for name, layer in memory.layers.items()},
                  memory.places)
        return CompiledSegment(narrowed(self.machine, program, puts) if puts else program,
                               tuple(tuple(map(self._work, group)) for group in way.layers), way,
                               tuple(puts))

    def _work(self, layer: MappedLayer) -> Work:
        """The work of a layer, and its bound with the fastest memory: whatever the memory behind
        the machine is, it is no greater. A machine without a datapath, as some have that only the
        functional simulator runs, has no bounds.
        """
        try:
            bound = bound_of(self.machine, layer, self.threads, Dram(latency=0))
        except PlanError:
            bound = None
        return replace(work_of(layer), bound=bound)

    def _layers(self, graph: Graph, forms: Forms, nodes: Sequence[Node] | None = None
                ) -> list[MappedLayer]:
        """The layers of the graph, or of some of its nodes."""
        layers: list[MappedLayer] = []
        for node in graph.nodes if nodes is None else nodes:
            try:
                with blaming([node.name]):
                    if reason := forms.of(node).refused:
                        raise LoweringError(reason)
                    layers += build_layers(node, graph, forms, self.machine)
            except LoweringError as error:
                named = LoweringError(f"{node.name}: {error}")
                blame(named, [node.name])
                raise named from None
        return layers


@contextmanager
def _blaming_layers(memory: MemoryMap) -> Iterator[None]:
    """Blames an illegal program on the layers of the instructions at fault."""
    try:
        yield
    except IllegalProgram as error:
        known = [memory.layers[name] for name in error.layers if name in memory.layers]
        if known:
            blame(error, dict.fromkeys(layer.node.name for layer in known))
        raise


def _put_of(machine: Machine, layer: MappedLayer, forms: Forms, stream: Stream) -> PlacePut:
    """The stores of a layer in a stream, as what the driver moves."""
    node, view = layer.node, forms.view(layer.node.outputs[0])
    assert view is not None
    axis = node.attrs["axis"]
    codes = [machine.opcodes[one.name] for one in machine.of_unit("store")]
    stores = tuple(index for index in np.flatnonzero(np.isin(stream.words[:, 0], codes)).tolist()
                   if stream.provenance.origin(index).site.layer == layer.name)
    if not stores:
        raise LoweringError(f"{layer.name}: no store of what is put is known by its origin")
    return PlacePut(node.inputs[2], view.shape[axis],
                    view.strides[axis] * element_bytes(forms.blocks.element), stores)


@dataclass(frozen=True)
class _Lowered:
    """The stream of a group, without tokens, and its stores whose place a run decides: they write
    all places.
    """

    group: Group
    stream: Stream
    puts: tuple[PlacePut, ...]


def assemble(machine: Machine, loops: Program,
             constants: Mapping[str, np.ndarray] | None = None) -> AccelProgram:
    """Compile a scheduled loop program to a program of the machine, proved legal.

    Its inputs and outputs become tensors of the same names, shapes and types in the io segment,
    but for the inputs in `constants`, whose bytes become the weights. ::

        s = Schedule([out]) ...                             # to the last tensorize
        program = assemble(machine, s.program)
        run = simulate(machine, program, inputs={"a": a, "b": b})
        result = program.extract(run.memory, "out")

    Raises ScheduleError, LoweringError or IllegalProgram for what the machine cannot do.
    """
    constants = constants or {}
    known = {buffer.name: buffer for buffer in loops.inputs}
    for name, array in constants.items():
        _require_constant(loops, known, name, array)
    weights, io = _Segment("weights"), _Segment("io")
    inputs = tuple(io.slot(b) for b in loops.inputs if b.name not in constants)
    outputs = tuple(io.slot(b) for b in loops.outputs)
    fixed = tuple(weights.slot(known[name]) for name in constants)
    data = np.zeros(weights.top, np.uint8)
    for slot in fixed:
        raw = constants[slot.name].astype(slot.numpy_dtype, copy=False)
        data[slot.offset:slot.offset + slot.size_bytes] = stored_bytes(raw)
    places = {slot.name: TensorPlacement(slot.base, slot.offset)
              for slot in (*inputs, *outputs, *fixed)}
    stream = lower(machine, loops, places, loops.name)
    program = _ended(machine, [stream], weights=data, io_bytes=io.top, inputs=inputs,
                     outputs=outputs, layers=((loops.name, len(stream)),))
    prove(machine, program)
    return program


def _require_constant(loops: Program, known: Mapping[str, Buffer], name: str,
                      array: np.ndarray) -> None:
    if name not in known:
        raise ProgramError(f"Constant of {loops.name} must be one of {', '.join(known)}, "
                           f"not {name!r}")
    wanted = known[name]
    if array.shape != wanted.shape or array.dtype != numpy_dtype(wanted.dtype):
        raise ProgramError(f"Constant {name} must be {wanted.dtype} of shape {wanted.shape}, not "
                           f"{array.dtype} of shape {array.shape}")


@dataclass
class _Segment:
    """Places tensors one after the other in a segment, aligned."""

    base: str
    top: int = 0

    def slot(self, buffer: Buffer) -> TensorSlot:
        slot = TensorSlot(buffer.name, self.base, self.top, buffer.shape, buffer.dtype)
        self.top += -(-slot.size_bytes // ALIGNMENT) * ALIGNMENT
        return slot


def _ended(machine: Machine, streams: list[Stream], **parts) -> AccelProgram:
    """The program of streams, one after the other, with tokens and FINISH added."""
    stream = Stream.joined([*streams, Stream.of(machine, [finish()])])
    streams.clear()                             # they are as long as the whole
    return AccelProgram.assemble(machine, ordered(machine, stream), **parts)
