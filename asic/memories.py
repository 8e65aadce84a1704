"""Memories as macros: which of a netlist's are, what one takes, and how other tools see it.

A macro has one write port, whose parts of a row are enabled apart, and one read port, both at the
rising clock: `{"w_en", "w_addr", "w_data", "r_en", "r_addr", "r_data", "clk"}`. What it takes is
fitted to memories that others publish (``data/memories.toml``): area to 1, bits of a row and all
bits; the time to 1 and the roots of rows and bits of a row; energies to 1, bits of a row, and those
times the root of the rows; leakage to all bits. No coefficient is below zero; errors are relative.

From a process to another (`Macros.of`): areas by the square of the feature size, times by it,
energies by it and the square of the supply (R. Dennard et al., 1974), leakage of a bit as it is.
A second port makes a memory a third larger (cells of eight transistors instead of six: L. Chang et
al., Symposium on VLSI Technology, 2005).
"""

import math
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from .library import Cells

DATA = Path(__file__).parent / "data" / "memories.toml"

LEAST_BITS, LEAST_ROWS = 1024, 8
"""Smaller memories become flip-flops."""

SECOND_PORT = 1.3


@dataclass(frozen=True, slots=True, order=True)
class MacroShape:
    """A memory of `rows` rows of `bits` bits, of which a write may leave out parts of `part`."""

    rows: int
    bits: int
    part: int

    @property
    def name(self) -> str:
        return f"ram_{self.rows}x{self.bits}_{self.part}"

    @property
    def address_bits(self) -> int:
        return max((self.rows - 1).bit_length(), 1)

    @property
    def parts(self) -> int:
        return self.bits // self.part

    @property
    def is_macro(self) -> bool:
        return self.rows >= LEAST_ROWS and self.rows * self.bits >= LEAST_BITS


@dataclass(frozen=True, slots=True)
class Macro:
    """Costs of a memory: um2, ns from the clock to its data, ns of setup, pJ of an access, mW."""

    area_um2: float
    access_ns: float
    setup_ns: float
    read_pj: float
    write_pj: float
    leakage_mw: float


_FORMS: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], ...]] = {
    "area": (lambda d, w: np.ones_like(d), lambda d, w: w, lambda d, w: d * w),
    "time": (lambda d, w: np.ones_like(d), lambda d, w: np.sqrt(d), lambda d, w: np.sqrt(w)),
    "read": (lambda d, w: np.ones_like(d), lambda d, w: w, lambda d, w: w * np.sqrt(d)),
    "write": (lambda d, w: np.ones_like(d), lambda d, w: w, lambda d, w: w * np.sqrt(d)),
    "leakage": (lambda d, w: d * w,)}


@dataclass(frozen=True)
class Process:
    """Memories of one process, and what is fitted to them. `errors` are mean relative ones."""

    node_nm: float
    volts: float
    setup_ns: float
    pin_pf: float
    source: str
    coefficients: dict[str, np.ndarray]
    errors: dict[str, float]

    def at(self, form: str, shape: MacroShape) -> float:
        rows, bits = np.array([float(shape.rows)]), np.array([float(shape.bits)])
        return float(_design(form, rows, bits)[0] @ self.coefficients[form])


def _design(form: str, rows: np.ndarray, bits: np.ndarray) -> np.ndarray:
    return np.stack([part(rows, bits) for part in _FORMS[form]], axis=1)


@cache
def processes(path: Path = DATA) -> tuple[Process, ...]:
    """The processes of a file, fitted."""
    return tuple(_fitted(raw) for raw in tomllib.loads(path.read_text())["process"])


def _fitted(raw: dict) -> Process:
    table = np.array(raw.pop("memories"))
    coefficients, errors = {}, {}
    for form, column in zip(_FORMS, table.T[2:], strict=True):
        known = column >= 0
        design = _design(form, *table[known, :2].T) / column[known, None]
        coefficients[form] = _least_squares(design)
        errors[form] = float(np.abs(design @ coefficients[form] - 1).mean())
    return Process(**raw, coefficients=coefficients, errors=errors)


def _least_squares(design: np.ndarray) -> np.ndarray:
    """The coefficients, none below zero, with which the rows come nearest to 1: those of the subset
    of columns that leaves the least squares."""
    best, least = np.zeros(design.shape[1]), math.inf
    for chosen in range(1, 1 << design.shape[1]):
        columns = [number for number in range(design.shape[1]) if chosen >> number & 1]
        part = np.linalg.lstsq(design[:, columns], np.ones(len(design)), rcond=None)[0]
        left = float(((design[:, columns] @ part - 1) ** 2).sum())
        if part.min() >= 0 and left < least:
            best, least = np.zeros(design.shape[1]), left
            best[columns] = part
    return best


@dataclass(frozen=True)
class Macros:
    """Memories as macros of a library's process, from those of the nearest published one."""

    process: Process
    node_nm: float
    volts: float

    @classmethod
    def of(cls, cells: Cells, path: Path = DATA) -> "Macros":
        nearest = min(processes(path), key=lambda one: abs(math.log(one.node_nm / cells.node_nm)))
        return cls(nearest, cells.node_nm, cells.volts)

    def macro(self, shape: MacroShape) -> Macro:
        process = self.process
        size = self.node_nm / process.node_nm
        energy = size * (self.volts / process.volts) ** 2
        return Macro(float(self.area_coefficients @ _design(
            "area", np.array([float(shape.rows)]), np.array([float(shape.bits)]))[0]),
                     process.at("time", shape) * size, process.setup_ns * size,
                     process.at("read", shape) * energy, process.at("write", shape) * energy,
                     process.at("leakage", shape) * 1e-6)

    @property
    def area_coefficients(self) -> np.ndarray:
        """The area in um2 of a macro, of each bit of its rows, and of each bit."""
        size = self.node_nm / self.process.node_nm
        return self.process.coefficients["area"] * size ** 2 * SECOND_PORT

    @property
    def pin_pf(self) -> float:
        return self.process.pin_pf * self.node_nm / self.process.node_nm

    @property
    def source(self) -> str:
        scaled = "" if self.node_nm == self.process.node_nm else (
            f", scaled from {self.process.node_nm:g} to {self.node_nm:g} nm")
        return (f"{self.process.source}{scaled}; a second port makes them {SECOND_PORT} times as "
                "large")


def liberty_text(cells: Cells, macros: Macros, shapes: Iterable[MacroShape], wire_pf: float) -> str:
    """A library of macros, with a wire model: so many pF for each pin that a net drives."""
    lines = [
        "library (macros) {", "  delay_model : table_lookup;", '  time_unit : "1ns";',
        '  voltage_unit : "1V";', '  current_unit : "1mA";', '  pulling_resistance_unit : "1kohm";',
        '  leakage_power_unit : "1mW";', "  capacitive_load_unit (1, pf);",
        f"  nom_voltage : {cells.volts:g};", "  nom_temperature : 25;", "  nom_process : 1;",
        *(f"  {edge}_threshold_pct_{way} : 50;" for edge in ("input", "output")
          for way in ("rise", "fall")),
        *(f"  slew_{which}_threshold_pct_{way} : {percent};" for which, percent in
          (("lower", 20), ("upper", 80)) for way in ("rise", "fall")),
        f'  wire_load ("{WIRES}") {{', "    resistance : 0;", f"    capacitance : {wire_pf:.6g};",
        "    slope : 1;", *(f"    fanout_length ({count}, {count});" for count in (1, 1000)),
        "  }"]
    for shape in sorted(set(shapes)):
        lines += _cell(shape, macros.macro(shape), macros.pin_pf)
    return "\n".join([*lines, "}", ""])


WIRES = "by_fanout"


def _cell(shape: MacroShape, macro: Macro, pin_pf: float) -> list[str]:
    def bus(name: str, width: int, *rest: str) -> list[str]:
        return [f"    bus ({name}) {{", f"      bus_type : {shape.name}_{width};", *(
            f"      {line}" for line in rest), "    }"]

    def entering(*rest: str) -> tuple[str, ...]:
        return ("direction : input;", f"capacitance : {pin_pf:.6g};", *(
            f"timing () {{ related_pin : \"clk\"; timing_type : {kind}; "
            f"rise_constraint (scalar) {{ values (\"{value:.6g}\"); }} "
            f"fall_constraint (scalar) {{ values (\"{value:.6g}\"); }} }}"
            for kind, value in (("setup_rising", macro.setup_ns), ("hold_rising", 0.0))), *rest)

    widths = sorted({shape.address_bits, shape.bits, shape.parts})
    types = [line for width in widths for line in (
        f"  type ({shape.name}_{width}) {{ base_type : array; data_type : bit; "
        f"bit_width : {width}; bit_from : {width - 1}; bit_to : 0; downto : true; }}",)]
    leaving = (
        "direction : output;",
        "timing () { related_pin : \"clk\"; timing_type : rising_edge; timing_sense : non_unate; "
        + " ".join(f"{what} (scalar) {{ values (\"{value:.6g}\"); }}" for what, value in (
            ("cell_rise", macro.access_ns), ("cell_fall", macro.access_ns),
            ("rise_transition", macro.setup_ns), ("fall_transition", macro.setup_ns))) + " }")
    return [*types, f"  cell ({shape.name}) {{", f"    area : {macro.area_um2:.6g};",
            "    interface_timing : true;", f"    cell_leakage_power : {macro.leakage_mw:.6g};",
            f"    pin (clk) {{ direction : input; clock : true; capacitance : {pin_pf:.6g}; }}",
            "    pin (r_en) {", *(f"      {line}" for line in entering()), "    }",
            *bus("r_addr", shape.address_bits, *entering()),
            *bus("w_addr", shape.address_bits, *entering()),
            *bus("w_en", shape.parts, *entering()), *bus("w_data", shape.bits, *entering()),
            *bus("r_data", shape.bits, *leaving), "  }"]


def verilog_text(shapes: Iterable[MacroShape], body: bool) -> str:
    """The macros as Verilog modules; without `body` their ports alone, for a synthesizer.

    Before the first write and the first read a memory and its data are undefined. Where a row is
    read in the cycle in which it is written, the data are the old ones, as in the netlist that the
    macro stands in.
    """
    return "".join(_module(shape, body) for shape in sorted(set(shapes)))


def _module(shape: MacroShape, body: bool) -> str:
    head = (f"module {shape.name} (input clk, input [{shape.parts - 1}:0] w_en, "
            f"input [{shape.address_bits - 1}:0] w_addr, input [{shape.bits - 1}:0] w_data, "
            f"input r_en, input [{shape.address_bits - 1}:0] r_addr, "
            f"output {'reg ' if body else ''}[{shape.bits - 1}:0] r_data);\n")
    if not body:
        return f"(* blackbox *)\n{head}endmodule\n"
    writes = "".join(
        f"    if (w_en[{part}]) storage[w_addr][{part * shape.part} +: {shape.part}] <= "
        f"w_data[{part * shape.part} +: {shape.part}];\n" for part in range(shape.parts))
    return (f"{head}  reg [{shape.bits - 1}:0] storage [0:{shape.rows - 1}];\n"
            f"  always @(posedge clk) begin\n{writes}"
            f"    if (r_en) r_data <= storage[r_addr];\n  end\nendmodule\n")
