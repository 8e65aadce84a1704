"""A scheduled loop program as a program of the machine, say to try an instruction of your own."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, ProgramError, TensorSlot
from accel.mapping.lowering import TensorPlacement, lower
from accel.mapping.memory.layout import stored_bytes
from accel.mapping.memory_map import ALIGNMENT
from accel.mapping.programs import ended
from accel.proof.legal import prove
from compiler.ir import Program
from compiler.te import Buffer, numpy_dtype


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
    program = ended(machine, [stream], weights=data, io_bytes=io.top, inputs=inputs,
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
