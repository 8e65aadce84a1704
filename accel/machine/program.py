"""Programs: what the compiler hands to a device.

A program is a static stream of instruction words, the bytes that its constant segments start
with, and the named tensors through which a host talks to it. It carries the hash of the machine
that it was compiled for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accel.machine import isa
from accel.machine.config import WEIGHT_BITS
from accel.machine.dram import ALIGNMENT
from accel.machine.machine import Machine, MachineRecord
from accel.machine.origins import UNKNOWN, Origin, Origins
from accel.machine.structure import FETCH, SHIPPED_STRUCTURE, Structure, UnitKind
from compiler.errors import Error
from compiler.lazy import cached_property
from compiler.te import numpy_dtype


class ProgramError(Error, ValueError):
    """A program that does not fit the machine it is given to."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A decoded instruction: its name, its unit and the fields of its word, by name.

    `origin` says where it comes from, `structure` what the codes in it stand for; they are not part
    of the word.
    """

    name: str
    unit: str
    fields: Mapping[str, Any]
    origin: Origin = UNKNOWN
    structure: Structure = field(default=SHIPPED_STRUCTURE, repr=False, compare=False)

    def encode(self, machine: Machine) -> int:
        return isa.encode(machine.layouts[self.name],
                          {**self.fields, "opcode": machine.opcodes[self.name]})

    @classmethod
    def decode(cls, machine: Machine, word: int, origin: Origin = UNKNOWN) -> "Instruction":
        """Decode a word. An unknown opcode gives name and unit ``illegal``."""
        opcode = word & 0xFF
        if opcode not in machine.names:
            return cls("illegal", "illegal", isa.decode(isa.HEADER, word), origin,
                       machine.structure)
        name = machine.names[opcode]
        fields = isa.decode(machine.layouts[name], word)
        return cls(name, machine.units[opcode], fields, origin, machine.structure)

    @property
    def label(self) -> str:
        """The origin as text, layer and loops, for reports and messages."""
        return str(self.origin)

    @property
    def waits(self) -> tuple[str, ...]:
        return isa.units_of(self.fields.get("waits", 0), self.structure.names)

    @property
    def signals(self) -> tuple[str, ...]:
        return isa.units_of(self.fields.get("signals", 0), self.structure.names)


@dataclass(frozen=True)
class Stream:
    """Instruction words in their order, uint8 of shape (count, 64), and where they come from."""

    words: np.ndarray
    origins: Origins = field(default_factory=Origins)

    @classmethod
    def of(cls, machine: Machine, instructions: Iterable[Instruction]) -> "Stream":
        """Encode instructions."""
        known = list(instructions)
        raw = b"".join(i.encode(machine).to_bytes(isa.WORD_BYTES, "little") for i in known)
        return cls(np.frombuffer(bytearray(raw), np.uint8).reshape(-1, isa.WORD_BYTES),
                   Origins.of(i.origin for i in known))

    @classmethod
    def joined(cls, parts: Sequence["Stream"]) -> "Stream":
        """The streams one after the other."""
        words = [part.words for part in parts]
        return cls(np.concatenate(words) if words else np.zeros((0, isa.WORD_BYTES), np.uint8),
                   Origins.joined([part.origins for part in parts]))

    def __len__(self) -> int:
        return len(self.words)

    def take(self, order: np.ndarray) -> "Stream":
        """The instructions with these numbers, in this order."""
        return Stream(self.words[order], self.origins.take(order))


def finish(waits: int = 0) -> Instruction:
    return Instruction("finish", FETCH, {"waits": waits})


@dataclass(frozen=True, slots=True)
class TensorSlot:
    """A named tensor of a program.

    Parameters
    ----------
    base : base register (of `isa.BASES`) and `offset`: where its bytes start in that segment.
    shape, dtype : of the stored array, little-endian in row-major order; records count as types.
    layout : what the dimensions mean, say ``NHWC`` or ``N/b H W b C`` (docs/machine.md, Layouts).
    logical : shape of the tensor that the network knows; ``()`` when it is `shape`.
    """

    name: str
    base: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    layout: str = ""
    logical: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        return int(np.prod(self.shape)) * self.numpy_dtype.itemsize

    @property
    def numpy_dtype(self) -> np.dtype:
        return numpy_dtype(self.dtype).newbyteorder("<")


@dataclass(frozen=True)
class AccelProgram:
    """A program for one machine; the module's docstring describes it.

    Parameters
    ----------
    words : instruction words as uint8 of shape (count, 64), little-endian.
    weights : initial bytes of the weights segment (weights and parameters).
    activations_bytes, io_bytes : sizes of the two segments that the program writes; the first has
        at least the bytes of the machine's shared scratchpad, which hold its first bytes.
    program_bytes : room for words, of longer streams too; 0 for no more than its own.
    inputs, outputs : tensors of the io segment.
    origins : where each instruction comes from; empty where that is unknown.
    layers : pairs (name, index one past its last instruction).
    machine : the record behind its hash, where known; another machine is refused with its help.
    """

    machine_hash: str
    words: np.ndarray
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    activations_bytes: int = 0
    io_bytes: int = 0
    inputs: tuple[TensorSlot, ...] = ()
    outputs: tuple[TensorSlot, ...] = ()
    origins: Origins = field(default_factory=Origins)
    layers: tuple[tuple[str, int], ...] = ()
    machine: MachineRecord | None = None
    program_bytes: int = 0

    @classmethod
    def assemble(cls, machine: Machine, instructions: "Stream | Iterable[Instruction]",
                 **parts) -> "AccelProgram":
        """Build a program of a stream, or of instructions; `parts` are the other fields."""
        stream = (instructions if isinstance(instructions, Stream)
                  else Stream.of(machine, instructions))
        parts.setdefault("origins", stream.origins)
        parts["activations_bytes"] = max(parts.get("activations_bytes", 0),
                                         machine.config.shared_bytes)
        return cls(machine.hash, stream.words, **parts, machine=machine.record)

    @property
    def count(self) -> int:
        return len(self.words)

    def origin(self, index: int) -> Origin:
        """The origin of an instruction: layer, statement and loops."""
        return self.origins.origin(index)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Layer and loops of each instruction, for reports and messages."""
        return tuple(str(self.origin(index)) for index in range(self.count))

    @cached_property
    def segment_sizes(self) -> dict[str, int]:
        return {"program": max(self.words.size, self.program_bytes), "weights": self.weights.size,
                "activations": self.activations_bytes, "io": self.io_bytes}

    @cached_property
    def bases(self) -> dict[str, int]:
        """The start of each segment in a memory image that holds this program alone."""
        addresses, top = {}, 0
        for name in isa.BASES:
            addresses[name] = top
            top += -(-self.segment_sizes[name] // ALIGNMENT) * ALIGNMENT
        return addresses

    def shared_bytes(self, machine: Machine) -> slice:
        """The bytes of the memory image that lie in the machine's shared scratchpad: those of the
        memory behind the core are as they were, whatever a run writes."""
        begin = self.bases["activations"]
        return slice(begin, begin + machine.config.shared_bytes)

    @property
    def memory_bytes(self) -> int:
        """Size of the whole memory image."""
        last, bus = isa.BASES[-1], self.machine.geometry.get("bus_bytes", 1) if self.machine else 1
        grain = max(ALIGNMENT, bus)         # the last beat is not beyond it
        return -(-(self.bases[last] + self.segment_sizes[last]) // grain) * grain

    def image(self, inputs: Mapping[str, np.ndarray] | None = None) -> np.ndarray:
        """The memory image before the start: program, weights, and the given inputs (uint8).

        Refuses an array that is not of the shape and type of its slot.
        """
        memory = np.zeros(self.memory_bytes, np.uint8)
        for name, data in (("program", self.words.reshape(-1)), ("weights", self.weights)):
            memory[self.bases[name]:self.bases[name] + data.size] = data
        for name, array in (inputs or {}).items():
            slot = self.slot(name)
            if array.shape != slot.shape or array.dtype != numpy_dtype(slot.dtype):
                raise ProgramError(f"Input {name} must be {slot.dtype} of shape {slot.shape}, not "
                                   f"{array.dtype} of shape {array.shape}")
            raw = np.ascontiguousarray(array, slot.numpy_dtype)
            start = self.bases[slot.base] + slot.offset
            memory[start:start + slot.size_bytes] = raw.reshape(-1).view(np.uint8)
        return memory

    def extract(self, memory: np.ndarray, name: str) -> np.ndarray:
        """Read a named tensor from a memory image."""
        slot = self.slot(name)
        start = self.bases[slot.base] + slot.offset
        raw = memory[start:start + slot.size_bytes].copy()
        return raw.view(slot.numpy_dtype).reshape(slot.shape)

    def slot(self, name: str) -> TensorSlot:
        for slot in (*self.inputs, *self.outputs):
            if slot.name == name:
                return slot
        raise ProgramError(f"Tensor must be one of "
                           f"{', '.join(s.name for s in (*self.inputs, *self.outputs))}, "
                           f"not {name!r}")

    def require(self, machine: Machine) -> None:
        """Refuse a machine other than the one this program was compiled for. The message names the
        fields that differ, where the record of that machine is known.
        """
        if self.machine_hash != machine.hash:
            known = self.machine
            raise ProgramError(f"Program was compiled for machine "
                               f"{known or self.machine_hash[:12]}, not {machine.record}"
                               + (f": {known.difference(machine.record)}" if known else "")
                               + "; compile it again")
        if self.activations_bytes < machine.config.shared_bytes:
            raise ProgramError(f"activations_bytes must be at least the shared_bytes of "
                               f"{machine.config.name}, {machine.config.shared_bytes}, not "
                               f"{self.activations_bytes}")

    def instruction(self, machine: Machine, index: int) -> Instruction:
        """One decoded instruction."""
        word = int.from_bytes(self.words[index].tobytes(), "little")
        return Instruction.decode(machine, word, self.origin(index))

    def instructions(self, machine: Machine) -> list[Instruction]:
        """The decoded stream."""
        return [self.instruction(machine, index) for index in range(self.count)]


def disassemble(instruction: Instruction) -> str:
    """Print an instruction on one line: name, tokens, addresses, other fields that are not 0, and
    loops with their strides. An encoded and decoded instruction prints as the original does.
    """
    fields = instruction.fields
    parts = [instruction.name]
    if instruction.unit == "illegal":
        parts.append(f"opcode={fields['opcode']}")
    for text, units in (("wait", instruction.waits), ("signal", instruction.signals)):
        if units:
            parts.append(f"{text}={','.join(units)}")
    kind = instruction.structure.kind(instruction.unit)
    known, codes = _ABSENT.get(kind or instruction.unit, {}), codes_of(
        instruction.structure, instruction.unit)
    parts += [_field_text(key, fields.get(key, absent), codes) for key, absent in known.items()]
    parts += [_field_text(key, fields[key], codes)
              for key in sorted(fields.keys() - known.keys() - _SAID)]
    parts += [_loop_text(loop) for loop in fields.get("loops", ())]
    return " ".join(filter(None, parts))


_SAID = {"opcode", "waits", "signals", "loops", "reserved", "rest"}
_ABSENT = {unit: {key: value for key, value in isa.decode(layout, 0).items()
                  if key not in _SAID}
           for unit, layout in (isa.LAYOUTS | {
               FETCH: isa.CONTROL, UnitKind.LOAD: isa.FULL_DMA,
               UnitKind.VECTOR: isa.THREE}).items()}


def codes_of(structure: Structure, unit: str) -> dict[str, tuple[str, ...]]:
    """The meanings of the numbers of fields that are codes, by field, in words of a unit."""
    codes = {"buffer": structure.buffer_names, "base": isa.BASES}
    if structure.kind(unit) in (UnitKind.VECTOR, UnitKind.STREAM):
        codes |= isa.selectors(structure.unit(unit))
    return codes | {"bits": tuple(map(str, WEIGHT_BITS))}


CODES = codes_of(SHIPPED_STRUCTURE, SHIPPED_STRUCTURE.roles.vector)
"""The codes in words of shipped machines."""


def _field_text(key: str, value, codes: Mapping[str, tuple[str, ...]]) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{operand}={value.get(operand, 0)}" for operand in ("dst", "a", "b"))
    if key in codes and (value or key != "bits"):       # 8 are not said
        return f"{key}={codes[key][value] if value < len(codes[key]) else value}"
    return f"{key}={value}" if value or key in ("dram", "address", "run") else ""


def _loop_text(loop: Mapping[str, int]) -> str:
    pads = loop.get("before", 0), loop.get("after", 0)
    if loop.get("extent", 1) == 1 and not any(pads):
        return ""
    steps = [f"{key}{loop[key]:+d}" for key in ("dst", "a", "b", "dram", "buffer") if loop.get(key)]
    pad = [f"pad={pads[0]},{pads[1]}"] if any(pads) else []
    return f"[{' '.join([str(loop.get('extent', 1)) + 'x', *steps, *pad])}]"
