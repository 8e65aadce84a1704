"""The time of a program on the RTL itself, cut down to what time depends on.

How long instructions take hardly ever depends on data, so most of a core only computes: buffers,
multipliers, datapaths. The slice is the rest, bit by bit: what requests, events, counters and the
status depend on (`slicing`). It is made of the netlist that Verilog is made of, so it follows every
edit of the hardware, with no model of any part written a second time.

::

    netlist     Amaranth's, in types of our own
    slicing     the bits that outputs depend on
    graph       these bits as nodes of at most 64 bits;  simplify: fewer of them
    chunks      which nodes run together, and when
    emit        C++;  harness.cpp, run.h: the loop around it, with the memory

Memory is what `accel.sim.meaning.values` makes of the program, as in the cycle simulator. Where
time does depend on loaded values, the slice keeps all that these depend on, and is slower.
"""

import ctypes
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run, Timeline
from accel.machine.structure import FETCH, UnitKind
from compiler.native import compiler, digest, find, note, noted, object_of, processor

from accel.sim.meaning.values import simulate as simulate_values
from accel.sim.rtl.gateware import Patch, gateware_files, patches, texts_of
from accel.sim.rtl.interface import (MAX_CYCLES, RunConfig, lists_header, run_config, run_of,
                                     run_result)
from .chunks import chunks_of
from .emit import emit
from .graph import graph_of
from .netlist import Netlist, netlist_of
from .simplify import simplified
from .slicing import live_bits, readers

_HERE = Path(__file__).parent
KIND = "slice"                  # of entries of the cache
_FLAGS = ("-O1", "-march=native", "-w")      # -O2 takes thrice as long and is no faster
WRITTEN, READ = "wdata__payload", "rdata__payload"
OFFERS = ("request__ready", "wdata__ready", "rdata__valid", READ, "ack__valid", "ack__payload")
"""Inputs of a memory port that show what the memory offers in a cycle."""


@dataclass(frozen=True, slots=True)
class Slice:
    """C++ of a machine's slice, and whether it keeps values, since time depends on them."""

    text: str
    has_values: bool


def simulate(machine: Machine, program: AccelProgram, memory: np.ndarray | None = None, *,
             inputs: Mapping[str, np.ndarray] | None = None, values: bool = True,
             timeline: bool = False, events: np.ndarray | None = None,
             max_cycles: int = MAX_CYCLES, dram: Dram | None = None, **options: Any) -> Run:
    """Execute a program that was compiled for `machine`, with the time that the hardware takes.

    Parameters
    ----------
    memory : the image before the start (uint8, segments at `program.bases`; it is not changed);
        without it, the program's own with `inputs`.
    values : compute what the program does to memory; without, the run has the image as it was.
    timeline : record what every unit does in each cycle.
    events : `Run.start` and `Run.retire` to be, for who watches them being filled: int64 of shape
        (2, instructions), all −1.
    max_cycles : after these the run ends with status WATCHDOG, as it does when nothing moves.
    dram : the memory behind the core, by default the machine's; `options` (``latency=7``) take the
        place of its own.
    """
    program.require(machine)
    image = program.image(inputs) if memory is None else np.array(memory, np.uint8)
    memory_options = replace(dram or machine.config.memory, **options)
    timed = sliced_core(machine).run(program, image, max_cycles, memory_options, events,
                                      timeline)
    if not values:
        return timed
    return replace(timed, memory=simulate_values(machine, program, image).memory)


def measure(machine: Machine, program: AccelProgram) -> Run:
    """The time of a program with the machine's memory, as `cycle.measure` gives it."""
    program.require(machine)
    return sliced_core(machine).run(program, program.image())


class SlicedCore:
    """A loaded slice of a machine's core. `has_values`: it keeps them, as time depends on them."""

    def __init__(self, machine: Machine, path: Path):
        self.machine = machine
        library = ctypes.CDLL(str(path))
        self.has_values = bool(ctypes.c_uint8.in_dll(library, "slice_has_values").value)
        self._run, self._rows, self._free = (
            library.slice_run, library.slice_rows, library.slice_free)
        self._run.restype = ctypes.c_void_p
        self._run.argtypes = [ctypes.POINTER(RunConfig), *[ctypes.c_void_p] * 5]
        self._rows.restype = ctypes.POINTER(ctypes.c_int64)
        self._rows.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64)]
        self._free.restype, self._free.argtypes = None, [ctypes.c_void_p]

    def run(self, program: AccelProgram, image: np.ndarray, max_cycles: int = MAX_CYCLES,
            dram: Dram | None = None, events: np.ndarray | None = None,
            timeline: bool = False) -> Run:
        """The time of a program; the run has `image` as it was. Raises SimulatorError if the core
        breaks a rule of the memory port."""
        config = run_config(self.machine, program, image.size, max_cycles, dram)
        times = np.full((2, program.count), -1, np.int64) if events is None else events
        memory, result = image.copy() if self.has_values else image, run_result(self.machine)
        units = _units_of(self.machine, program) if timeline else None
        watch = self._run(ctypes.byref(config), memory.ctypes.data, times[0].ctypes.data,
                          times[1].ctypes.data, units.ctypes.data if units is not None else None,
                          ctypes.byref(result))
        try:
            run = run_of(self.machine, result, image, times, "slice")
            return replace(run, timeline=self._timeline(watch)) if timeline else run
        finally:
            self._free(watch)

    def _timeline(self, watch: int) -> Timeline:
        structure, spans = self.machine.structure, {}
        for number, unit in enumerate(structure.names):
            count = ctypes.c_uint64()
            rows = self._rows(watch, number, ctypes.byref(count))
            spans[unit] = (np.ctypeslib.as_array(rows, (count.value, 3)).copy() if count.value
                           else np.zeros((0, 3), np.int64))
        return Timeline(spans, structure.activities)


def _units_of(machine: Machine, program: AccelProgram) -> np.ndarray:
    """The unit of each instruction by its place among units; 255 for what none executes."""
    places = np.full(256, 255, np.uint8)
    for opcode, unit in machine.units.items():
        if unit in machine.structure.names:
            places[opcode] = machine.structure.names.index(unit)
    return places[program.words[:, 0]]


def sliced_core(machine: Machine) -> SlicedCore:
    """The slice of a machine, from the cache or newly built. It follows what has been put in the
    place of parts of the hardware in this process."""
    return _core(machine, patches())


@cache
def _core(machine: Machine, patched: tuple[Patch, ...]) -> SlicedCore:
    """To elaborate hardware and to cut it takes seconds. So the sources of both have a hash, too;
    where an object was built from the same ones, it is taken as it is."""
    sources = None if patched else digest([
        machine.text, importlib.metadata.version("amaranth"), compiler()[1], processor(), *_FLAGS,
        texts_of(*gateware_files(), *sorted(_HERE.glob("*.py"))), *harness_texts().values()])
    if sources and (key := noted(KIND, sources)) and (folder := find(KIND, key)):
        return SlicedCore(machine, folder / f"{KIND}.so")
    path = object_of(KIND, f"the timing slice of {machine.config.name}", _texts(machine), _FLAGS)
    if sources:
        note(KIND, sources, path.parent.name)
    return SlicedCore(machine, path)


def harness_texts() -> dict[str, str]:
    """The loop around a core with its memory, by file: all but ``core.h``, ``ports.h`` and
    ``watch_lists.h``, which are made for it."""
    return {path.name: path.read_text()
            for path in (_HERE / "harness.cpp", *_HERE.glob("*.h"), *_HERE.parent.glob("*.h"))}


def _texts(machine: Machine) -> dict[str, str]:
    """The files of a slice, by name."""
    from accel.hw.core import Core

    made = slice_of(machine, netlist_of(Core(machine, watched=True)))
    header = lists_header(machine) + f"#define LOCKSTEP_VALUES {int(made.has_values)}\n"
    return harness_texts() | {"core.h": made.text, "ports.h": header,
                              "watch_lists.h": watch_header(machine)}


def watch_header(machine: Machine) -> str:
    """The codes and numbers of a machine that its timeline needs."""
    from accel.hw.interface import WATCHED

    structure, timing = machine.structure, machine.config.timing
    activities = ", ".join(f"{name} = {structure.activities.index(name)}" for name in (
        "busy", "command", "bank", "memory", "hazard", "signal"))
    seen = ", ".join(f"{name} = {one.offset}" for name, one in WATCHED)
    kinds = ", ".join("moves" if unit.kind.moves else "streams" if unit.kind is UnitKind.STREAM
                      else "computes" for unit in structure.units)
    return "\n".join((
        "#pragma once", "#include <cstdint>", "namespace lockstep::watch {",
        f"constexpr uint32_t {activities};", f"constexpr unsigned {seen};",
        f"constexpr uint64_t counter_cycles = {timing.counter_cycles}, "
        f"begin_cycles = {timing.begin_cycles};",
        "enum Kind { moves, computes, streams };", f"constexpr unsigned units = "
        f"{len(structure.units)};", f"constexpr Kind kinds[] = {{{kinds}}};", "}")) + "\n"


def slice_of(machine: Machine, netlist: Netlist) -> Slice:
    """The slice of a core's netlist. Raises NetlistError for one that cannot be cut.

    Written data does not matter unless it is read back by another part than fetch: then time may
    depend on it, and all that it depends on stays.
    """
    ports, beat = machine.config.memory_ports, 8 * machine.config.bus_bytes
    written = [f"{port}__{WRITTEN}" for port in ports]
    outputs = [name for name in netlist.outputs if name not in written]
    live = live_bits(netlist, (net for name in outputs for net in netlist.outputs[name]))
    data = [net for port in ports for net in netlist.inputs[f"{port}__{READ}"][:beat]]
    has_values = any(not _in_fetch(module) for module in readers(netlist, live, data))
    if has_values:
        outputs += written
        live = live_bits(netlist, (net for name in outputs for net in netlist.outputs[name]))
    graph = simplified(graph_of(netlist, live, outputs), {"rst": 0, "clk": 0})
    cold = ["status", "status_unit", "status_index", "counter_value",
            *(f"{unit}_{name}" for unit in machine.structure.names
              for name in ("waiting", "waiting_index"))]
    offers = [f"{port}__{name}" for port in ports for name in OFFERS]
    return Slice(emit(graph, chunks_of(graph, offers), cold), has_values)


def _in_fetch(module: str) -> bool:
    """True for fetch itself, and for what spreads its reads over channels."""
    return FETCH in module.split(".")
