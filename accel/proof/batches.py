"""Accesses of the instructions of a whole stream: `touches` of every word, by native code, in
batches for `compiler.latency_hiding`.

`touches` decides what memories the operands of an instruction lie in. That follows from opcode and
selectors, so a machine has a table of it, and `touched.cpp` has but to follow addresses. What it
leaves over, instructions that `touches` must see whole, Python does.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from accel.machine import isa
from accel.machine.config import WEIGHT_BITS
from accel.machine.intrinsics import operand_field
from accel.machine.layouts import layouts_header, weight_codes
from accel.machine.machine import Machine
from accel.machine.program import Instruction, disassemble
from accel.machine.origins import Origins
from accel.machine.structure import SHIPPED_STRUCTURE, Structure, UnitKind
from accel.proof.access import CONSTANT, WRITABLE, Fault, Touch, event, require_ranges, touches
from compiler.errors import DEFECT, Error
from compiler.latency_hiding import LOOPS, SETS, Batch, Event, Measures, Violation, measure
from compiler.latency_hiding.arrays import HEADERS, sets_of
from compiler.lazy import cached_property
from compiler.native import library_of

def memories_of(structure: Structure) -> tuple[str, ...]:
    """The memories of a stream, by number."""
    return (*structure.buffer_names, *isa.BASES)


MEMORIES = memories_of(SHIPPED_STRUCTURE)
"""Those of streams for shipped machines."""

SIZE = 4096
"""Instructions of a batch."""

_MOST_OPERANDS, _MOST_LOOPS, _SELECTORS = 8, 6, 256


class IllegalProgram(Error, ValueError):
    """A program that could fail, hang or depend on timing; names the instructions.

    `violations` are the broken rules of the order of instructions, the first of them; the message
    explains the first few. `layers` are those of the instructions at fault, by name.
    """

    exit_status = DEFECT

    def __init__(self, message: object, violations: Sequence[Violation] = (),
                 layers: Sequence[str] = ()):
        super().__init__(str(message))
        self.violations = tuple(violations)
        self.layers = tuple(layers)


class Batches:
    """The events of instruction words, none of them FINISH, in batches; every iteration over them
    decodes the words again, so that they take no memory.

    Parameters
    ----------
    words : uint8 of shape (count, 64).
    segments : bytes of each segment; those of one that is not named are not known yet.

    Raises `IllegalProgram`, when it comes to it, for an instruction whose operands are not
    allowed or not in range.
    """

    def __init__(self, machine: Machine, words: np.ndarray, origins: Origins,
                 segments: Mapping[str, int]):
        self.machine, self.words, self.origins = machine, words, origins
        self.segments, self.memories = segments, memories_of(machine.structure)

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self.words), SIZE):
            yield self._batch(start)

    @cached_property
    def measures(self) -> Measures:
        return measure(self, len(self.memories))

    @property
    def units(self) -> np.ndarray:
        """The number of each instruction's unit (uint8)."""
        return _tables(self.machine).unit_of[self.words[:, 0]]

    def instruction(self, index: int) -> Instruction:
        return Instruction.decode(self.machine, int.from_bytes(self.words[index].tobytes(),
                                                               "little"),
                                  self.origins.origin(index))

    def event(self, index: int) -> Event:
        """The event of one instruction."""
        return _event(self.machine, index, self.instruction(index), self.segments)

    def _batch(self, start: int) -> Batch:
        words = np.concatenate((self.words[start:start + SIZE].reshape(-1), np.zeros(8, np.uint8)))
        count = len(words) // isa.WORD_BYTES
        unit, first = np.zeros(count, np.uint8), np.zeros(count, np.int64)
        counts, odd = np.zeros(count, np.int32), np.zeros(count, np.int64)
        sets = np.empty((_MOST_OPERANDS + 1) * count, SETS)
        loops = np.empty(_MOST_LOOPS * len(sets), LOOPS)
        limits = np.array([self.segments.get(base, 1 << 31) for base in isa.BASES], np.int64)
        found = _Found(*(array.ctypes.data for array in (unit, first, counts, sets, loops, odd)))
        _library().touched(ctypes.byref(_tables(self.machine).native), words.ctypes.data, count,
                           limits.ctypes.data, ctypes.byref(found))
        taken, nested, left = found.counts
        sets, loops = sets[:taken], loops[:nested]
        if left:
            more = [self._sets(start + number) for number in odd[:left].tolist()]
            counts[odd[:left]] = [len(one) for one in more]
            first[odd[:left]] = taken + np.cumsum([0, *map(len, more[:-1])])
            sets = np.concatenate((sets, *more))
        return Batch(unit, first, counts, sets, loops)

    def _sets(self, index: int) -> np.ndarray:
        return np.concatenate([np.zeros(0, SETS), *(
            sets_of(access, self.memories.index(access.memory))
            for access in self.event(index).accesses)])


def _event(machine: Machine, index: int, instruction: Instruction,
           segments: Mapping[str, int]) -> Event:
    """The event of an instruction; raises `IllegalProgram` if every execution of it fails."""
    try:
        touched = touches(machine, instruction)
        require_ranges(machine, instruction, touched)
    except Fault as fault:
        raise IllegalProgram(f"{named(index, instruction)}: {fault}",
                             layers=[instruction.origin.site.layer]) from None
    for touch in touched:
        if touch.memory in isa.BASES and touch.walk.count:
            _require_segment(index, instruction, touch, segments.get(touch.memory))
    return event(machine, instruction, touched)


def _require_segment(index: int, instruction: Instruction, touch: Touch,
                     size: int | None) -> None:
    last = touch.walk.bounds[1] + touch.width - 1
    limit = touch.walk.modulus >> 1 if size is None else size
    if last >= limit:
        raise IllegalProgram(f"{named(index, instruction)}: {touch.operand} reaches byte "
                             f"{last} of {touch.memory}, which has {limit}",
                             layers=[instruction.origin.site.layer])
    if touch.write and touch.memory not in WRITABLE:
        raise IllegalProgram(f"{named(index, instruction)}: dst must be in "
                             f"{' or '.join(WRITABLE)}, not {touch.memory}",
                             layers=[instruction.origin.site.layer])


def named(index: int, instruction: Instruction) -> str:
    """An instruction for messages: its place, where it comes from, and itself."""
    label = f" ({instruction.label})" if instruction.label else ""
    return f"Instruction {index}{label} `{disassemble(instruction)}`"


# ---- as in touched.cpp -------------------------------------------------------------------------

_ODD, _COPY, _PRODUCT, _VECTOR = range(4)
_KINDS = {UnitKind.LOAD: _COPY, UnitKind.STORE: _COPY, UnitKind.GEMM: _PRODUCT,
          UnitKind.VECTOR: _VECTOR}
_FIELDS = ("dst", "a", "b", "c")


class _Operand(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_int32) for name in ("field", "memory", "write", "segment",
                                                      "constant", "banked")),
                *((name, ctypes.c_int64) for name in ("scale", "width", "limit"))]


class _Form(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_int32) for name in ("kind", "operands", "reads_destination",
                                                      "unit")),
                ("operand", _Operand * _MOST_OPERANDS)]


class _Machine(ctypes.Structure):
    _fields_ = [("forms", ctypes.POINTER(_Form)), ("form", ctypes.c_void_p),
                ("bank_depth", ctypes.c_int64), ("packs", ctypes.c_int32),
                *((name, ctypes.c_int32) for name in ("loader", "code_offset", "code_width"))]


class _Found(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_void_p) for name in ("unit", "first", "count", "sets", "loops",
                                                       "odd")), ("counts", ctypes.c_int64 * 3)]


class _Tables:
    """Tables of `touches` for each opcode of a machine and its selectors."""

    def __init__(self, machine: Machine):
        self.machine = machine
        forms = [_Form(_ODD, -1)]
        self.form_of = np.zeros(256 * _SELECTORS, np.int32)
        self.unit_of = np.zeros(256, np.uint8)
        self._units, self._memories = machine.structure.names, memories_of(machine.structure)
        for opcode, unit in machine.units.items():
            if unit not in self._units:
                continue
            self.unit_of[opcode] = self._units.index(unit)
            if machine.structure.kind(unit) is UnitKind.STREAM:     # `touches` sees them whole
                self.form_of[opcode * _SELECTORS] = len(forms)
                forms.append(_Form(_ODD, -1, 0, self._units.index(unit)))
                continue
            for number, selectors in _selected(machine, unit):
                self.form_of[opcode * _SELECTORS + number] = len(forms)
                forms.append(self._form(Instruction(machine.names[opcode], unit, selectors)))
        self.forms = (_Form * len(forms))(*forms)
        code = machine.formats[machine.structure.roles.load]["buffer"]
        self.native = _Machine(self.forms, self.form_of.ctypes.data, machine.config.bank_depth,
                               weight_codes(machine.config) > 0,
                               self._units.index(machine.structure.roles.load),
                               code.offset, code.width)

    def _form(self, instruction: Instruction) -> _Form:
        """`operands` is −1 where the selectors are not allowed."""
        unit = instruction.unit
        kind = _KINDS[self.machine.structure.unit(unit).kind]
        reads = (kind != _COPY
                 and self.machine.intrinsic(instruction.name).reads_destination)
        form = _Form(kind, -1, reads, self._units.index(unit))
        try:
            touched = touches(self.machine, instruction)
        except Fault:
            return form
        operands = {bytes(one): one for one in (          # fields of a record are one operand
            self._operand(instruction, kind, touch) for touch in touched)}
        form.operands = len(operands)
        form.operand[:len(operands)] = list(operands.values())
        return form

    def _operand(self, instruction: Instruction, kind: int, touch: Touch) -> _Operand:
        outside = touch.memory in isa.BASES
        if kind == _COPY:
            field = 0 if outside else 1
        elif touch.operand == "dst":
            field = 0
        else:
            field = _FIELDS.index(operand_field(self.machine.intrinsic(instruction.name),
                                                touch.operand))
        limit, banked = 0, False
        if not outside:
            banked = self.machine.structure.buffer(touch.memory).banks == 2
            buffer = self.machine.config.buffers[touch.memory]
            limit = buffer.depth if banked else buffer.size_bytes
        return _Operand(field, self._memories.index(touch.memory), touch.write,
                        isa.BASES.index(touch.memory) if outside else -1,
                        touch.memory in CONSTANT, banked, touch.scale,
                        touch.width, limit)


def _selected(machine: Machine, unit: str) -> Iterator[tuple[int, dict[str, int]]]:
    """All values of the fields that choose memories, and their number."""
    kind = machine.structure.unit(unit).kind
    if kind is UnitKind.GEMM:
        yield 0, {}
    elif kind is UnitKind.VECTOR:
        for number in range(16):
            yield number, {"a_source": number & 1, "b_source": number >> 1 & 3,
                           "destination": number >> 3}
    else:
        codes = len(WEIGHT_BITS) if kind is UnitKind.LOAD and weight_codes(machine.config) else 1
        for number in range(codes << 6):
            yield number, {"buffer": number & 15, "base": number >> 4 & 3, "bits": number >> 6}


_tables = cache(_Tables)
_SOURCE = Path(__file__).parent / "touched.cpp"
_FLAGS = ("-O3", "-march=native", "-Wall", "-Wextra")


@cache
def _library() -> ctypes.CDLL:
    """The native library, one for all machines."""
    texts = {_SOURCE.name: _SOURCE.read_text(), "layouts.h": layouts_header(),
             **{path.name: path.read_text() for path in HEADERS}}
    found = library_of("touched", "what instructions touch", texts, _FLAGS, "a few seconds")
    found.touched.restype = None
    found.touched.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p,
                              ctypes.c_void_p)
    return found
