"""A mapped netlist at work: what it computes in each cycle, and how often each of its nets changes.

The netlist is read as it was written (``core.v``); gates do what their library's functions say,
macros what `asic.memories` says. The memory behind the core and the loop over cycles are those of
the other simulators. Nothing has a delay, so nothing glitches: a net changes once a cycle at most.
What flip-flops and memories hold before reset is random (`GateCore.run`).
"""

import ctypes
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.sim.rtl.interface import (MAX_CYCLES, RunConfig, lists_header, run_config, run_of,
                                     run_result)
from accel.sim.slice.simulator import harness_texts, watch_header
from compiler.native import object_of

from . import liberty
from .functions import MOST_INPUTS, truth_table
from .liberty import LibertyGroup
from .library import LibraryError
from .memories import MacroShape
from .netlist import TOP, MappedCore

_INSTANCE = re.compile(r"^  (\w+) (\w+) \((.*)\);$")
_PIN = re.compile(r"\.(\w+)\((\{[^}]*\}|[^)]*)\)")
_PORT = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);$")
_ASSIGN = re.compile(r"^  assign (\S+) = (\S+);$")
LOW, HIGH = 0, 1                # nets that never change


@dataclass(frozen=True, slots=True)
class Instance:
    """A cell of a netlist: its unit, its kind, and the nets at each pin, the lowest bit first."""

    unit: str
    name: str
    kind: str
    pins: Mapping[str, tuple[int, ...]]


@dataclass
class Flat:
    """A netlist without borders: how many nets it has, its cells, and the nets of its ports."""

    nets: int
    cells: list[Instance]
    ports: dict[str, tuple[int, ...]]


@dataclass
class _Text:
    """A module as written: its ports with their widths, its instances, and what outputs are."""

    ports: dict[str, tuple[str, int]] = field(default_factory=dict)
    instances: list[tuple[str, str, dict[str, list[str]]]] = field(default_factory=list)
    assigns: list[tuple[str, str]] = field(default_factory=list)


def flatten(text: str) -> Flat:
    """Reads what `asic.structure.verilog_of` has written."""
    modules: dict[str, _Text] = {}
    current = _Text()
    for line in text.splitlines():
        if line.startswith("module "):
            current = modules.setdefault(line[7:].partition(" ")[0], _Text())
        elif match := _PORT.match(line):
            current.ports[match[3]] = match[1], int(match[2] or 0) + 1
        elif match := _ASSIGN.match(line):
            current.assigns.append((match[1], match[2]))
        elif (match := _INSTANCE.match(line)):
            current.instances.append((match[1], match[2], {
                pin: _names(nets) for pin, nets in _PIN.findall(match[3])}))
    return _Flattening(modules).run()


def _names(nets: str) -> list[str]:
    return nets.strip("{}").split(", ")[::-1]


class _Flattening:
    """Numbers nets. A net of a unit that a port connects is that of the core."""

    def __init__(self, modules: Mapping[str, _Text]):
        self.modules = modules
        self.numbers: dict[tuple[str, str], int] = {}
        self.same: list[int] = [LOW, HIGH]

    def number(self, unit: str, name: str) -> int:
        if name[0] == "1":                              # 1'b0, 1'b1
            return HIGH if name.endswith("1") else LOW
        key = unit, name
        if key not in self.numbers:
            self.numbers[key] = len(self.same)
            self.same.append(len(self.same))
        return self._root(self.numbers[key])

    def _root(self, net: int) -> int:
        while self.same[net] != net:
            self.same[net] = net = self.same[self.same[net]]
        return net

    def join(self, one: int, other: int) -> None:
        one, other = sorted((self._root(one), self._root(other)))
        self.same[other] = one

    def run(self) -> Flat:
        top = self.modules[TOP]
        for target, source in top.assigns:
            self.join(self.number("", target), self.number("", source))
        units = {name: (kind, pins) for kind, name, pins in top.instances if kind in self.modules}
        for unit, (kind, pins) in units.items():
            module = self.modules[kind]
            for target, source in module.assigns:
                self.join(self.number(unit, target), self.number(unit, source))
            for port, (_, width) in module.ports.items():
                for place, outside in enumerate(pins.get(port, ())):
                    inside = f"{port}[{place}]" if width > 1 else port
                    self.join(self.number("", outside), self.number(unit, inside))
        found = [("", *one) for one in top.instances if one[0] not in self.modules]
        found += [(unit, *one) for unit, (kind, _) in units.items()
                  for one in self.modules[kind].instances]
        cells = [Instance(unit or TOP, name, kind, {
            pin: tuple(self.number(unit, net) for net in nets) for pin, nets in pins.items()})
            for unit, kind, name, pins in found]
        ports = {port: tuple(self.number("", f"{port}[{place}]" if width > 1 else port)
                             for place in range(width)) for port, (_, width) in top.ports.items()}
        return Flat(len(self.same), cells, ports)


@dataclass(frozen=True)
class NetActivity:
    """Counts of a run.

    Parameters
    ----------
    cycles : of the run.
    changes : of each net, from a cycle to the next.
    reads, writes : of each macro, as `GateCore.memories` has them.
    clocked : cycles in which each flip-flop had its clock, as `GateCore.flops` has them.
    """

    cycles: int
    changes: np.ndarray
    reads: np.ndarray
    writes: np.ndarray
    clocked: np.ndarray


class GateCore:
    """A netlist to run programs on. Raises LibraryError for cells whose function is not known."""

    def __init__(self, netlist: MappedCore):
        self.netlist = netlist
        self.flat = flatten((netlist.folder / "core.v").read_text())
        self.library = liberty.read(netlist.folder / "cells.lib")
        self.cells = {cell.name: cell for cell in self.library.of("cell")}
        shapes = {shape.name: shape for shape in netlist.shapes}
        self.memories = [(cell, shapes[cell.kind]) for cell in self.flat.cells
                         if cell.kind in shapes]
        self.flops = [cell for cell in self.flat.cells if cell.kind in netlist.cells.flip_flops]
        self._ports = [name for name in self.flat.ports if name != "clk"]
        self._tables = Tables(self.flat, self.cells, self.memories, self._ports)

    def run(self, program: AccelProgram, memory: np.ndarray, undefined: int = 1) -> Run:
        """Runs a program; writes to `memory` (uint8). `undefined` is the seed of what flip-flops
        and memories hold at first."""
        return self.activity(program, memory, undefined)[0]

    def activity(self, program: AccelProgram, memory: np.ndarray, undefined: int = 1
                 ) -> tuple[Run, NetActivity]:
        """Runs a program, too, and counts what every net did."""
        machine = self.netlist.machine
        program.require(machine)
        self._tables.load(self._library, undefined)
        times = np.full((2, program.count), -1, np.int64)
        result = run_result(machine)
        config = run_config(machine, program, memory.size, MAX_CYCLES, None)
        self._library.slice_run(ctypes.byref(config), memory.ctypes.data, times[0].ctypes.data,
                                times[1].ctypes.data, None, ctypes.byref(result))
        run = run_of(machine, result, memory, times, "gates")
        return run, NetActivity(run.cycles, **self._tables.copied_counts())

    @cached_property
    def _library(self) -> ctypes.CDLL:
        machine = self.netlist.machine
        header = (lists_header(machine) + "#define LOCKSTEP_VALUES 1\n" + ports_header(self._ports))
        texts = harness_texts() | {
            "core.h": HEADER.read_text(), "ports.h": header, "watch_lists.h": watch_header(machine)}
        library = ctypes.CDLL(str(object_of(
            "slice", f"the loop around the gates of {machine.config.name}", texts, FLAGS)))
        library.slice_run.argtypes = [ctypes.POINTER(RunConfig), *[ctypes.c_void_p] * 5]
        library.slice_run.restype = ctypes.c_void_p
        return library


HEADER = Path(__file__).with_name("gates.h")
FLAGS = ("-O2", "-march=native", "-w")


def ports_header(names: Sequence[str]) -> str:
    """The list of ports that gates.h needs."""
    return "#define GATES_PORTS(X) " + " ".join(
        f"X({number}, {name})" for number, name in enumerate(names)) + "\n"


_NUMBERS = ("nets", "gates", "levels", "flops", "memories", "rst")
_POINTERS = ("truth", "inputs", "outputs", "level", "readers_begin", "readers", "d", "q", "enable",
             "memory", "pins", "port_begin", "port_nets")
_COUNTS = ("changes", "reads", "writes", "clocked")


class _Structure(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_uint32) for name in _NUMBERS),
                *((name, ctypes.c_void_p) for name in (*_POINTERS, *_COUNTS))]


@dataclass
class _Gate:
    truth: int
    inputs: tuple[int, ...]
    output: int


class Tables:
    """The tables of a netlist that gates.h reads.

    Parameters
    ----------
    cells : what a library says of each kind of cell.
    memories : the macros with their shapes.
    ports : names of ports, in the order in which the harness numbers them; one is ``rst``.
    """

    def __init__(self, flat: Flat, cells: Mapping[str, LibertyGroup],
                 memories: Sequence[tuple[Instance, MacroShape]], ports: Sequence[str]):
        self._cells, self._nets = cells, flat.nets
        self._gates: list[_Gate] = []
        self._flops: list[tuple[int, int, int]] = []
        self._gated: dict[int, int] = {}     # the enable of a clock, by its net
        macros = {shape.name for _, shape in memories}
        if unknown := {cell.kind for cell in flat.cells} - cells.keys() - macros:
            raise LibraryError(f"Cells of a netlist must be in its library, not "
                               f"{', '.join(sorted(unknown))}")
        known = [cell for cell in flat.cells if cell.kind in cells]
        for cell in known:
            if GATES_CLOCKS in cells[cell.kind].values:
                self._add_clock(cell)
        for cell in known:
            self._add(cell)
        levels = self._levels()
        self._arrays = self._listed(levels, memories, [flat.ports[name] for name in ports])
        self._counts = {name: np.zeros(size, np.int64) for name, size in (
            ("changes", self._nets), ("reads", len(memories)), ("writes", len(memories)),
            ("clocked", len(self._flops)))}
        numbers = dict(zip(_NUMBERS, (
            self._nets, len(self._gates), max(levels, default=0) + 1, len(self._flops),
            len(memories), flat.ports["rst"][0]), strict=True))
        pointers = {name: array.ctypes.data for name, array in
                    (*self._arrays.items(), *self._counts.items())}
        self._structure = _Structure(**numbers, **pointers)

    def load(self, library: ctypes.CDLL, undefined: int) -> None:
        """Makes a netlist the one that a loaded gates.h runs next; counts begin at 0."""
        for array in self._counts.values():
            array[:] = 0
        library.gates_load(ctypes.byref(self._structure), ctypes.c_uint64(undefined))

    def copied_counts(self) -> dict[str, np.ndarray]:
        """The counts of `NetActivity` by name."""
        return {name: array.copy() for name, array in self._counts.items()}

    def _net(self) -> int:
        self._nets += 1
        return self._nets - 1

    def _add_clock(self, cell: Instance) -> None:
        """A cell that gates a clock: what is at its enable counts where the clock rises."""
        pins = {pin.name: pin for pin in self._cells[cell.kind].of("pin") if pin.name in cell.pins}
        enables = [cell.pins[name][0] for name, pin in pins.items()
                   if {"clock_gate_enable_pin", "clock_gate_test_pin"} & pin.values.keys()]
        out = next(name for name, pin in pins.items() if "clock_gate_out_pin" in pin.values)
        either = self._net()
        self._gates.append(_Gate(0b1110, (*enables, LOW)[:2], either))
        self._gated[cell.pins[out][0]] = either

    def _add(self, cell: Instance) -> None:
        group = self._cells[cell.kind]
        inputs = {pin.name: cell.pins[pin.name][0] for pin in group.of("pin")
                  if pin.values.get("direction") == "input" and pin.name in cell.pins}
        outputs = {cell.pins[pin.name][0]: pin.values["function"] for pin in group.of("pin")
                   if pin.values.get("direction") == "output" and pin.name in cell.pins
                   and "function" in pin.values}
        for held in group.of("ff"):
            inputs = self._flop(cell, held, inputs)
        for net, function in outputs.items():
            self._add_gate(function, inputs, net)

    def _flop(self, cell: Instance, held: LibertyGroup, inputs: Mapping[str, int]
              ) -> dict[str, int]:
        """Adds a flip-flop; what the functions of its outputs are of."""
        for never in ("clear", "preset"):
            text = held.values.get(never)
            if text and not _is_off(text, inputs):
                raise LibraryError(f"Flip-flops must have no {never} that is used, as "
                                   f"{cell.unit}/{cell.name} of {cell.kind}")
        following, own, inverse = self._net(), self._net(), self._net()
        self._add_gate(held.values["next_state"], inputs, following)
        self._gates.append(_Gate(0b01, (own,), inverse))
        clock = inputs[held.values["clocked_on"].strip("() ")]
        self._flops.append((following, own, self._gated.get(clock, HIGH)))
        names = (name.strip(' "') for name in held.name.split(","))
        return dict(zip(names, (own, inverse)))

    def _add_gate(self, function: str, inputs: Mapping[str, int], output: int) -> None:
        used = _used(function, inputs)
        try:
            truth = truth_table(function, used)
        except ValueError as error:
            raise LibraryError(f"Cells must have functions that can be simulated: {error}"
                               ) from None
        self._gates.append(_Gate(truth, tuple(inputs[name] for name in used), output))

    def _levels(self) -> list[int]:
        """The level of each gate: one more than the highest of those that drive it."""
        driver = {gate.output: number for number, gate in enumerate(self._gates)}
        waits = [[driver[net] for net in {*gate.inputs} if net in driver] for gate in self._gates]
        readers: dict[int, list[int]] = defaultdict(list)
        for number, before in enumerate(waits):
            for one in before:
                readers[one].append(number)
        left = [len(before) for before in waits]
        levels = [0] * len(self._gates)
        ready = [number for number, count in enumerate(left) if not count]
        for number in ready:
            for reader in readers[number]:
                levels[reader] = max(levels[reader], levels[number] + 1)
                left[reader] -= 1
                if not left[reader]:
                    ready.append(reader)
        if len(ready) < len(self._gates):
            raise LibraryError("Gates of a netlist must have no loop without a flip-flop")
        return levels

    def _listed(self, levels: list[int], memories: Sequence[tuple[Instance, MacroShape]],
                ports: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        inputs = np.zeros((len(self._gates), MOST_INPUTS), np.uint32)
        readers: list[list[int]] = [[] for _ in range(self._nets)]
        for number, gate in enumerate(self._gates):
            inputs[number, :len(gate.inputs)] = gate.inputs
            for net in {*gate.inputs} - {LOW, HIGH}:
                readers[net].append(number)
        rows: list[int] = []
        pins: list[int] = []
        for cell, shape in memories:
            rows += [shape.rows, shape.bits, shape.part, shape.address_bits, len(pins)]
            pins += [net for pin in ("w_en", "w_addr", "w_data", "r_en", "r_addr", "r_data")
                     for net in cell.pins[pin]]
        arrays = {
            "truth": [gate.truth for gate in self._gates], "inputs": inputs,
            "outputs": [gate.output for gate in self._gates], "level": levels,
            "readers_begin": np.cumsum([0, *map(len, readers)]),
            "readers": [gate for gates in readers for gate in gates],
            **{name: [flop[place] for flop in self._flops]
               for place, name in enumerate(("d", "q", "enable"))},
            "memory": rows, "pins": pins, "port_begin": np.cumsum([0, *map(len, ports)]),
            "port_nets": [net for port in ports for net in port]}
        return {name: np.ascontiguousarray(
            array, np.uint64 if name == "truth" else np.uint32) for name, array in arrays.items()}


GATES_CLOCKS = "clock_gating_integrated_cell"


def _used(function: str, inputs: Mapping[str, int]) -> list[str]:
    """The inputs that a function is of."""
    return [name for name in inputs if re.search(rf"\b{re.escape(name)}\b", function)]


def _is_off(function: str, inputs: Mapping[str, int]) -> bool:
    """True where the inputs of a function are constants that make it 0."""
    used = _used(function, inputs)
    if any(inputs[name] not in (LOW, HIGH) for name in used):
        return False
    row = sum(inputs[name] << place for place, name in enumerate(used))
    return not truth_table(function, used) >> row & 1
