"""Floorplans: the rows of an FPGA that stay empty, and the places of a large design's block RAMs
and multipliers.

The placer packs gates as tightly as it can, too tightly to route, however much of the chip is free.
So some rows stay empty, and their wires are available. Nor does it find good places for the few
large cells: those of one lane of gemm end up all over the chip, and the wires between them take
what the router needs (a fifth of all wires of ecp5-1x16x16). So the cells of a lane stand side by
side, lane after lane, there and back through the rows of such cells.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

# Of a LFE5U-85F, as nextpnr names its cells: blocks of nine columns, except the clock's own.
_COLUMNS = (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114)
_ROWS = {"DP16KD": (22, 46, 70), "MULT18X18D": (10, 34, 58)}
_IN_BLOCK = {"DP16KD": ((0, "EBR0"), (2, "EBR1"), (4, "EBR2"), (6, "EBR3")),
             "MULT18X18D": ((0, "MULT18_0"), (1, "MULT18_1"), (4, "MULT18_4"), (5, "MULT18_5"))}
_LUTS = 83_640
_LAST_ROW = 88
_EMPTY = ((3, 1.5), (8, 1.2))       # every third row, or eighth, where the rest has so much room;
                                    # these have gates alone, and chains of carries run along rows
_GATES = tuple(f"SLICE{part}.K{half}" for part in "ABCD" for half in range(2))

_PRODUCT = re.compile(r"\b(gemm|vector)\.datapath\.s\d+_mul\d+_(?:\d+_)*?(\d+)_(\d+)\.")


def empty(device: str, luts: int) -> list[str]:
    """The gate sites to leave empty for a design of this many LUTs: whole rows, as long as the
    remaining rows have room for half as much again, or for a fifth.
    """
    for step, room in _EMPTY if device.endswith("85k") else ():
        places = [f"X{x}/Y{y}/{gate}" for y in range(step, _LAST_ROW, step) for x in range(2, 124)
                  for gate in _GATES]
        if room * luts <= _LUTS - len(places):
            return places
    return []


def places(cells: Mapping[str, str], device: str) -> dict[str, str]:
    """The sites for cells (nextpnr's attribute ``BEL``).

    Parameters
    ----------
    cells : the type of each cell, by names as `accel.hw` gives them.
    device : nextpnr's option for the FPGA.

    Nothing for an FPGA whose rows are not known here, nor for a machine without lanes that
    multiply; a kind of cells that does not fit the rows is left to the placer.
    """
    if not device.endswith("85k"):
        return {}
    places = _ordered(cells)
    sites_of = {}
    for kind, sites in ((kind, list(_sites(kind))) for kind in _ROWS):
        names = sorted((name for name in places if cells[name] == kind),
                       key=lambda name: (places[name], name))
        if len(names) <= len(sites):
            sites_of |= _spread(names, sites)
    return sites_of


def _ordered(cells: Mapping[str, str]) -> dict[str, float]:
    """Positions along a row of all lanes, for the cells that belong to a lane.

    Lanes of gemm that take turns in the same lane of vector stand side by side.
    """
    products = {name: match for name, kind in cells.items()
                if kind == "MULT18X18D" and (match := _PRODUCT.search(name))}
    lanes = {unit: 1 + max((int(match[2]) for match in products.values() if match[1] == unit),
                           default=-1) for unit in ("gemm", "vector")}
    vector = lanes["vector"] or lanes["gemm"]
    turns = -(-lanes["gemm"] // vector) if vector else 1

    def place(lane: float) -> float:
        whole = int(lane)
        return whole % vector * turns + whole // vector + lane - whole

    terms = 1 + max((int(match[3]) for match in products.values()), default=0)
    result = {name: place(int(match[2]) + int(match[3]) / terms) if match[1] == "gemm"
              else (int(match[2]) + 0.5) * turns for name, match in products.items()}
    for names in _memories(cells) if vector else ():
        result |= {name: place((number + 0.5) / len(names) * lanes["gemm"])
                   for number, name in enumerate(names)}
    return result


def _memories(cells: Mapping[str, str]) -> Iterator[list[str]]:
    """The block RAMs of the rows of wgt, and of each bank of acc, from the first lane on."""
    for row in (r"\bwgt\.slice", r"\bacc\.bank0_", r"\bacc\.bank1_"):
        rams = [name for name, kind in cells.items() if kind == "DP16KD" and re.search(row, name)]
        yield sorted(rams, key=lambda name: [int(digits) for digits in re.findall(r"\d+", name)])


def _sites(kind: str) -> Iterator[str]:
    """The sites in boustrophedon order through the rows."""
    row = [(column + more, cell) for column in _COLUMNS for more, cell in _IN_BLOCK[kind]]
    for number, y in enumerate(_ROWS[kind]):
        for x, cell in reversed(row) if number % 2 else row:
            yield f"X{x}/Y{y}/{cell}"


def _spread(names: Sequence[str], sites: Sequence[str]) -> dict[str, str]:
    return {name: sites[int((number + 0.5) / len(names) * len(sites))]
            for number, name in enumerate(names)}
