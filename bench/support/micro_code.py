"""Micro-operations in the place of our loops: what a machine like VTA loads beside instructions.

An instruction of VTA has two loops around a sequence of micro-operations, each of which names the
entries that one iteration reads and writes. A word of ours has five or six loops: two of them, the
longest, stay loops, and the others are unrolled into a kernel. A buffer keeps kernels, and one that
it does not hold is loaded before its instruction; the one that was used longest ago makes room.
"""

from collections.abc import Iterator

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.structure import UnitKind
from accel.machine.words import column

OPERATION_BYTES = 4
LOOPS = 2
FIELDS = ("extent", "dst", "a", "b")


def loaded_bytes(machine: Machine, program: AccelProgram, capacity: int) -> int:
    """The bytes of micro-operations that a buffer of so many bytes loads for the program."""
    held: dict[bytes, int] = {}
    room, loaded = capacity, 0
    for kernel, size in kernels(machine, program):
        if kernel in held:
            held[kernel] = held.pop(kernel)         # the last that was used
            continue
        loaded += size
        while size > room and held:
            room += held.pop(next(iter(held)))
        if size <= room:
            held[kernel] = size
            room -= size
    return loaded


def kernels(machine: Machine, program: AccelProgram) -> Iterator[tuple[bytes, int]]:
    """What tells apart the kernel of each instruction of gemm and vector, and its bytes."""
    found: dict[int, tuple[bytes, int]] = {}
    for opcode, name in machine.names.items():
        unit = machine.units[opcode]
        kind = next((one.kind for one in machine.structure.units if one.name == unit), None)
        if kind not in (UnitKind.GEMM, UnitKind.VECTOR):
            continue
        places = np.flatnonzero(program.words[:, 0] == opcode)
        layout, words = machine.layouts[name], program.words[places]
        loops = np.stack([np.stack([column(layout, words, f"loops.{number}.{field}")
                                    for field in FIELDS], axis=1)
                          for number in range(6 if kind is UnitKind.GEMM else 5)], axis=1)
        base = np.stack([column(layout, words, f"base.{field}") for field in FIELDS[1:]], axis=1)
        counts = np.sort(loops[:, :, 0], axis=1)[:, :-LOOPS].prod(axis=1)
        for place, addresses, loop, count in zip(places.tolist(), base, loops, counts.tolist(),
                                                 strict=True):
            found[place] = (addresses.tobytes() + loop.tobytes(), OPERATION_BYTES * count)
    return (found[place] for place in sorted(found))
