"""The cycle simulator: every event of a program in the cycle in which the hardware has it.

A native model (`cycle.cpp`) of the units, queues, tokens, banks and the memory port that mirrors
`accel.hw` part by part and equals it on every cycle: status, counters, the start and the
retirement of every instruction. How long instructions take does not depend on values, so none are
computed in it: memory is what `accel.sim.meaning.values` makes of the program. It skips the cycles
in which nothing can change.

Latencies and depths are those of `accel.machine.timing`, which the hardware reads, too, and those
of the machine's datapaths (`accel.datapath.plan`); the object is the same for all machines of one
timing and one structure, which may have several units of vector. What remains in C++ are the parts'
rules, which are written a second time: that both take the same cycles is tested, with each number
changed (`tests/accel/sim/timed/test_times.py`).
"""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
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
from accel.machine.structure import (FETCH, MOST_BUFFERS, SHIPPED_STRUCTURE, Roles, Structure,
                                     Unit, UnitKind)
from accel.machine.timing import CoreTiming
from compiler.native import library_of
from compiler.tensorize import Intrinsic

from accel.sim.dram import DramTiming, bases, timing
from accel.sim.meaning.values import simulate as simulate_values
from . import made_for

KINDS = (UnitKind.LOAD, UnitKind.STORE, UnitKind.GEMM, UnitKind.VECTOR)
"""The kinds of units that the model has: one of each, and any number of vector."""

SHIPPED = SHIPPED_STRUCTURE.shape

MAX_CYCLES = 1 << 40

NO_UNIT = (1 << 32) - 1

_HERE = Path(__file__).parent
_SOURCES = ("cycle.cpp", "cycle_program.h", "cycle_board.h", "cycle_compute.h", "cycle_weights.h",
            "cycle_dma.h", "cycle_fetch.h", "cycle_shared.h", "cycle_port.h", "cycle_memory.h",
            "../dram.h")
_FLAGS = ("-O3", "-march=native", "-fno-semantic-interposition", "-Wall", "-Wextra",
          "-Wno-parentheses", "-Wno-sign-compare")

_SCALARS = ("bus_bits", "queue_depth", "store_depth", "gemm_hazard", "vector_beats", "bank_depth",
            "weight_codes", "kept_beats", "burst_beats", "weight_cycles", "gemm_ahead",
            "sums_stay", "shared_bytes", "block_bytes", "channel_beats", "buffer_place",
            "buffer_bits")
"""Parameters of a machine that are one number; the last two say where words of load and store have
the code of a buffer."""

_BY_CODE = ("size", "depth", "opened", "write", "fold")
"""Those with a number for each buffer, or for each unit that computes, by its code: bytes and
entries; instructions that are open at most, cycles to the last write and to the read of an old
value."""


class _Parameters(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_uint32) for name in _SCALARS),
                *((name, ctypes.c_uint32 * MOST_BUFFERS) for name in _BY_CODE)]


class _Opcode(ctypes.Structure):
    """The unit, and of a vector operation which selectors its operands take (masks; 0: it does not
    have the operand), which address its parameters and its table have (0: it reads none), whether
    its update accumulates, and the codes of its unit's buffers. `b` of gemm: whether it reads wgt.
    """

    _fields_ = [(name, ctypes.c_uint32)
                for name in ("unit", "a", "b", "destinations", "record", "table", "folds",
                             "res", "par", "tab", "out")]


class _Config(ctypes.Structure):
    _fields_ = [("parameters", ctypes.POINTER(_Parameters)),
                ("opcodes", ctypes.POINTER(_Opcode)), ("words", ctypes.c_void_p),
                ("memory_bytes", ctypes.c_uint64), ("max_cycles", ctypes.c_uint64),
                ("dram", DramTiming), ("base", ctypes.c_uint32 * len(isa.BASES)),
                ("count", ctypes.c_uint32), ("timeline", ctypes.c_uint32)]


@cache
def _result_type(structure: Structure) -> type[ctypes.Structure]:
    """The record of a run, of so many units."""
    units = len(structure.units)

    return type("_Result", (ctypes.Structure,), {"_fields_": [
        ("cycles", ctypes.c_uint64), ("status", ctypes.c_uint32), ("unit", ctypes.c_uint32),
        ("index", ctypes.c_uint32), ("waiting", ctypes.c_uint64 * units),
        ("activity", ctypes.c_uint64 * len(structure.activities) * units),
        ("bytes", ctypes.c_uint64 * len(structure.clients)), ("rows", ctypes.c_uint64 * units)]})


def models(machine: Machine) -> bool:
    """True if the native model has the hardware of this process and the machine's units."""
    return made_for.is_of_now() and _has_all(machine.structure)


def _has_all(structure: Structure) -> bool:
    """True if the model has units of all kinds of a structure."""
    return all(unit.kind in KINDS for unit in structure.units)


def simulate(machine: Machine, program: AccelProgram, memory: np.ndarray | None = None, *,
             inputs: Mapping[str, np.ndarray] | None = None, values: bool = True,
             timeline: bool = False, events: np.ndarray | None = None,
             max_cycles: int = MAX_CYCLES, dram: Dram | None = None, **options: Any) -> Run:
    """Execute a program that was compiled for `machine`, with the time that the hardware takes.

    Where the hardware is not that which this simulator was made for (`models`), its slice is
    simulated: then `Run.simulator` is ``slice``.

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
                                 timeline=timeline, events=events, max_cycles=max_cycles,
                                 dram=dram, **options)
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
    library = _library(machine.config.timing, machine.structure.shape)
    words = np.concatenate((program.words.reshape(-1), np.zeros(8, np.uint8)))
    parameters, opcodes = _parameters(machine), _opcodes(machine)
    config = _Config(parameters=ctypes.pointer(parameters), opcodes=opcodes,
                     words=words.ctypes.data, memory_bytes=size,
                     max_cycles=max_cycles,
                     dram=timing(dram, machine.config),
                     base=bases(dram, program),
                     count=program.count, timeline=timeline)
    result = _result_type(machine.structure.shape)()
    accesses = np.zeros((program.count, len(ACCESSES)), np.int64)
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
    if not _has_all(machine.structure):
        raise ConfigError(f"Structure of {machine.config.name} must have units of kinds "
                          f"{', '.join(KINDS)} alone to be simulated by the cycle simulator: it "
                          f"has no other; the RTL has, and its slice (--sim slice)")


def _rows(library: ctypes.CDLL, core: int, unit: int, count: int) -> np.ndarray:
    if not count:
        return np.zeros((0, 3), np.int64)
    address = library.cycle_rows(core, unit)
    shared = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64)),
                                   (count, 3))
    return shared.copy()


def _run(machine: Machine, result: Any, image: np.ndarray, times: np.ndarray,
         accesses: np.ndarray, timeline: Timeline | None) -> Run:
    status, structure = Status(result.status), machine.structure
    activity: dict[str, dict[str, int]] = {
        unit: dict(zip(structure.activities, cycles, strict=True))
        for unit, cycles in zip(structure.names, result.activity, strict=True)}
    waiting = {unit: index - 1 for unit, index in zip(structure.names, result.waiting) if index}
    unit = structure.reporters[result.unit] if status is not Status.WATCHDOG else FETCH
    roles = structure.roles
    moved = dict(zip((FETCH, roles.load, roles.store), result.bytes, strict=True))
    return Run(status, unit, result.index, image, result.cycles, Counters(activity, moved),
               times[0], times[1], waiting if status is Status.DEADLOCK else {}, timeline, accesses,
               simulator="cycle")


@cache
def _parameters(machine: Machine) -> _Parameters:
    """The numbers that differ between machines."""
    config, named = machine.config, dict(machine.formats[machine.structure.roles.store])["buffer"]
    gemm = plan(machine, UnitKind.GEMM)
    array = {} if gemm.array is None else {
        "weight_cycles": gemm.array.load_cycles, "gemm_ahead": gemm.array.ahead,
        "sums_stay": gemm.array.sums_stay}
    result = _Parameters(
        bus_bits=exact_log2(config.bus_bytes), queue_depth=config.queue_depth,
        store_depth=config.timing.write_room(config.bus_bytes),
        gemm_hazard=gemm.hazard_cycles, vector_beats=config.vector_beats,
        bank_depth=config.bank_depth, weight_codes=weight_codes(config),
        kept_beats=config.kept_beats, burst_beats=config.burst_beats,
        shared_bytes=config.shared_bytes, block_bytes=config.block_bytes,
        channel_beats=config.channel_beats, buffer_place=named.offset, buffer_bits=named.width,
        **array)
    for number, buffer in enumerate(config.buffers.values()):
        result.size[number], result.depth[number] = buffer.size_bytes, buffer.depth
    for number, unit in enumerate(machine.structure.units):
        if not unit.kind.moves:
            planned = plan(machine, unit.name)
            result.opened[number] = planned.retire_depth
            result.write[number], result.fold[number] = planned.write_cycles, planned.fold_cycles
    return result


def _mask(names, chosen) -> int:
    return sum(1 << names.index(name) for name in chosen)


@cache
def _opcodes(machine: Machine) -> ctypes.Array:
    """Facts about the bodies, as `Vector._decode` has them."""
    table = (_Opcode * 256)(*(_Opcode(unit=NO_UNIT) for _ in range(256)))
    for opcode, unit in machine.units.items():
        table[opcode].unit = machine.structure.reporters.index(unit)
    for body in machine.of_unit(UnitKind.GEMM):
        table[machine.opcodes[body.name]].b = len(body.operands) > 1
        table[machine.opcodes[body.name]].folds = body.update != "assign"
    for unit in machine.structure.of_kind(UnitKind.VECTOR):
        for body in machine.of_unit(unit.name):
            _describe(machine, unit, body, table[machine.opcodes[body.name]])
    return table


def _describe(machine: Machine, unit: Unit, body: Intrinsic, entry: _Opcode) -> None:
    """Facts about a body of a unit of vector."""
    selectors, code = isa.selectors(unit), machine.structure.buffer_names.index
    scopes = {operand.name: operand.scopes for operand in (*body.operands, body.dst)}
    (par,), (tab,) = unit.at("record"), unit.at("table")
    entry.a = _mask(selectors["a_source"], scopes.get("a", ()))
    entry.b = _mask(selectors["b_source"], scopes.get("b", ()))
    entry.destinations = _mask(selectors["destination"], scopes["dst"])
    entry.record = max((_place(body, name) for name, here in scopes.items()
                        if here == (par,) and name != "b"), default=0)
    entry.table = _place(body, TABLE.name) if TABLE.name in scopes else 0
    entry.folds = body.update != "assign"
    entry.res, entry.out = code(unit.at("a")[1]), code(unit.at("dst")[1])
    entry.par, entry.tab = code(par), code(tab)


def _place(body: Intrinsic, name: str) -> int:
    """The number that the simulator has for an operand's address."""
    return ("dst", "a", "b", "c").index(operand_field(body, name))


@cache
def _library(timing: CoreTiming, structure: Structure = SHIPPED) -> ctypes.CDLL:
    """The native model of machines with these times and units, from the cache or newly built."""
    sources = {Path(name).name: (_HERE / name).read_text() for name in _SOURCES}
    sources |= {"layouts.h": layouts_header(), "names.h": _names_header(timing, structure)}
    library = library_of("cycle", "the cycle simulator", sources, _FLAGS)
    library.cycle_run.restype = ctypes.c_void_p
    library.cycle_run.argtypes = [ctypes.POINTER(_Config), *[ctypes.c_void_p] * 3,
                                  ctypes.c_void_p]
    library.cycle_rows.restype = ctypes.c_void_p
    library.cycle_rows.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.cycle_free.restype = None
    library.cycle_free.argtypes = [ctypes.c_void_p]
    return library


def _names_header(timing: CoreTiming, structure: Structure) -> str:
    """The header of codes, numbers and structures that Python and C++ share: units and buffers by
    their roles, others by their places."""
    known = {getattr(structure.roles, field.name): field.name for field in fields(Roles)}
    roles = structure.renamed({name: known.get(name, f"own{place}") for place, name in enumerate(
        (*structure.names, *structure.buffer_names))})
    names = {"unit": roles.reporters, "activity": roles.activities, "access": ACCESSES,
             "buffer": roles.buffer_names,
             "source_a": isa.SOURCES_A, "source_b": isa.SOURCES_B,
             "destination": isa.DESTINATIONS,
             "status": [status.name.lower() for status in Status]}
    lines = ["#pragma once", "#include <cstdint>", "namespace lockstep {"]
    for kind, members in names.items():
        codes = ", ".join(f"{name} = {code}" for code, name in enumerate(members))
        count = len(roles.units) if kind == "unit" else len(members)
        lines.append(f"namespace {kind} {{ constexpr uint32_t {codes}, count = {count}; }}")
    computing = [code for code, unit in enumerate(roles.units) if not unit.kind.moves]
    tokens = [roles.activities.index(unit) for unit in roles.names]
    masks = ", ".join(f"{name} = {_mask(roles.buffer_names, roles.moved[unit])}"
                      for name, unit in (("loaded", "load"), ("stored", "store")))
    times = ", ".join(f"{name} = {number}" for name, number, _ in timing.rows())
    lines += [f"namespace buffer {{ constexpr uint32_t {masks}; }}",
              f"namespace timing {{ constexpr uint32_t {times}; }}",
              "// Units that compute, the last one first.",
              f"namespace unit {{ constexpr uint32_t computing[] = {_list(computing[::-1])}; }}",
              "namespace activity {", f"constexpr uint32_t tokens[] = {_list(tokens)};",
              "// For the first unit in a mask of those whose tokens are missing.",
              "inline uint32_t token_of(uint32_t units) { return tokens[__builtin_ctz(units)]; }",
              "}", _struct("Parameters", _Parameters), _struct("Opcode", _Opcode), "}"]
    return "\n".join(lines) + "\n"


def _list(numbers: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, numbers))}}}"


def _struct(name: str, structure: type[ctypes.Structure]) -> str:
    """The C++ spelling of a structure of numbers of 32 bits."""
    members = []
    for field, shape, *_ in structure._fields_:
        length = getattr(shape, "_length_", None)
        members.append(field if length is None else f"{field}[{length}]")
    return f"struct {name} {{ uint32_t {', '.join(members)}; }};"
