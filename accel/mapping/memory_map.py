"""The places of a segment's tensors in the device's memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from accel.machine.config import element_bytes
from accel.machine.program import TensorSlot
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.lowering import LoweringError, TensorPlacement
from accel.mapping.memory.allocate import allocate
from accel.mapping.memory.borders import layout_of
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import stored_bytes, to_memory
from accel.mapping.memory.rings import Demand, Ring
from accel.mapping.memory.shared import allocate_shared
from accel.mapping.operators.blocked import Activation
from accel.mapping.plans.choices import Group
from compiler.graph.graph import Graph

ALIGNMENT = 64


@dataclass
class TakenMemory:
    """The memory that a segment and its shorter forms take together: constants, in their order, and
    bytes of activations.
    """

    constants: list[np.ndarray] = field(default_factory=list)
    activations: int = 0


class MemoryMap:
    """Places everything: packed constants, activations, and the tensors that the host sees.

    The map of a shorter form of a segment puts its tensors where those of the `whole` lie, and what
    else it has behind them. Its layers are those of the whole, in their order and by their names,
    and its groups are groups of the whole or parts of them. So what shares memory there does not
    live at the same time here.

    The first `shared` bytes of activations are on chip; `demands` say what is worth a place there,
    and which values are not kept as wholes (`rings`).
    """

    def __init__(self, graph: Graph, groups: Sequence[Group], forms: Forms,
                 whole: "MemoryMap | None" = None, shared: int = 0,
                 demands: Mapping[str, Demand] | None = None):
        self.graph, self.groups, self.forms, self.whole = graph, groups, forms, whole
        self.shared, self.demands = shared, demands or {}
        self.rings: dict[str, Ring] = {}
        self.layers = {part.layer.name: part.layer for group in groups for part in group}
        self.steps = whole.steps if whole else {
            part.layer.name: step for step, group in enumerate(groups) for part in group}
        self.blocks = forms.blocks
        self.item = element_bytes(self.blocks.element)
        self.storage = {value: form.owner for value, form in forms.values.items()}
        self.rooms = {layer.result: layer.room for layer in self.layers.values() if layer.result}
        self.storage |= {value: value for value in self.rooms}
        self._places: dict[str, TensorPlacement] = {}
        self._constants: dict[tuple[str, str], TensorPlacement] = {}
        self.taken = whole.taken if whole else TakenMemory()
        if whole:
            self._require_same_ends(whole)
            self._places |= {value: place for value, place in whole._places.items()
                             if place.base != "activations"}
        self._place_constants()
        self.inputs, self.outputs, self.io = self._place_io()
        self._top = self._place_activations()
        self.taken.activations = max(self.taken.activations, self._top)

    @property
    def weights(self) -> np.ndarray:
        """The bytes of all constants, those of shorter forms behind the others."""
        parts = self.taken.constants
        return np.concatenate(parts) if parts else np.zeros(0, np.uint8)

    @property
    def activations(self) -> int:
        """The bytes of activations that the segment or one of its shorter forms takes."""
        return self.taken.activations

    def _require_same_ends(self, whole: "MemoryMap") -> None:
        for value in (*self.graph.inputs, *self.graph.outputs):
            if not self.forms.lies_as(whole.forms, value):
                raise LoweringError(f"{value} lies in memory in another way where less is read")

    @property
    def places(self) -> Mapping[str, TensorPlacement]:
        """The places of the values that have memory of their own."""
        return self._places

    def placement(self, layer: MappedLayer) -> dict[str, TensorPlacement]:
        """Placement of the layer's global buffers, by name."""
        stages = layer.operator.stages
        places = {stages[role].name: self._seen(layer, role, value)
                  for role, value in layer.inputs.items()}
        places |= {stages[role].name: self._constants[layer.name, role]
                   for role in layer.constants}
        result = self._places[self.storage[layer.written]]
        result = replace(result, offset=result.offset + layer.offset * self.item,
                         pitches=layer.pitches, bounds=layer.bounds)
        return places | {layer.operator.output.name: result}

    def _seen(self, layer: MappedLayer, role: str, value: str) -> TensorPlacement:
        """The place of an operand, which may be a view or a part of another value."""
        place, part = self._places[self.storage[value]], self.forms.part(value)
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

    def _place_constants(self) -> None:
        top = sum(part.size for part in self.taken.constants)

        def place(raw: np.ndarray, value: str = "", bits: int = 8) -> TensorPlacement:
            nonlocal top
            at = TensorPlacement("weights", top, value, bits=bits)
            self.taken.constants.append(np.pad(raw, (0, -raw.size % ALIGNMENT)))
            top += self.taken.constants[-1].size
            return at

        for layer in self.layers.values():
            for role in layer.constants:
                bits = layer.operator.weight_bits if role == "w" else 8
                self._constants[layer.name, role] = self._known(layer, role) or place(
                    layer.stored(role), bits=bits)
            for owner in map(self.storage.__getitem__, layer.inputs.values()):
                array = self.graph.constants.get(owner)
                if array is not None and owner not in self._places:
                    layout = layout_of(self.forms.values[owner])
                    self._places[owner] = place(stored_bytes(to_memory(array, layout)), owner)

    def _known(self, layer: MappedLayer, role: str) -> TensorPlacement | None:
        """The place that the whole segment has for a constant."""
        theirs = self.whole.layers.get(layer.name) if self.whole else None
        if self.whole is None or theirs is None or role not in theirs.constants:
            return None
        same = theirs is layer or (
            theirs.operator.weight_bits == layer.operator.weight_bits
            and np.array_equal(theirs.stored(role), layer.stored(role)))
        return self.whole._constants[layer.name, role] if same else None

    def _size(self, value: str) -> int:
        """Bytes of a value."""
        return self.item * (self.rooms.get(value) or self.forms.size(value))

    def _place_io(self) -> tuple[tuple[TensorSlot, ...], tuple[TensorSlot, ...], int]:
        if self.whole:
            return self.whole.inputs, self.whole.outputs, self.whole.io
        slots, top = [], 0
        positions = {node.inputs[2] for node in self.graph.nodes if node.op == "qput"}
        for value in (*self.graph.inputs, *self.graph.outputs):
            if value in positions:
                continue
            stored = self.storage[value]
            if stored not in self._places:
                self._places[stored] = TensorPlacement("io", top, stored)
                top += -(-self._size(stored) // ALIGNMENT) * ALIGNMENT
            form, part = self.forms.values[value], self.forms.part(value)
            offset = self._places[stored].offset + (part.offset * self.item if part else 0)
            shape = self.forms[value].stored_shape(self.blocks)
            slots.append(TensorSlot(value, "io", offset, shape, self.blocks.carried,
                                    layout_of(form), form.shape))
        cut = len(slots) - len(self.graph.outputs)
        return tuple(slots[:cut]), tuple(slots[cut:]), top

    def _place_activations(self) -> int:
        lives: dict[str, tuple[int, int]] = {}
        for layer in self.layers.values():
            step = self.steps[layer.name]
            for value in (*layer.inputs.values(), layer.written):
                stored = self.storage[value]
                if stored not in self._places:
                    lives[stored] = (lives.get(stored, (step, step))[0], step)
        self.sizes, self.lives = {stored: self._size(stored) for stored in lives}, lives
        if self.shared and not self.whole:
            return self._place_shared()
        begin = self.whole._top if self.whole else 0
        if self.whole:
            self._places |= {stored: self.whole._places[stored] for stored in lives
                             if self._fits(stored, self.whole)}
        offsets, total = allocate({stored: size for stored, size in self.sizes.items()
                                   if stored not in self._places}, lives)
        self._places |= {value: TensorPlacement("activations", begin + offset, value)
                         for value, offset in offsets.items()}
        return begin + total

    def _place_shared(self) -> int:
        """Places activations where some of them are on chip. Those of which not all is kept lie as
        wholes behind all others, until their words are moved.
        """
        here = [stored for stored in self.sizes if stored not in self._places]
        offsets, total = allocate_shared(
            {stored: self.demands[stored].kept for stored in here}, self.lives,
            {stored: self.demands[stored].moved for stored in here}, self.shared)
        total = max(total, self.shared)
        for value, offset in offsets.items():
            if (kept := self.demands[value].kept) < self.sizes[value]:
                self.rings[value] = Ring(total, self.sizes[value], offset, kept)
                offset = total
            self._places[value] = TensorPlacement("activations", offset, value)
        return total

    def activations_of(self, group: Group) -> tuple[str, ...]:
        """The values in the activations segment that a group reads or writes."""
        values = (self.storage[value] for part in group
                  for value in (*part.layer.inputs.values(), part.layer.written))
        return tuple(dict.fromkeys(value for value in values
                                   if self._places[value].base == "activations"))

    def passing(self, group: Group) -> tuple[str, int] | None:
        """The value that the first layer of a group writes whole and the second alone reads, and
        the bytes of one of its rows; None where there is none.
        """
        if len(group) < 2:
            return None
        first, second = (part.layer for part in group)
        value = first.written
        users = [layer for layer in self.layers.values() if value in (
            self.storage[layer.written], *map(self.storage.__getitem__, layer.inputs.values()))]
        x = self.forms.stored(value) if value in self.forms.values else None
        if (self.storage[value] != value or users != [first, second] or value not in self.lives
                or self._places[value].base != "activations" or not isinstance(x, Activation)
                or self.storage[second.written] == value):
            return None
        images, rows, *_ = x.stored_shape(self.blocks)
        return value, self.sizes[value] // (images * rows)

    def _fits(self, stored: str, whole: "MemoryMap") -> bool:
        """True if a value may lie where the whole segment has its own."""
        if stored not in whole.lives or self.sizes[stored] > whole.sizes[stored]:
            return False
        (begin, end), (first, last) = self.lives[stored], whole.lives[stored]
        return first <= begin and end <= last
