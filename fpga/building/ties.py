"""Constants of an ECP5 netlist, made where they are needed.

The pins of gates and block RAMs can be tied in place. For the control pins of multiplier blocks,
and the addresses of distributed RAM, nextpnr routes constants through the fabric from a single gate
each: two nets over the whole chip, of 3,600 arcs in ecp5-1x16x16. Where wires are scarce the last
arcs find no path, and the router does not terminate. So a few multipliers have a gate of their own
for each constant; and a constant address line follows another one, as it writes and as it reads, so
that other rows of that memory are in use, as many as before.
"""

import re
from typing import Any

Cell = dict[str, Any]

# As in nextpnr's ecp5/pack.cc, set_net_constant.
_WIRED = re.compile(r"(CE|RST)\d|(SIGNED|SOURCE)[AB]")
_NEIGHBOURS = 4             # multipliers that share their constants
_CONSTANTS = ("0", "1")


def localize(netlist: dict, top: str = "top") -> dict:
    """Localizes the constants of a netlist that ``yosys -p "synth_ecp5 -json"`` writes, in place,
    and returns it.
    """
    module = netlist["modules"][top]
    cells: dict[str, Cell] = module["cells"]
    for cell in cells.values():
        if cell["type"] == "TRELLIS_DPR16X4":
            _fold(cell)
    multipliers = sorted((name for name, cell in cells.items() if cell["type"] == "MULT18X18D"),
                         key=_natural)
    free = 1 + max((bit for cell in cells.values() for bits in cell["connections"].values()
                    for bit in bits if isinstance(bit, int)), default=1)
    for first in range(0, len(multipliers), _NEIGHBOURS):
        names = multipliers[first:first + _NEIGHBOURS]
        for value in _CONSTANTS:
            wired = [(pins, pin) for pins in (cells[name]["connections"] for name in names)
                     for pin, bits in pins.items() if bits == [value] and _WIRED.fullmatch(pin)]
            for pins, pin in wired:
                pins[pin] = [free]
            if wired:
                cells[f"{names[0]}$tie{value}"] = _tie(value, free)
                free += 1
    return netlist


def _fold(cell: Cell) -> None:
    """Lets constant address lines of a memory follow a variable one, and moves its rows
    accordingly.
    """
    write, read = cell["connections"]["WAD"], cell["connections"]["RAD"]
    lines = range(len(write))
    leader = next((line for line in lines if isinstance(write[line], int)
                   and isinstance(read[line], int)), None)
    ties = {line: write[line] == "1" for line in lines
            if write[line] == read[line] and write[line] in _CONSTANTS}
    if leader is None or not ties:
        return
    init = cell["parameters"].get("INITVAL", "")        # four bits a row, row 0 at the right end
    rows = {row: init[len(init) - 4 * row - 4:len(init) - 4 * row] for row in range(16)}
    moved = dict.fromkeys(rows, "xxxx")
    for row, values in rows.items():
        if all(row >> line & 1 == value for line, value in ties.items()):
            bits = [row >> (leader if line in ties else line) & 1 for line in lines]
            moved[sum(bit << line for line, bit in enumerate(bits))] = values
    if init:
        cell["parameters"]["INITVAL"] = "".join(moved[row] for row in reversed(range(16)))
    for line in ties:
        write[line], read[line] = write[leader], read[leader]


def _tie(value: str, bit: int) -> Cell:
    return {"hide_name": 0, "type": "LUT4", "attributes": {}, "parameters": {"INIT": value * 16},
            "port_directions": {**dict.fromkeys("ABCD", "input"), "Z": "output"},
            "connections": {**{pin: ["1"] for pin in "ABCD"}, "Z": [bit]}}


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key: numbers in names compare as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part)
            for part in re.split(r"(\d+)", name)]
