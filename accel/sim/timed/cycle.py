"""The cycle simulator: every event of a program in the cycle in which the hardware has it.

A native model (`cycle.cpp`) of the units, queues, tokens, banks and the memory port that mirrors
`accel.hw` part by part and equals it on every cycle: status, counters, the start and the
retirement of every instruction. How long instructions take does not depend on values, so none are
computed in it: memory is what `accel.sim.meaning.values` makes of the program. It skips the cycles
in which nothing can change.

Latencies and depths are those of `accel.machine.timing`, which the hardware reads, too, and those
of the machine's datapaths (`accel.datapath.plan`); the object is the same for all machines of one
timing. What remains in C++ are the parts' rules, which are written a second time: that both take
the same cycles is tested, with each number changed (`tests/accel/sim/timed/test_times.py`).
"""

import ctypes
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from amaranth.utils import exact_log2

from accel.datapath.plan import plan
from accel.machine import isa
from accel.machine.config import ConfigError
from accel.machine.dram import Dram
from accel.machine.intrinsics import TABLE, operand_field
from accel.machine.layouts import layouts_header, weight_codes
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import ACCESSES, Counters, Run, Status, Timeline
from accel.machine.structure import FETCH, SHIPPED_STRUCTURE, Kind
from accel.machine.timing import CoreTiming
from compiler.native import library_of
from compiler.tensorize import Intrinsic

from accel.sim.dram import DramTiming, bases, timing
from accel.sim.meaning.values import simulate as simulate_values
from . import made_for

SHIPPED = SHIPPED_STRUCTURE
"""The structure that the model is written for; other names of units and buffers do not matter."""

MAX_CYCLES = 1 << 40

NO_UNIT = (1 << 32) - 1

_HERE = Path(__file__).parent
_SOURCES = ("cycle.cpp", "cycle_program.h", "cycle_board.h", "cycle_compute.h", "cycle_dma.h",
            "../dram.h")
_FLAGS = ("-O3", "-march=native", "-fno-semantic-interposition", "-Wall", "-Wextra",
          "-Wno-parentheses", "-Wno-sign-compare")

_SCALARS = ("bus_bits", "queue_depth", "store_depth", "gemm_depth", "gemm_write", "gemm_hazard",
            "vector_depth", "vector_write", "vector_fold", "vector_beats", "bank_depth",
            "weight_codes", "kept_beats")
"""Parameters of a machine that are one number."""


class _Parameters(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_uint32) for name in _SCALARS),
                ("size", ctypes.c_uint32 * 8), ("depth", ctypes.c_uint32 * 8)]


class _Opcode(ctypes.Structure):
    """The unit, and of a vector operation which selectors its operands take (masks; 0: it does not
    have the operand), which address its parameters and its table have (0: it reads none), whether
    its update accumulates. `b` of gemm: whether it reads wgt."""

    _fields_ = [(name, ctypes.c_uint32)
                for name in ("unit", "a", "b", "destinations", "record", "table", "folds")]


class _Config(ctypes.Structure):
    _fields_ = [("parameters", ctypes.POINTER(_Parameters)),
                ("opcodes", ctypes.POINTER(_Opcode)), ("words", ctypes.c_void_p),
                ("memory_bytes", ctypes.c_uint64), ("max_cycles", ctypes.c_uint64),
                ("dram", DramTiming), ("base", ctypes.c_uint32 * len(isa.BASES)),
                ("count", ctypes.c_uint32), ("timeline", ctypes.c_uint32)]


class _Result(ctypes.Structure):
    _fields_ = [("cycles", ctypes.c_uint64), ("status", ctypes.c_uint32),
                ("unit", ctypes.c_uint32), ("index", ctypes.c_uint32),
                ("waiting", ctypes.c_uint64 * len(SHIPPED.units)),
                ("activity", ctypes.c_uint64 * len(SHIPPED.activities) * len(SHIPPED.units)),
                ("bytes", ctypes.c_uint64 * len(SHIPPED.clients)),
                ("rows", ctypes.c_uint64 * len(SHIPPED.units))]


def models(machine: Machine) -> bool:
    """True if the native model has the hardware of this process and the machine's units."""
    return made_for.is_of_now() and machine.structure.shape == SHIPPED.shape


def simulate(machine: Machine, program: AccelProgram, memory: np.ndarray | None = None, *,
             inputs: Mapping[str, np.ndarray] | None = None, values: bool = True,
             timeline: bool = False, events: np.ndarray | None = None,
             max_cycles: int = MAX_CYCLES, dram: Dram | None = None, **options: Any) -> Run:
    """Execute a program that was compiled for `machine`, with the time that the hardware takes.

    Where the hardware is not that which this simulator was made for (`models`), its slice is
    simulated: then `Run.simulator` is ``slice``, and there is no timeline.

    Parameters
    ----------
    memory : the image before the start (uint8, segments at `program.bases`; it is not changed);
        without it, the program's own with `inputs`.
    values : compute what the program does to memory; without, the run has the image as it was.
    timeline : record what every unit does in each cycle.
    events : `Run.start` and `Run.retire` to be, for who watches them being filled: int64 of shape
        (2, instructions), all −1.
    max_cycles : after these the run ends with status WATCHDOG.
    dram : the memory behind the core, by default the machine's; `options` (``latency=7``) take the
        place of its own.
    """
    if not models(machine):
        return _slice().simulate(machine, program, memory, inputs=inputs, values=values,
                                 events=events, max_cycles=max_cycles, dram=dram, **options)
    return simulate_model(machine, program, memory, inputs=inputs, values=values,
                          timeline=timeline, events=events, max_cycles=max_cycles, dram=dram,
                          **options)


def simulate_model(machine: Machine, program: AccelProgram, memory: np.ndarray | None = None, *,
                   inputs: Mapping[str, np.ndarray] | None = None, values: bool = True,
                   timeline: bool = False, events: np.ndarray | None = None,
                   max_cycles: int = MAX_CYCLES, dram: Dram | None = None, **options: Any) -> Run:
    """`simulate` by the native model, whatever hardware it was made for."""
    program.require(machine)
    image = program.image(inputs) if memory is None else np.array(memory, np.uint8)
    times = np.full((2, program.count), -1, np.int64) if events is None else events
    memory_options = replace(dram or machine.config.memory, **options)
    timed = _timed(machine, program, image, image.size, memory_options, timeline, times,
                   max_cycles)
    if not values:
        return timed
    return replace(timed, memory=simulate_values(machine, program, image).memory)


def measure(machine: Machine, program: AccelProgram) -> Run:
    """The time of a program with the machine's memory; the run has no image."""
    program.require(machine)
    if not models(machine):
        return _slice().measure(machine, program)
    times = np.full((2, program.count), -1, np.int64)
    return _timed(machine, program, np.zeros(0, np.uint8), program.memory_bytes,
                  machine.config.memory, False, times, MAX_CYCLES)


def _slice() -> ModuleType:
    """The module of the slice, which loads the sources of the hardware."""
    from accel.sim.slice import simulator

    return simulator


def _timed(machine: Machine, program: AccelProgram, image: np.ndarray, size: int, dram: Dram,
           timeline: bool, times: np.ndarray, max_cycles: int) -> Run:
    _require_structure(machine)
    library = _library(machine.config.timing)
    words = np.concatenate((program.words.reshape(-1), np.zeros(8, np.uint8)))
    parameters, opcodes = _parameters(machine), _opcodes(machine)
    config = _Config(parameters=ctypes.pointer(parameters), opcodes=opcodes,
                     words=words.ctypes.data, memory_bytes=size,
                     max_cycles=max_cycles,
                     dram=timing(dram, machine.config),
                     base=bases(dram, program),
                     count=program.count, timeline=timeline)
    result, accesses = _Result(), np.zeros((program.count, len(ACCESSES)), np.int64)
    core = library.cycle_run(ctypes.byref(config), times[0].ctypes.data, times[1].ctypes.data,
                             accesses.ctypes.data, ctypes.byref(result))
    try:
        spans = {unit: _rows(library, core, number, result.rows[number])
                 for number, unit in enumerate(machine.structure.names)} if timeline else None
    finally:
        library.cycle_free(core)
    return _run(machine, result, image, times, accesses, None if spans is None else Timeline(
        spans, machine.structure.activities))


def _require_structure(machine: Machine) -> None:
    """Raise `ConfigError` for units and buffers that the model does not have."""
    if machine.structure.shape != SHIPPED.shape:
        raise ConfigError(f"Structure of {machine.config.name} must have the shipped units and "
                          f"buffers, whatever their names, to be simulated by the cycle "
                          f"simulator: it has no other; the RTL has, and its slice (--sim slice)")


def _rows(library: ctypes.CDLL, core: int, unit: int, count: int) -> np.ndarray:
    if not count:
        return np.zeros((0, 3), np.int64)
    address = library.cycle_rows(core, unit)
    shared = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64)),
                                   (count, 3))
    return shared.copy()


def _run(machine: Machine, result: _Result, image: np.ndarray, times: np.ndarray,
         accesses: np.ndarray, timeline: Timeline | None) -> Run:
    status, structure = Status(result.status), machine.structure
    activity: dict[str, dict[str, int]] = {
        unit: dict(zip(structure.activities, cycles, strict=True))
        for unit, cycles in zip(structure.names, result.activity, strict=True)}
    waiting = {unit: index - 1 for unit, index in zip(structure.names, result.waiting) if index}
    unit = structure.reporters[result.unit] if status is not Status.WATCHDOG else FETCH
    moved = dict(zip(structure.clients, result.bytes, strict=True))
    return Run(status, unit, result.index, image, result.cycles, Counters(activity, moved),
               times[0], times[1], waiting if status is Status.DEADLOCK else {}, timeline, accesses,
               simulator="cycle")


@cache
def _parameters(machine: Machine) -> _Parameters:
    """The numbers that differ between machines."""
    config, gemm, vector = machine.config, plan(machine, Kind.GEMM), plan(machine, Kind.VECTOR)
    result = _Parameters(
        bus_bits=exact_log2(config.bus_bytes), queue_depth=config.queue_depth,
        store_depth=config.timing.write_room(config.bus_bytes), gemm_depth=gemm.retire_depth,
        gemm_write=gemm.write_cycles, gemm_hazard=gemm.hazard_cycles,
        vector_depth=vector.retire_depth, vector_write=vector.write_cycles,
        vector_fold=vector.fold_cycles, vector_beats=vector.interval, bank_depth=config.bank_depth,
        weight_codes=weight_codes(config), kept_beats=config.kept_beats)
    for number, buffer in enumerate(config.buffers.values()):
        result.size[number], result.depth[number] = buffer.size_bytes, buffer.depth
    return result


def _mask(names, chosen) -> int:
    return sum(1 << names.index(name) for name in chosen)


@cache
def _opcodes(machine: Machine) -> ctypes.Array:
    """Facts about the bodies, as `Vector._decode` has them."""
    table = (_Opcode * 256)(*(_Opcode(unit=NO_UNIT) for _ in range(256)))
    for opcode, unit in machine.units.items():
        table[opcode].unit = machine.structure.reporters.index(unit)
    selectors = isa.selectors(machine.structure.unit(machine.structure.roles.vector))
    for body in machine.of_unit(Kind.GEMM):
        table[machine.opcodes[body.name]].b = len(body.operands) > 1
        table[machine.opcodes[body.name]].folds = body.update != "assign"
    for body in machine.of_unit(Kind.VECTOR):
        scopes = {operand.name: operand.scopes for operand in (*body.operands, body.dst)}
        entry = table[machine.opcodes[body.name]]
        entry.a = _mask(selectors["a_source"], scopes.get("a", ()))
        entry.b = _mask(selectors["b_source"], scopes.get("b", ()))
        entry.destinations = _mask(selectors["destination"], scopes["dst"])
        entry.record = max((_place(body, name) for name, here in scopes.items()
                            if here == (machine.structure.roles.par,) and name != "b"), default=0)
        entry.table = _place(body, TABLE.name) if TABLE.name in scopes else 0
        entry.folds = body.update != "assign"
    return table


def _place(body: Intrinsic, name: str) -> int:
    """The number that the simulator has for an operand's address."""
    return ("dst", "a", "b", "c").index(operand_field(body, name))


@cache
def _library(timing: CoreTiming) -> ctypes.CDLL:
    """The native model of machines with these times, from the cache or newly built."""
    sources = {Path(name).name: (_HERE / name).read_text() for name in _SOURCES}
    sources |= {"layouts.h": layouts_header(), "names.h": _names_header(timing)}
    library = library_of("cycle", "the cycle simulator", sources, _FLAGS)
    library.cycle_run.restype = ctypes.c_void_p
    library.cycle_run.argtypes = [ctypes.POINTER(_Config), *[ctypes.c_void_p] * 3,
                                  ctypes.POINTER(_Result)]
    library.cycle_rows.restype = ctypes.c_void_p
    library.cycle_rows.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.cycle_free.restype = None
    library.cycle_free.argtypes = [ctypes.c_void_p]
    return library


def _names_header(timing: CoreTiming) -> str:
    """The header of codes, numbers and structures that Python and C++ share."""
    names = {"unit": SHIPPED.reporters, "activity": SHIPPED.activities, "access": ACCESSES,
             "buffer": SHIPPED.buffer_names,
             "source_a": isa.SOURCES_A, "source_b": isa.SOURCES_B,
             "destination": isa.DESTINATIONS,
             "status": [status.name.lower() for status in Status]}
    lines = ["#pragma once", "#include <cstdint>", "namespace lockstep {"]
    for kind, members in names.items():
        codes = ", ".join(f"{name} = {code}" for code, name in enumerate(members))
        count = len(SHIPPED.units) if kind == "unit" else len(members)
        lines.append(f"namespace {kind} {{ constexpr uint32_t {codes}, count = {count}; }}")
    tokens = ", ".join(str(SHIPPED.activities.index(unit)) for unit in SHIPPED.names)
    masks = ", ".join(f"{name} = {_mask(SHIPPED.buffer_names, SHIPPED.moved[unit])}"
                      for name, unit in (("loaded", SHIPPED.roles.load),
                                         ("stored", SHIPPED.roles.store)))
    times = ", ".join(f"{name} = {number}" for name, number, _ in timing.rows())
    lines += [f"namespace buffer {{ constexpr uint32_t {masks}; }}",
              f"namespace timing {{ constexpr uint32_t {times}; }}",
              "namespace activity {", f"constexpr uint32_t tokens[] = {{{tokens}}};",
              "// For the first unit in a mask of those whose tokens are missing.",
              "inline uint32_t token_of(uint32_t units) { return tokens[__builtin_ctz(units)]; }",
              "}", _struct("Parameters", _Parameters), _struct("Opcode", _Opcode), "}"]
    return "\n".join(lines) + "\n"


def _struct(name: str, structure: type[ctypes.Structure]) -> str:
    """The C++ spelling of a structure of numbers of 32 bits."""
    members = []
    for field, shape, *_ in structure._fields_:
        length = getattr(shape, "_length_", None)
        members.append(field if length is None else f"{field}[{length}]")
    return f"struct {name} {{ uint32_t {', '.join(members)}; }};"
