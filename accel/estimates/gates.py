"""NAND2 equivalents of logic and registers: what a part is in gates of no FPGA.

A look-up table, a register and a bit of a product (of both factors, multiplied) each count so many
gates, fitted to runs of yosys that map the core to gates of two inputs and flip-flops
(``data/gates.jsonl``). A gate counts by its transistors in CMOS over the four of a NAND, as in
yosys's ``stat -tech cmos``. Memories are left out: on a chip they are macros.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from accel.estimates.fitting import fitted, rounded
from accel.estimates.runs import DATA
from accel.estimates.structure import unit_of

__all__ = ["CELLS", "fit_gates", "nand2"]

_NAND_TRANSISTORS = 4

CELLS = {"NOT": 2, "NAND": 4, "NOR": 4, "AND": 6, "OR": 6, "ANDNOT": 6, "ORNOT": 6, "AOI3": 6,
         "OAI3": 6, "AOI4": 8, "OAI4": 8, "NMUX": 10, "MUX": 12, "XOR": 12, "XNOR": 12}
"""Transistors of yosys's gates, as its ``stat -tech cmos`` has them."""

_FLIP_FLOP, _ENABLE, _RESET = 16, 12, 6     # a multiplexer before it, a gate before it


def nand2(cell: str) -> float:
    """NAND2 equivalents of one of yosys's internal cells, such as ``$_XOR_`` or ``$_SDFFE_PP0P_``.

    Raises KeyError for one that is no gate and no flip-flop.
    """
    name = cell.strip("$_").split("_")[0]
    if "DFF" in name or cell == "TRELLIS_FF":
        return (_FLIP_FLOP + _ENABLE * name.endswith("E")
                + _RESET * (name.startswith("SDFF"))) / _NAND_TRANSISTORS
    return CELLS[name] / _NAND_TRANSISTORS


def fit_gates() -> tuple[dict[str, float], dict[str, float]]:
    """Gates of a look-up table, a register and a bit of a product; the relative errors of the whole
    and of a unit."""
    runs = [json.loads(line) for line in (DATA / "gates.jsonl").read_text().splitlines()]
    rows = [row for run in runs for row in _units(run)]
    products = [product for run in runs for product in run.get("products", ())]
    amounts = np.array([row[1:] for row in rows], float)
    gates = np.array([row[0] for row in rows], float)
    weights = 1 / np.sqrt(gates)
    lut, register = fitted(amounts * weights[:, None], gates * weights)
    product = (sum(one["gates"] for one in products)
               / sum(one["bits"] for one in products))
    off = np.abs(amounts @ (lut, register) - gates)
    return ({"lut": rounded(lut), "register": rounded(register), "product": rounded(product)},
            {"total": rounded(off.sum() / gates.sum()),
             "unit": rounded(float(np.quantile(off / gates, 0.9, method="higher")))})


def _units(run: Mapping[str, Any]) -> list[tuple[float, float, float]]:
    """Gates, look-up tables and registers of each unit of a run that has gates."""
    units: dict[str, list[float]] = {}
    for part, figures in run["parts"].items():
        unit = units.setdefault(unit_of(part), [0.0, 0.0, 0.0])
        for place, figure in enumerate(("gates", "luts", "registers")):
            unit[place] += figures[figure]
    return [(gates, luts, registers) for gates, luts, registers in units.values() if gates > 0]
