"""NAND2 equivalents of logic and registers: what a part is in gates of no FPGA.

A look-up table, a register and a bit of a product (of both factors, multiplied) each count so many
gates, fitted to runs of yosys that map the core to gates of two inputs and flip-flops
(``data/gates.jsonl``). A gate counts by its transistors in CMOS over the four of a NAND, as in
yosys's ``stat -tech cmos``. Memories are left out: on a chip they are macros.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from accel.estimates.fitting import rounded
from accel.estimates.runs import DATA

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
    and of a unit, of which nine out of ten are no further off."""
    runs = [json.loads(line) for line in (DATA / "gates.jsonl").read_text().splitlines()]
    units = [unit for run in runs for unit in run["units"].values()]
    products = [product for run in runs for product in run["products"]]
    each = {"lut": _ratio(units, "logic", "luts"),
            "register": _ratio(units, "flip_flops", "registers"),
            "product": _ratio(products, "gates", "bits")}
    real = np.array([unit["logic"] + unit["flip_flops"] for unit in units])
    off = np.abs(np.array([each["lut"] * unit["luts"] + each["register"] * unit["registers"]
                           for unit in units]) - real)
    return each, {"total": rounded(off.sum() / real.sum()), "unit": rounded(float(
        np.quantile(off[real > 0] / real[real > 0], 0.9, method="higher")))}


def _ratio(rows: Sequence[Mapping[str, float]], above: str, below: str) -> float:
    return rounded(sum(row[above] for row in rows) / sum(row[below] for row in rows))
