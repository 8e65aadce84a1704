"""Trimmed carry chains compute what they did, whatever the carry is that is brought in no more."""

import copy

import pytest

from fpga.building.carries import trim

ADD, PAIR, PAIR_LESS = 0x96AA, 0x7888, 0x8777


def chain(rng, bits: int, init: int | None = None, first: str | None = None) -> dict:
    """A netlist of one chain. Inputs are variables or constants, INIT random unless given."""
    variables = list(range(2, 10))
    cells, carry, bit = {}, first or str(rng.integers(2)), 100
    for number in range(0, bits, 2):
        connections = {"CIN": [carry], "COUT": [bit]}
        carry, bit = bit, bit + 1
        for half in "01":
            for pin in "ABCD":
                one = rng.choice(["0", "1", *variables])
                connections[pin + half] = [one if one in ("0", "1") else int(one)]
            if init == ADD:
                connections |= {f"C{half}": [first == "1" and "1" or "0"], f"D{half}": ["1"]}
            connections["S" + half] = [bit]
            bit += 1
        chosen = [int(rng.integers(1 << 16)) if init is None else init for _ in "01"]
        cells[f"c{number}"] = {
            "type": "CCU2C",
            "parameters": {"INIT0": f"{chosen[0]:016b}", "INIT1": f"{chosen[1]:016b}",
                           "INJECT1_0": "NO", "INJECT1_1": "NO"},
            "port_directions": {port: "output" if port in ("COUT", "S0", "S1") else "input"
                                for port in connections},
            "connections": connections}
    sums = [cell["connections"][port][0] for cell in cells.values() for port in ("S0", "S1")]
    return {"modules": {"top": {"cells": cells, "ports": {"s": {"bits": sums}}}}}


def evaluate(netlist: dict, inputs: dict, unknown: int) -> list[int]:
    """The bits of the port, where an open first carry is `unknown`."""
    values = {"0": 0, "1": 1, "x": unknown} | inputs
    top = netlist["modules"]["top"]

    def look(init: str, *pins) -> int:
        return int(init, 2) >> sum(values[pin] << place for place, pin in enumerate(pins)) & 1

    for cell in top["cells"].values():
        pins = {port: bits[0] for port, bits in cell["connections"].items()}
        if cell["type"] == "LUT4":
            values[pins["Z"]] = look(cell["parameters"]["INIT"], *(pins[pin] for pin in "ABCD"))
            continue
        carry = values[pins["CIN"]]
        for half in "01":
            init = cell["parameters"][f"INIT{half}"]
            lut4 = look(init, *(pins[pin + half] for pin in "ABCD"))
            values[pins["S" + half]] = lut4 ^ carry
            carry = carry if lut4 else look(init, pins["A" + half], pins["B" + half])
            values["x"] = unknown
        values[pins["COUT"]] = carry
        values["x"] = unknown
    return [values[bit] for bit in top["ports"]["s"]["bits"]]


def heads(netlist: dict) -> list:
    return [cell["connections"]["CIN"][0] for cell in netlist["modules"]["top"]["cells"].values()
            if cell["type"] == "CCU2C" and not isinstance(cell["connections"]["CIN"][0], int)]


@pytest.mark.parametrize("init", [None, ADD, PAIR, PAIR_LESS])
def test_sums_stay(rng, init):
    trimmed = 0
    for _ in range(60):
        before = chain(rng, int(rng.integers(1, 12)), init)
        after = trim(copy.deepcopy(before))
        trimmed += heads(after) == ["x"]
        for _ in range(20):
            inputs = {bit: int(rng.integers(2)) for bit in range(2, 10)}
            wanted = evaluate(before, inputs, 0)
            assert [evaluate(after, inputs, unknown) for unknown in (0, 1)] == [wanted, wanted]
    assert trimmed > 5


def test_adders_and_subtractors_begin_with_no_carry(rng):
    for first in "01":
        assert heads(trim(chain(rng, 8, ADD, first))) == ["x"]


def test_last_carry_is_left_open_unless_it_is_read(rng):
    netlist = chain(rng, 4)
    last = netlist["modules"]["top"]["cells"]["c2"]["connections"]
    read = copy.deepcopy(netlist)
    read["modules"]["top"]["ports"]["carry"] = {"bits": [last["COUT"][0]]}
    trim(netlist)
    trim(read)
    assert last["COUT"] == ["x"]
    assert read["modules"]["top"]["cells"]["c2"]["connections"]["COUT"] != ["x"]
    first = netlist["modules"]["top"]["cells"]["c0"]["connections"]
    assert first["COUT"] != ["x"]


def test_a_carry_that_comes_from_elsewhere_stays(rng):
    netlist = chain(rng, 4, ADD, "0")
    netlist["modules"]["top"]["cells"]["c0"]["connections"]["CIN"] = [5]
    before = copy.deepcopy(netlist["modules"]["top"]["cells"]["c0"])
    assert trim(netlist)["modules"]["top"]["cells"]["c0"] == before
