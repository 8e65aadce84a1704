"""Carry chains of an ECP5 netlist, without the LUTs that place and route would add to them.

A chain that begins with a constant or ends with a carry that nothing reads is legal, but nextpnr
routes every first carry from the fabric and every last one to it. That takes four LUTs for each
chain, a tenth of a design with many short sums. Here a carry that nothing reads is left open, and a
first carry that is constant is folded into the cell: its lower half makes the carry of bit 0 of A
and B alone, without looking at the carry before it, and bit 0 of the sum becomes a LUT of its own.

The functions of a cell (its simulation model in yosys, ``ecp5/cells_sim.v``), for each half::

    sum = LUT4(A, B, C, D) ^ carry
    next carry = carry if LUT4(A, B, C, D) else LUT2(A, B)      LUT2: the lowest 4 bits of INIT
"""

from collections import Counter
from itertools import product

PINS = "ABCD"


def trim(netlist: dict, top: str = "top") -> dict:
    """Trims the netlist that ``yosys -p "synth_ecp5 -json"`` writes, in place, and returns it."""
    cells = netlist["modules"][top]["cells"]
    readers = Counter(bit for cell in cells.values()
                      for port, bits in cell["connections"].items()
                      if cell["port_directions"][port] == "input" for bit in bits)
    ports = {bit for port in netlist["modules"][top]["ports"].values() for bit in port["bits"]}
    for name, cell in list(cells.items()):
        if cell["type"] != "CCU2C":
            continue
        carry = cell["connections"].get("COUT", [])
        if carry and not readers[carry[0]] and carry[0] not in ports:
            cell["connections"]["COUT"] = ["x"]
        if cell["connections"]["CIN"][0] in ("0", "1"):
            _begin(cells, name, cell)
    return netlist


def _begin(cells: dict, name: str, cell: dict) -> None:
    """Makes a cell independent of its constant first carry, if possible."""
    connections, init = cell["connections"], _number(cell["parameters"]["INIT0"])
    if cell["parameters"]["INJECT1_0"] != "NO":
        return
    first = int(connections["CIN"][0])
    pins = [connections[f"{pin}0"][0] for pin in PINS]
    carries: dict[tuple[int, int], set[int]] = {}
    for a, b, c, d in product((0, 1), repeat=4):
        if all(pin == str(value) for pin, value in zip(pins, (a, b, c, d), strict=True)
               if pin in ("0", "1")):
            chosen = first if init >> (a + 2 * b + 4 * c + 8 * d) & 1 else init >> (a + 2 * b) & 1
            carries.setdefault((a, b), set()).add(chosen)
    if any(len(values) > 1 for values in carries.values()):
        return                          # the carry depends on C or D, which LUT2 does not see
    lut2 = sum(min(values) << (a + 2 * b) for (a, b), values in carries.items())
    cells[f"{name}$bit0"] = {
        "hide_name": 0, "type": "LUT4", "attributes": {},
        "parameters": {"INIT": f"{init ^ (0xFFFF if first else 0):016b}"},
        "port_directions": {**dict.fromkeys(PINS, "input"), "Z": "output"},
        "connections": {**{pin: [bit] for pin, bit in zip(PINS, pins, strict=True)},
                        "Z": connections["S0"]},
    }
    cell["parameters"]["INIT0"] = f"{lut2:016b}"        # LUT4 is 0 where C and D are 1
    connections |= {"CIN": ["x"], "S0": ["x"], "C0": ["1"], "D0": ["1"]}


def _number(parameter: str | int) -> int:
    """The value of a netlist's parameter, given as binary digits or as a number."""
    return parameter if isinstance(parameter, int) else int(parameter, 2)
