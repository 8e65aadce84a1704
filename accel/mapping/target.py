"""The accelerator as a target of the compiler: a segment of an integer graph becomes a program.

`assemble` does the same for one scheduled loop program, say to try an instruction of your own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from accel.machine.config import element_bytes
from accel.machine.device import Device
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, ProgramError, Stream, TensorSlot, finish
from accel.machine.work import Work
from accel.mapping.allocate import allocate
from accel.mapping.borders import core, layout_of, orders, with_borders
from accel.mapping.forms import Forms
from accel.mapping.choices import Choices, Group, LayerPart
from accel.mapping.interleave import interleave
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.layers import build_layers, forms_of, refusal
from accel.mapping.layout import blocks_of, stored_bytes, to_memory
from accel.mapping.loads import constants_first
from accel.mapping.lowering import LoweringError, TensorPlacement, lower
from accel.mapping.operators.blocked import Blocks
from accel.mapping.puts import PlacePut, narrowed, widened
from accel.mapping.schedules import prefix_of, scheduled
from accel.mapping.search import EFFORTS, Search, Simulate
from accel.mapping.segment import AccelSegment
from accel.mapping.views import View
from accel.mapping.work import work_of
from accel.proof.legal import ordered, prove
from compiler.graph.cheapest_orders import Order
from compiler.graph.graph import Graph, Node
from compiler.ir import Program
from compiler.plans import OWN, Plans
from compiler.native import digest
from compiler.target import ACCEL
from compiler.te import Buffer, is_float, numpy_dtype

__all__ = ["AccelTarget", "CompiledSegment", "assemble"]

ALIGNMENT = 64


@dataclass(frozen=True)
class CompiledSegment:
    """A program and the useful work of its layers, for reports: an entry for each of
    `AccelProgram.layers`, so layers computed at the same time share one. `groups` has the layers
    themselves; it is empty in a loaded segment. `puts` are stores whose place a run decides.
    """

    program: AccelProgram
    work: tuple[tuple[Work, ...], ...]
    groups: tuple[tuple[MappedLayer, ...], ...] = ()
    puts: tuple[PlacePut, ...] = ()
    kind: ClassVar[str | None] = "program"

    @property
    def layers(self) -> tuple[MappedLayer, ...]:
        return tuple(layer for group in self.groups for layer in group)

    @property
    def text(self) -> list[str]:
        return [self.program.words.tobytes().hex()]

    @property
    def stages(self) -> dict[str, object]:
        return {}

    def on(self, device: Device | None) -> AccelSegment:
        """Place the segment on a device. Raises ProgramError for a device with another machine."""
        assert device is not None, "a program needs a device"
        self.program.require(device.machine)
        return AccelSegment(self.program, self.work, device, self.puts)


@dataclass(frozen=True)
class AccelTarget:
    """Compiles for one machine. `threads` virtual threads hide memory latency (1: none do). `plans`
    gives the tiles of layers, and which two are computed at the same time; without, the closed
    formula does, and with `simulate` a search of this `effort` (`accel.mapping.search.EFFORTS`).
    """

    machine: Machine
    threads: int = 2
    name: str = ACCEL
    plans: Plans = OWN
    effort: int = 0
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
        """None when the accelerator takes the node, else the reason why not."""
        accumulator = self.machine.config.accumulator
        if is_float(accumulator):
            return f"acc of the machine holds {accumulator}; layers are summed in integers"
        blocks = blocks_of(self.machine.config)
        forms = _forms(graph, blocks)
        reason = refusal(graph, node, forms)
        if reason is not None:
            return reason
        try:
            choices = self._choices
            for layer in build_layers(node, graph, forms, self.machine):
                choices.cheapest(layer.operator)
        except LoweringError as error:
            return str(error)
        return None

    def borders(self, graph: Graph) -> Mapping[str, Order | None]:
        """The orders of a segment's inputs and outputs, as in `compiler.graph.layout.Borders`."""
        return orders(graph, forms_of(graph, blocks_of(self.machine.config)))

    def compile(self, graph: Graph) -> CompiledSegment:
        """Compile the whole graph to one stream, proved legal. Each `relayout` at its borders
        becomes the layout of a tensor; the instructions are those of the graph without it.
        """
        segment = self.compile_core(core(graph))
        return replace(segment, program=with_borders(segment.program, graph))

    def compile_core(self, graph: Graph) -> CompiledSegment:
        """Compile a graph without `relayout`."""
        forms = forms_of(graph, blocks_of(self.machine.config))
        groups = self._choices.groups(self._layers(graph, forms))
        if self.simulate and self.plans is OWN and (effort := EFFORTS[self.effort]):
            memory = _Memory(self, graph, groups, forms)
            groups = Search(self._choices, effort, self.simulate, lambda some: self._program(
                some, memory)[0]).improved(groups)
        memory = _Memory(self, graph, groups, forms)
        program, puts = self._program(groups, memory)
        prove(self.machine, program)
        made = _compiled(narrowed(self.machine, program, puts) if puts else program,
                         [tuple(part.layer for part in group) for group in groups])
        return replace(made, puts=tuple(puts))

    def parts(self, graph: Graph
              ) -> tuple[list[Group], Callable[[Sequence[Group]], AccelProgram]]:
        """The layers of a graph as the formula computes them, and what makes a program, with its
        tokens, of some of them, in this way or in others.
        """
        forms = forms_of(graph, blocks_of(self.machine.config))
        groups = self._choices.groups(self._layers(graph, forms))
        memory = _Memory(self, graph, groups, forms)
        return groups, lambda some: self._program(some, memory)[0]

    @property
    def _choices(self) -> Choices:
        return Choices(self.machine, self.threads, self.plans)

    def _program(self, groups: Sequence[Group], memory: "_Memory"
                 ) -> tuple[AccelProgram, list[PlacePut]]:
        """The program of some layers, with its tokens, and the stores whose place a run decides:
        these write all places.
        """
        streams: list[Stream] = []
        ends: list[tuple[str, int]] = []
        puts: list[PlacePut] = []
        for number, group in enumerate(groups):
            parts = [self._lowered(part, memory, number % 2 == 1) for part in group]
            stream = parts[0] if len(parts) == 1 else interleave(
                self.machine, parts[0], parts[1], group[0].cost.work)
            begin = ends[-1][1] if ends else 0
            mine = [_put_of(self.machine, part.layer, memory.forms, stream) for part in group
                    if part.layer.node.op == "qput"]
            puts += [put.after(begin) for put in mine]
            streams.append(constants_first(self.machine, widened(self.machine, stream, mine)))
            ends.append((" + ".join(part.layer.name for part in group), begin + len(stream)))
        return _ended(
            self.machine, streams, weights=memory.weights, activations_bytes=memory.activations,
            io_bytes=memory.io, inputs=memory.inputs, outputs=memory.outputs,
            layers=tuple(ends)), puts

    def _lowered(self, part: LayerPart, memory: "_Memory", from_above: bool) -> Stream:
        operator = part.layer.operator
        named = scheduled(self.machine, operator, part.tiles, part.threads)
        prefix = prefix_of(operator)
        theirs = {named.prefix + name.removeprefix(prefix): place
                  for name, place in memory.placement(part.layer).items()}
        return lower(self.machine, named.program, theirs, part.layer.name, part.room,
                     from_above, lambda name: named.renamed(name, prefix))

    def _layers(self, graph: Graph, forms: Forms) -> list[MappedLayer]:
        layers: list[MappedLayer] = []
        for node in graph.nodes:
            try:
                if node.name in forms.refused:
                    raise LoweringError(forms.refused[node.name])
                layers += build_layers(node, graph, forms, self.machine)
            except LoweringError as error:
                raise LoweringError(f"{node.name}: {error}") from None
        return layers


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


def _compiled(program: AccelProgram, groups: Sequence[tuple[MappedLayer, ...]]) -> CompiledSegment:
    return CompiledSegment(program, tuple(tuple(map(work_of, group)) for group in groups),
                           tuple(groups))


@lru_cache(1)
def _forms(graph: Graph, blocks: Blocks) -> Forms:
    """`forms_of`, kept for the last graph: `refusal` asks about it node after node."""
    return forms_of(graph, blocks)


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


class _Memory:
    """Where everything lies: packed constants, activations, and the tensors that the host sees."""

    def __init__(self, target: AccelTarget, graph: Graph, groups: Sequence[Group],
                 forms: Forms):
        self.graph, self.groups, self.forms = graph, groups, forms
        self.layers = [part.layer for group in groups for part in group]
        self.blocks = blocks_of(target.machine.config)
        self.item = element_bytes(self.blocks.element)
        self.storage = forms.owner
        self._places: dict[str, TensorPlacement] = {}
        self._constants: dict[tuple[str, str], TensorPlacement] = {}
        self.weights = self._place_constants()
        self.inputs, self.outputs, self.io = self._place_io()
        self.activations = self._place_activations()

    def placement(self, layer: MappedLayer) -> dict[str, TensorPlacement]:
        """Placement of the layer's global buffers, by name."""
        stages = layer.operator.stages
        places = {stages[role].name: self._seen(layer, role, value)
                  for role, value in layer.inputs.items()}
        places |= {stages[role].name: self._constants[layer.name, role]
                   for role in layer.constants}
        result = self._places[self.storage[layer.node.outputs[0]]]
        result = replace(result, offset=result.offset + layer.offset * self.item,
                         pitches=layer.pitches, bounds=layer.bounds)
        return places | {layer.operator.output.name: result}

    def _seen(self, layer: MappedLayer, role: str, value: str) -> TensorPlacement:
        """Where an operand lies, which may be a view or a part of another value."""
        place, part = self._places[self.storage[value]], self.forms.parts.get(value)
        if part is not None:
            place = replace(place, offset=place.offset + part.offset * self.item)
        if role in layer.views:
            view = layer.views[role]
            return replace(place, offset=place.offset + view.offset * self.item,
                           pitches=view.strides)
        if part is None or not part.strides:
            return place
        channels = layer.operator[role].buffer.pitches[4:]
        return replace(place, pitches=(*part.strides, *channels))

    def _place_constants(self) -> np.ndarray:
        parts, top = [], 0

        def place(raw: np.ndarray, value: str = "", bits: int = 8) -> TensorPlacement:
            nonlocal top
            at = TensorPlacement("weights", top, value, bits=bits)
            parts.append(np.pad(raw, (0, -raw.size % ALIGNMENT)))
            top += parts[-1].size
            return at

        for layer in self.layers:
            for role in layer.constants:
                bits = layer.operator.weight_bits if role == "w" else 8
                self._constants[layer.name, role] = place(layer.stored(role), bits=bits)
            for value in layer.inputs.values():
                array = self.graph.constants.get(value)
                if array is not None and value not in self._places:
                    layout = layout_of(self.forms[value], array.shape)
                    self._places[value] = place(stored_bytes(to_memory(array, layout)), value)
        return np.concatenate(parts) if parts else np.zeros(0, np.uint8)

    def _size(self, value: str) -> int:
        """Bytes of a value."""
        x = self.forms.stored[value]
        return self.item * (x.size if isinstance(x, View)
                            else int(np.prod(x.stored_shape(self.blocks))))

    def _place_io(self) -> tuple[tuple[TensorSlot, ...], tuple[TensorSlot, ...], int]:
        slots, top = [], 0
        positions = {node.inputs[2] for node in self.graph.nodes if node.op == "qput"}
        for value in (*self.graph.inputs, *self.graph.outputs):
            if value in positions:
                continue
            stored = self.storage[value]
            if stored not in self._places:
                self._places[stored] = TensorPlacement("io", top, stored)
                top += -(-self._size(stored) // ALIGNMENT) * ALIGNMENT
            x, logical = self.forms[value], self.graph.values[value].shape
            part = self.forms.parts.get(value)
            offset = self._places[stored].offset + (part.offset * self.item if part else 0)
            slots.append(TensorSlot(value, "io", offset, x.stored_shape(self.blocks),
                                    self.blocks.element, layout_of(x, logical), logical))
        cut = len(slots) - len(self.graph.outputs)
        return tuple(slots[:cut]), tuple(slots[cut:]), top

    def _place_activations(self) -> int:
        lives: dict[str, tuple[int, int]] = {}
        sizes: dict[str, int] = {}
        for step, group in enumerate(self.groups):
            for layer in (part.layer for part in group):
                for value in (*layer.inputs.values(), layer.node.outputs[0]):
                    stored = self.storage[value]
                    if stored not in self._places:
                        sizes[stored] = self._size(stored)
                        lives[stored] = (lives.get(stored, (step, step))[0], step)
        offsets, total = allocate(sizes, lives)
        self._places |= {value: TensorPlacement("activations", offset, value)
                         for value, offset in offsets.items()}
        return total
