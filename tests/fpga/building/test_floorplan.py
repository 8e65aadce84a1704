"""Places of large cells: a lane's side by side, whatever the machine, by the gateware's names."""

import re
from itertools import groupby

import pytest
from amaranth.back import rtlil

from accel.hw.core import Core
from accel.hw.parts import ECP5
from accel.machine.config import preset
from accel.machine.machine import Machine
from fpga.building import floorplan

ROWS = {"DP16KD": (22, 46, 70), "MULT18X18D": (10, 34, 58)}


def along(kind: str, cells: dict[str, str], unit: str) -> list[int]:
    """Lanes of a unit's cells as they are met along the rows, of one kind, each stretch once."""
    named = {place: name for name, place in floorplan.places(cells, "--85k").items()}
    first, second, third = ROWS[kind]
    sites = [f"X{x}/Y{y}/" for y, row in ((first, range(130)), (second, range(129, -1, -1)),
                                          (third, range(130))) for x in row]
    met = [named[place] for site in sites for place in named if place.startswith(site)]
    assert len(met) == sum(one == kind for one in cells.values())
    return [lane for lane, _ in groupby(int(name.rpartition("lane")[2]) for name in met
                                        if f".{unit}." in name)]


def machine(lanes: int, terms: int, turns: int) -> dict[str, str]:
    """Two block RAMs of weights a lane, one in each bank of acc."""
    cells = {f"core.gemm.datapath.s3_mul2_0_{lane}_{term}.lane{lane}": "MULT18X18D"
             for lane in range(lanes) for term in range(terms)}
    for lane in range(lanes):
        cells |= {f"core.wgt.slice{lane}.block{number}.lane{lane}": "DP16KD" for number in range(2)}
        part, place = divmod(lane, lanes // turns)
        cells |= {f"core.acc.bank{bank}_{part}.block{place}.lane{lane}": "DP16KD"
                  for bank in range(2)}
    cells |= {f"core.vector.datapath.s2_mul28_0_{lane}_0.lane{lane}": "MULT18X18D"
              for lane in range(lanes // turns)}
    return cells


@pytest.mark.parametrize("turns", [1, 2, 4])
def test_what_belongs_to_a_lane_stands_side_by_side(turns):
    cells = machine(16, 8, turns)
    shared = 16 // turns                # lanes of vector
    order = [lane + turn * shared for lane in range(shared) for turn in range(turns)]
    assert along("MULT18X18D", cells, "gemm") == order
    assert along("MULT18X18D", cells, "vector") == list(range(shared))
    assert along("DP16KD", cells, "wgt") == along("DP16KD", cells, "acc") == order


def test_what_does_not_fit_is_left_to_the_placer():
    cells = machine(16, 9, 1)
    assert sum(kind == "MULT18X18D" for kind in cells.values()) > 156
    places = floorplan.places(cells, "--85k")
    assert {cells[name] for name in places} == {"DP16KD"}
    assert floorplan.places(cells, "--25k") == {}
    assert floorplan.places({"core.wgt.slice0.block0": "DP16KD"}, "--85k") == {}


def row(place: str) -> int:
    return int(place.split("/")[1].removeprefix("Y"))


@pytest.mark.parametrize("luts, step, rows", [
    (0, 3, 29), (36_800, 3, 29), (37_000, 8, 10), (61_500, 8, 10)])
def test_rows_stay_empty_where_there_is_room(luts, step, rows):
    """The rows leave a design half as much room again, else a fifth."""
    empty = floorplan.empty("--85k", luts)
    assert len(empty) == len(set(empty)) == rows * 122 * 8
    assert {row(place) for place in empty} == {step * (number + 1) for number in range(rows)}
    large = {row(place) for place in floorplan.places(machine(16, 8, 2), "--85k").values()}
    assert len(large) == 6 and not large & {row(place) for place in empty}


def test_no_row_stays_empty_of_a_full_fpga_or_of_another():
    assert floorplan.empty("--85k", 62_000) == floorplan.empty("--25k", 1_000) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny-1x4x4", "ecp5-1x2x2"])
def test_the_gateware_has_these_names(name):
    """All block RAMs of wgt and acc, and all multipliers: with vector_beats of 1 and of 2."""
    text = rtlil.convert(Core(Machine(preset(name))), name="core", emit_src=False, platform=ECP5())
    cells, module = {}, ""
    for line in text.splitlines():
        if found := re.match(r"module \\(\S+)", line):
            module = found[1]
        elif found := re.match(r"\s+cell \\(DP16KD|MULT18X18D) \\?(\S+)", line):
            cells[f"{module}.{found[2]}"] = found[1]
    places = floorplan.places(cells, "--85k")
    wanted = {name for name, kind in cells.items()
              if kind == "MULT18X18D" or re.search(r"\.(wgt|acc)\.", name)}
    assert {cells[name] for name in wanted} == set(ROWS) and set(places) == wanted
