"""Constants that come from nearby are the ones that were there; memories keep what is written."""

import copy

import pytest

from fpga.building.ties import localize

WORDS = 16


def netlist(cells: dict[str, dict]) -> dict:
    return {"modules": {"top": {"cells": cells}}}


def ram(write: list, read: list, init: str = "") -> dict:
    return {"type": "TRELLIS_DPR16X4", "parameters": {"INITVAL": init} if init else {},
            "connections": {"WAD": write, "RAD": read, "DI": [2, 3, 4, 5], "DO": [6, 7, 8, 9]}}


class Ram:
    """Behaves as the cell does: four bits a row, of which ``x`` is not known."""

    def __init__(self, cell: dict):
        self._lines = cell["connections"]
        init = cell["parameters"].get("INITVAL", "x" * 64)
        self.rows = [init[60 - 4 * row:64 - 4 * row] for row in range(WORDS)]

    def _row(self, lines: list, values: dict) -> int:
        return sum((int(line) if line in ("0", "1") else values[line]) << place
                   for place, line in enumerate(lines))

    def write(self, values: dict, word: str) -> None:
        self.rows[self._row(self._lines["WAD"], values)] = word

    def read(self, values: dict) -> str:
        return self.rows[self._row(self._lines["RAD"], values)]


@pytest.mark.parametrize("ties", [{3: "0"}, {3: "1"}, {0: "1"}, {2: "0", 3: "1"},
                                  {0: "0", 1: "1", 3: "0"}])
@pytest.mark.parametrize("known", [False, True])
def test_memories_keep_what_they_are_given(rng, ties, known):
    init = "".join(rng.choice(list("01"), 64)) if known else ""
    before = ram([ties.get(line, 10 + line) for line in range(4)],
                 [ties.get(line, 20 + line) for line in range(4)], init)
    after = localize(netlist({"ram": copy.deepcopy(before)}))["modules"]["top"]["cells"]["ram"]
    assert not {"0", "1"} & {*after["connections"]["WAD"], *after["connections"]["RAD"]}
    old, new = Ram(before), Ram(after)
    for _ in range(200):
        write = {10 + line: int(rng.integers(2)) for line in range(4)}
        read = {20 + line: int(rng.integers(2)) for line in range(4)}
        assert new.read(read) == old.read(read)
        word = "".join(rng.choice(list("01"), 4))
        old.write(write, word)
        new.write(write, word)


@pytest.mark.parametrize(("write", "read"), [
    ([10, 11, 12, 13], [20, 21, 22, 23]),           # nothing is constant
    (["0", "0", "0", "0"], ["0", "0", "0", "0"]),   # nothing could be followed
    (["0", "1", 12, "1"], [20, "1", "0", "0"]),     # no line that is free at both ends
    ([10, 11, 12, "1"], [20, 21, 22, "0"]),         # what is written is not what is read
])
def test_other_memories_stay(write, read):
    cell = ram(write, read, "01" * 32)
    assert localize(netlist({"ram": copy.deepcopy(cell)})) == netlist({"ram": cell})


def multiplier(free: int) -> dict:
    pins = {"CE0": "1", "RST0": "0", "SIGNEDA": "1", "SIGNEDB": "1", "SOURCEA": "0",
            "SOURCEB": "0", "A0": "0", "C3": "1", "CLK0": 2, "A1": free, "RST1": 7}
    return {"type": "MULT18X18D", "parameters": {},
            "connections": {pin: [bit] for pin, bit in pins.items()}}


def test_multipliers_have_constants_of_their_own():
    before = {f"mul_{lane}_{term}": multiplier(100 + 16 * lane + term)
              for lane in range(3) for term in range(12)}
    after = localize(netlist(copy.deepcopy(before)))["modules"]["top"]["cells"]
    gates = {cell["connections"]["Z"][0]: cell for cell in after.values()
             if cell["type"] == "LUT4"}
    sinks: dict[int, set[tuple[int, int]]] = {}
    for name, cell in before.items():
        for pin, (bit,) in cell["connections"].items():
            now = after[name]["connections"][pin][0]
            if pin in ("A0", "C3", "CLK0", "A1", "RST1"):
                assert now == bit               # tied where they are, or no constants
                continue
            gate = gates[now]
            assert gate["parameters"]["INIT"] == bit * 16
            assert gate["port_directions"]["Z"] == "output"
            sinks.setdefault(now, set()).add(tuple(map(int, name.split("_")[1:])))
    assert len(gates) == len(sinks) == 2 * 36 // 4          # none with nothing to do
    for names in sinks.values():                            # neighbours: 9 comes before 10
        lanes, terms = zip(*names, strict=True)
        assert len(names) == 4 and len({*lanes}) == 1 and max(terms) - min(terms) == 3
    bits = {cell["connections"]["A1"][0] for cell in before.values()}
    assert not bits & {*gates}


def test_a_netlist_without_either_stays():
    cells = {"gate": {"type": "LUT4", "parameters": {"INIT": "01" * 8},
                      "connections": {"A": ["0"], "B": ["1"], "C": [2], "D": [3], "Z": [4]}}}
    assert localize(netlist(copy.deepcopy(cells))) == netlist(cells)
