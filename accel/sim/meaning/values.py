"""Values at the speed of native code, for the simulators that add time to them.

The meaning of a program is what `accel.sim.meaning.functional` says; this computes the same
(`values.cpp`), many times faster. It executes plain, legal programs, and leaves two things to
others:

- a body that has no straight-line code (`accel.sim.meaning.steps`), or that is a component's
  meaning, is performed by `accel.sim.meaning.units`, instruction by instruction, in the midst of
  the others;
- where a program does anything that a legal one does not (an illegal opcode, an address that
  leaves its buffer or wraps, a wait that meets an empty counter), all of it is left to
  `functional`, which knows how such programs end.
"""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from amaranth import Shape
from amaranth.lib import data

from accel.machine import isa
from accel.machine.immediates import fields_in
from accel.machine.intrinsics import operand_field
from accel.machine.layouts import layouts_header, weight_codes
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction
from accel.machine.status import Run, Status
from accel.machine.streams import StreamForm
from accel.machine.structure import FETCH, MOST_BUFFERS, MOST_UNITS
from accel.proof.access import Fault, Touch, require_ranges, touches
from compiler.native import library_of
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import bits, is_signed, numpy_dtype, record_places
from compiler.tensorize import UPDATES, Intrinsic

from . import functional
from .steps import CODES, BodyStep, Foreign, straighten
from .units import Buffers, block_product, perform

FLAGS = ("-O3", "-march=native")

_SOURCE = Path(__file__).with_suffix(".cpp")
_DONE, _, _ODD = range(3)
_PRODUCT, _BODY, _FOREIGN, _REFUSED = range(4)
_BASES = ("dst", "a", "b", "c")
_UNITS = MOST_UNITS                   # for which there is room
_SELECTORS = [{"a_source": code & 1, "b_source": code >> 1 & 3, "destination": code >> 3}
              for code in range(16)]


def simulate(machine: Machine, program: AccelProgram, memory: np.ndarray | None = None, *,
             inputs: Mapping[str, np.ndarray] | None = None) -> Run:
    """Execute a program that was compiled for `machine`: as `functional.simulate` does."""
    program.require(machine)
    image = program.image(inputs) if memory is None else np.array(memory, np.uint8)
    shared = program.shared_bytes(machine)
    before = image[shared].copy()
    run = _Execution(machine, program, image).run()
    if run:
        run.memory[shared] = before
    return run or functional.simulate(machine, program, memory, inputs=inputs)


# ---- as in values.cpp --------------------------------------------------------------------------

class _Step(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_int32) for name in ("code", "bits", "is_signed", "a", "b", "c")),
                ("value", ctypes.c_int64)]


class _Operand(ctypes.Structure):
    _fields_ = [("buffer", ctypes.c_int32), ("base", ctypes.c_int32),
                ("lanes", ctypes.POINTER(ctypes.c_int32))]


class _Kernel(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_int32) for name in ("form", "buffer", "update", "loops", "steps",
                                                      "uniform", "operands")),
                ("step", ctypes.POINTER(_Step)), ("operand", ctypes.POINTER(_Operand))]


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_int64), ("entry", ctypes.c_int64),
                ("bits", ctypes.c_int64)]


class _Machine(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_int32) for name in ("batch", "block_in", "block_out", "banked",
                                                      "storing", "packed", "weight_codes",
                                                      "pads_high", "tokens", "code_offset",
                                                      "code_width")),
                ("unit", ctypes.c_int32 * 256), ("dma", ctypes.c_int32 * _UNITS),
                ("kernel", ctypes.POINTER(_Kernel) * (256 * len(_SELECTORS))),
                ("buffer", _Buffer * MOST_BUFFERS)]


class _Program(ctypes.Structure):
    _fields_ = [("words", ctypes.c_void_p), ("count", ctypes.c_int64),
                ("memory", ctypes.c_void_p), ("size", ctypes.c_int64),
                ("base", ctypes.c_int64 * len(isa.BASES)), ("position", ctypes.c_int64),
                ("counters", ctypes.c_int32 * _UNITS ** 2)]


@cache
def _library() -> ctypes.CDLL:
    """The native library, one for all machines."""
    sources = {_SOURCE.name: _SOURCE.read_text(), "layouts.h": layouts_header()}
    return library_of("values", "the simulator's values", sources, FLAGS)


# ---- tables of a machine -----------------------------------------------------------------------

@cache
def _tables(machine: Machine) -> _Machine:
    """All fields of `_Machine` except where the buffers are."""
    config, structure = machine.config, machine.structure
    roles, units, codes = structure.roles, structure.names, structure.buffer_names.index
    field = machine.formats[roles.load]["buffer"]
    tables = _Machine(config.batch, config.block_in, config.block_out, codes(roles.acc),
                      units.index(roles.store), codes(roles.wgt), weight_codes(config),
                      machine.pads_high, config.timing.tokens, field.offset, field.width)
    numbers = dict(zip(units, range(_UNITS))) | {FETCH: _UNITS}
    for opcode in range(256):
        tables.unit[opcode] = numbers[machine.units[opcode]] if opcode in machine.units else -1
    for unit, buffers in structure.moved.items():
        tables.dma[numbers[unit]] = sum(1 << codes(buffer) for buffer in buffers)
    for name, opcode in machine.opcodes.items():
        if machine.units[opcode] not in (*structure.moved, FETCH):
            for code, selectors in enumerate(_SELECTORS):
                kernel = _kernel(machine, Instruction(name, machine.units[opcode], selectors))
                tables.kernel[opcode * len(_SELECTORS) + code] = ctypes.pointer(kernel)
    return tables


def _kernel(machine: Machine, instruction: Instruction) -> _Kernel:
    intrinsic = machine.intrinsic(instruction.name)
    if isinstance(intrinsic, StreamForm):
        return _Kernel(form=_FOREIGN)
    try:
        touched = {touch.operand: touch for touch in touches(machine, instruction)}
    except Fault:
        return _Kernel(form=_REFUSED)
    if factors := block_product(intrinsic):
        return _described(machine, intrinsic, touched, _PRODUCT, [
            _operand(machine, intrinsic, touched[name]) for name in factors])
    try:
        steps, operands = _body(machine, intrinsic, touched)
    except Foreign:
        return _Kernel(form=_FOREIGN)
    return _described(machine, intrinsic, touched, _BODY, operands, steps)


def _described(machine: Machine, intrinsic: Intrinsic, touched: Mapping[str, Touch], form: int,
               operands: list[_Operand], steps: Sequence[BodyStep] = ()) -> _Kernel:
    code = [_Step(CODES.index(step.code), bits(step.dtype), is_signed(step.dtype),
                  *(*step.args, 0, 0, 0)[:3], step.value) for step in steps]
    return _Kernel(form, _code(machine, touched["dst"]), UPDATES.index(intrinsic.update),
                   intrinsic.loops, len(code), sum(step.uniform for step in steps), len(operands),
                   (_Step * len(code))(*code), (_Operand * len(operands))(*operands))


def _body(machine: Machine, intrinsic: Intrinsic,
          touched: Mapping[str, Touch]) -> tuple[list[BodyStep], list[_Operand]]:
    tiles = machine.config.tiles
    members = {name: _member(tiles[touch.memory][1],
                             intrinsic.operand(name).stored_as(touch.memory))
               for name, touch in touched.items() if name != "dst"}
    stored = {name: dtype for name, (dtype, _) in members.items()}
    fields = fields_in(machine.layouts[intrinsic.name])
    steps, sources = straighten(intrinsic, stored, tuple(fields))
    steps = [_placed(step, tuple(fields.values())) for step in steps]
    operands = []
    for source in sources:
        touch = touched[source.operand]
        shape, dtype = tiles[touch.memory]
        if not source.lanes:
            operands.append(_operand(machine, intrinsic, touch))
            continue
        # One record serves the whole batch: outer dimensions that an entry lacks do not count.
        lanes = np.ravel_multi_index(source.lanes[len(source.lanes) - len(shape):], shape)
        offsets = lanes * numpy_dtype(dtype).itemsize + members[source.operand][1]
        operands.append(_operand(machine, intrinsic, touch, offsets.tolist()))
    return steps, operands


def _placed(step: BodyStep, fields: Sequence[data.Field]) -> BodyStep:
    """An immediate with the place of its field in the word: its first bit, width and sign."""
    if step.code != "SCALAR":
        return step
    field = fields[step.value]
    return replace(step, args=(field.offset, field.width, Shape.cast(field.shape).signed))


def _member(dtype: str, stored: str) -> tuple[str, int]:
    """The type and the byte offset in its element of what an operand reads: ``param.bias``."""
    record, _, field = stored.partition(".")
    return record_places(record)[field] if field else (dtype, 0)


def _code(machine: Machine, touch: Touch) -> int:
    return machine.structure.buffer_names.index(touch.memory)


def _operand(machine: Machine, intrinsic: Intrinsic, touch: Touch,
             lanes: Sequence[int] = ()) -> _Operand:
    return _Operand(_code(machine, touch),
                    _BASES.index(operand_field(intrinsic, touch.operand)),
                    (ctypes.c_int32 * len(lanes))(*lanes))


# ---- an execution ------------------------------------------------------------------------------

class _Execution:
    def __init__(self, machine: Machine, program: AccelProgram, memory: np.ndarray):
        self.machine, self.program, self.memory = machine, program, memory
        self.buffers = Buffers(machine.config)
        self.tables = _Machine.from_buffer_copy(_tables(machine))
        for slot, (name, raw) in zip(self.tables.buffer, self.buffers.raw.items()):
            slot.data, slot.size = raw.ctypes.data, raw.size
            slot.entry = machine.config.buffers[name].entry_bytes
            dtype = machine.config.elements[name]
            slot.bits = 0 if dtype == PARAM else bits(dtype) * (-1 if is_signed(dtype) else 1)
        self.words = np.ascontiguousarray(program.words)
        self.state = _Program(self.words.ctypes.data, program.count, memory.ctypes.data,
                              memory.size, tuple(program.bases[name] for name in isa.BASES))

    def run(self) -> Run | None:
        """The run, or None for a program that is not plain."""
        execute = _library().lockstep_values
        while True:
            outcome = execute(ctypes.byref(self.tables), ctypes.byref(self.state))
            position = self.state.position
            if outcome == _DONE:
                return Run(Status.DONE, FETCH, position, self.memory)
            if outcome == _ODD or not self._perform(position):
                return None
            self.state.position = position + 1

    def _perform(self, position: int) -> bool:
        """Performs one instruction by NumPy; returns whether its operands are in range."""
        word = int.from_bytes(self.words[position].tobytes(), "little")
        instruction = Instruction.decode(self.machine, word)
        try:
            touched = touches(self.machine, instruction)
            require_ranges(self.machine, instruction, touched)
        except Fault:
            return False
        perform(self.machine, self.buffers, self.memory, self.program.bases, instruction, touched)
        return True
