"""Netlists at work: written, read again and run, against a model in Python."""

import ctypes
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from asic import liberty
from asic.gates import FLAGS, HEADER, Tables, flatten, ports_header
from asic.library import LibraryError
from asic.memories import MacroShape
from asic.structure import modules_of, verilog_of
from compiler.native import object_of

CELLS = {cell.name: cell for cell in liberty.read(Path(__file__).with_name("cells.lib")).of("cell")}
GATES = {"INV": ("A",), "NAND": ("A", "B"), "XOR": ("A", "B")}
SHAPE = MacroShape(16, 8, 4)
PORTS = ("rst", "a", "y")
WIDTH = 12
RESET = 2                       # edges in reset, with all inputs 0

LOOP = """
#include "core.h"
extern "C" void play(const uint64_t *a, uint64_t *y, uint32_t cycles) {
    Core core;
    for (uint32_t i = 0; i < cycles; i++) {
        core.set_a(a + i);
        core.early();
        core.get_y(y + i);
        core.commit();
    }
}
"""


@pytest.fixture(scope="module")
def library():
    header = "#define LOCKSTEP_EXECUTION_UNITS(X)\n" + ports_header(PORTS)
    path = object_of("tests", "a loop around gates", {
        "harness.cpp": LOOP, "core.h": HEADER.read_text(), "ports.h": header}, FLAGS)
    return ctypes.CDLL(str(path))


@dataclass
class Made:
    """A random design: yosys's JSON, and its instances in an order to compute them."""

    design: dict
    gates: list
    flops: list
    memories: list
    ports: tuple = ()


def made(seed: int, gated: bool = False) -> Made:
    """The core has a unit; gates and flip-flops lie in both, macros in the unit."""
    rng = random.Random(seed)
    bit = iter(range(2, 100_000))
    clk, rst = next(bit), next(bit)
    a = [next(bit) for _ in range(WIDTH)]
    nets = {"core": [*a, rst, "0", "1"]}
    inside = {net: next(bit) for net in a[:6]}          # the unit's own numbers
    nets["unit"] = [*inside.values(), "0"]
    clocks = {"core": clk, "unit": next(bit)}
    cells = {"core": {}, "unit": {}}
    gates, flops, memories = [], [], []

    def add(where: str, kind: str, pins: dict, outputs: tuple[str, ...]) -> None:
        name = f"{kind}{len(cells[where])}"
        cells[where][name] = {
            "type": kind, "hide_name": rng.randrange(2), "connections": pins,
            "port_directions": {pin: "output" if pin in outputs else "input" for pin in pins}}

    for where in ("core", "unit"):
        held = [next(bit) for _ in range(8)]
        nets[where] += held
        data = []
        for _ in range(40):
            kind = rng.choice(list(GATES))
            out = next(bit)
            inputs = [rng.choice(nets[where]) for _ in GATES[kind]]
            add(where, kind, {**{pin: [net] for pin, net in zip(GATES[kind], inputs)}, "Y": [out]},
                ("Y",))
            gates.append((where, kind, inputs, out))
            nets[where].append(out)
            data.append(out)
        clock, enable = clocks[where], None
        if gated:
            enable, own = rng.choice(data), next(bit)
            add(where, "GATE", {"CK": [clock], "E": [enable], "GCK": [own]}, ("GCK",))
            clock = own
        for q in held:
            d = rng.choice(data)
            add(where, "DFF", {"CK": [clock], "D": [d], "Q": [q]}, ("Q",))
            flops.append((where, d, q, enable))
    pins = {"w_en": 2, "w_addr": 4, "w_data": 8, "r_en": 1, "r_addr": 4}
    used = {pin: [rng.choice(nets["unit"]) for _ in range(width)] for pin, width in pins.items()}
    read = [next(bit) for _ in range(8)]
    add("unit", SHAPE.name, {**used, "r_data": read, "clk": [clocks["unit"]]}, ("r_data",))
    memories.append((used, read))
    out = [rng.choice([*nets["unit"][7:], *read]) for _ in range(5)]
    seen = [next(bit) for _ in out]
    cells["core"]["unit"] = {"type": "core.unit", "hide_name": 0, "connections": {
        "clk": [clk], "in": a[:6], "out": seen},
        "port_directions": {"clk": "input", "in": "input", "out": "output"}}
    y = [*seen, *(rng.choice(nets["core"][WIDTH:]) for _ in range(WIDTH - 5))]

    def port(direction: str, bits: list) -> dict:
        return {"direction": direction, "bits": bits}

    def named(where: str) -> dict:
        every = {net for cell in cells[where].values() for bits in cell["connections"].values()
                 for net in bits if isinstance(net, int)}
        return {f"s.{net}": {"hide_name": net % 2, "bits": [net]} for net in sorted(every)}

    design = {"modules": {
        "core": {"ports": {"clk": port("input", [clk]), "rst": port("input", [rst]),
                           "a": port("input", a), "y": port("output", y)},
                 "cells": cells["core"], "netnames": named("core")},
        "core.unit": {"ports": {"clk": port("input", [clocks["unit"]]),
                                "in": port("input", list(inside.values())),
                                "out": port("output", out)},
                      "cells": cells["unit"], "netnames": named("unit")}}}
    result = Made(design, gates, flops, memories)
    result.ports = a, y, dict(zip(inside.values(), a)), dict(zip(seen, out)), rst
    return result


def expected(one: Made, inputs: list[int], start: dict[int, int], cells: np.ndarray
             ) -> tuple[list[int], int]:
    """The outputs of each cycle, those in reset first, and how often the macro was read."""
    a, y, aliases, seen, rst = one.ports
    value = {"0": 0, "1": 1, **start}
    memory, reads, result = cells.copy(), 0, []
    (used, read), = one.memories

    def number(bits) -> int:
        return sum(value[net] << place for place, net in enumerate(bits))

    for cycle, given in enumerate(inputs):
        value[rst] = int(cycle < RESET)
        value |= {net: given >> place & 1 for place, net in enumerate(a)}
        value |= {own: value[outer] for own, outer in aliases.items()}
        for _, kind, nets, out in one.gates:
            bits = [value[net] for net in nets]
            value[out] = {"INV": 1 - bits[0], "NAND": 1 - (bits[0] & bits[-1]),
                          "XOR": bits[0] ^ bits[-1]}[kind]
        value |= {outer: value[own] for outer, own in seen.items()}
        result.append(sum(value[net] << place for place, net in enumerate(y)))
        following = {q: value[d] for _, d, q, enable in one.flops
                     if enable is None or value[enable]}
        if value[used["r_en"][0]]:
            row = memory[number(used["r_addr"])]
            following |= {net: int(row[place]) for place, net in enumerate(read)}
            reads += cycle >= RESET
        for part, net in enumerate(used["w_en"]):
            if value[net]:
                for place in range(4 * part, 4 * part + 4):
                    memory[number(used["w_addr"]), place] = value[used["w_data"][place]]
        value |= following
    return result, reads


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_netlist_does_what_its_cells_do(library, seed, gated):
    """From a start of the seed's, through reset: outputs, changes, accesses."""
    one = made(seed, gated)
    text = verilog_of(modules_of(one.design, frozenset({"DFF", SHAPE.name})))
    flat = flatten(text)
    memories = [(cell, SHAPE) for cell in flat.cells if cell.kind == SHAPE.name]
    tables = Tables(flat, CELLS, memories, PORTS)
    rng = np.random.default_rng(seed)
    inputs = rng.integers(0, 1 << WIDTH, 64).astype(np.uint64)
    outputs = np.zeros(64, np.uint64)
    tables.load(library, seed + 1)
    library.play(inputs.ctypes.data_as(ctypes.c_void_p), outputs.ctypes.data_as(ctypes.c_void_p),
                 ctypes.c_uint32(64))
    counts = tables.copied_counts()
    start, cells = _begun(one, seed + 1)
    wanted, reads = expected(one, [*[0] * RESET, *map(int, inputs)], start, cells)
    assert outputs.tolist() == wanted[RESET:]
    assert counts["reads"].tolist() == [reads]
    assert counts["clocked"].max() <= 64 and (gated or counts["clocked"].min() == 64)
    for place, net in enumerate(flat.ports["y"]):
        bits = [word >> place & 1 for word in wanted[RESET:]]
        changed = sum(one != other for one, other in zip(bits, bits[1:]))
        assert net < 2 or counts["changes"][net] - changed in (0, 1)    # 1: in the first cycle


def _begun(one: Made, seed: int) -> tuple[dict[int, int], np.ndarray]:
    """What gates.h makes of a seed: flip-flops in the order of the netlist, then the macro."""
    mask = (1 << 64) - 1
    state = [seed * 0x9E3779B97F4A7C15 & mask | 1]

    def bit() -> int:
        word = state[0]
        word ^= word >> 12
        word ^= word << 25 & mask
        word ^= word >> 27
        state[0] = word
        return (word * 0x2545F4914F6CDD1D & mask) >> 33 & 1

    text = verilog_of(modules_of(one.design, frozenset({"DFF", SHAPE.name})))
    order = [one.flops[place] for place in _flop_order(one, text)]
    start = {q: bit() for _, _, q, _ in order}
    cells = np.array([bit() for _ in range(SHAPE.rows * SHAPE.bits)]).reshape(SHAPE.rows, -1)
    (_, read), = one.memories
    return start | {net: bit() for net in read}, cells


def _flop_order(one: Made, text: str) -> list[int]:
    """The places of flip-flops, as `modules_of` sorts cells by name within a module."""
    found = []
    for where, module in (("core", "core"), ("unit", "core.unit")):
        cells = one.design["modules"][module]["cells"]
        for name in sorted(cells):
            if cells[name]["type"] == "DFF":
                q = cells[name]["connections"]["Q"][0]
                found.append(next(place for place, flop in enumerate(one.flops)
                                  if flop[0] == where and flop[2] == q))
    return found


def test_a_start_is_repeated_by_its_seed(library):
    one = made(3)
    flat = flatten(verilog_of(modules_of(one.design, frozenset({"DFF", SHAPE.name}))))
    memories = [(cell, SHAPE) for cell in flat.cells if cell.kind == SHAPE.name]
    tables = Tables(flat, CELLS, memories, PORTS)
    inputs, found = np.zeros(16, np.uint64), []
    for seed in (5, 5, 6, 7, 8):
        outputs = np.zeros(16, np.uint64)
        tables.load(library, seed)
        library.play(inputs.ctypes.data_as(ctypes.c_void_p),
                     outputs.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint32(16))
        found.append(outputs.tolist())
    assert found[0] == found[1]
    assert any(one != found[0] for one in found[2:])


LOOPED = """module core (clk, rst, a, y);
  input clk;
  input rst;
  input a;
  output y;
  wire n1;
  wire n2;
  NAND g0 (.A(n2), .B(a), .Y(n1));
  INV g1 (.A(n1), .Y(n2));
  assign y = n1;
endmodule
"""


def test_a_loop_of_gates_is_refused():
    with pytest.raises(LibraryError, match="no loop without a flip-flop"):
        Tables(flatten(LOOPED), CELLS, [], PORTS)


def test_changes_are_those_from_cycle_to_cycle(library):
    """An inverter of an input that alternates changes each cycle; one of a constant never."""
    text = LOOPED.replace("n2), .B(a)", "a), .B(a)")
    flat = flatten(text)
    tables = Tables(flat, CELLS, [], PORTS)
    inputs = np.array([1, 0] * 8, np.uint64)
    outputs = np.zeros(16, np.uint64)
    tables.load(library, 1)
    library.play(inputs.ctypes.data_as(ctypes.c_void_p), outputs.ctypes.data_as(ctypes.c_void_p),
                 ctypes.c_uint32(16))
    assert outputs.tolist() == [0, 1] * 8
    changes = tables.copied_counts()["changes"]
    assert changes[flat.ports["a"][0]] == 16 and changes[flat.ports["y"][0]] == 16
    assert changes[flat.ports["rst"][0]] == 0


def test_a_cell_that_nobody_knows_is_refused():
    with pytest.raises(LibraryError, match="must be in its library, not MAJORITY"):
        Tables(flatten(LOOPED.replace("INV g1", "MAJORITY g1")), CELLS, [], PORTS)
