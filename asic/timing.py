"""The clock of a mapped core, by OpenSTA, before a layout.

Wires are capacitances for each pin that they drive (`asic.netlist.wire_pf`), clocks arrive
everywhere at once, inputs come with the clock's edge from a buffer, outputs drive one.
"""

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from compiler.native import BuildError
from compiler.processes import run_tool

from .memories import WIRES
from .netlist import TOP, MappedCore

STA, INSTALL = "sta", "apt install opensta"
WIDE_NS = 1000.0
"""A period in which every path is in time; slack from it is what a path leaves."""


@dataclass(frozen=True)
class SlowestPath:
    """The slowest path.

    Parameters
    ----------
    period_ns : the least period at which every path is in time.
    begin, end : where the path begins and ends: ``vector/_1234_``.
    units : the least period by unit in which paths end; of paths to the core's outputs ``core``.
    """

    period_ns: float
    begin: str
    end: str
    units: Mapping[str, float]

    @property
    def mhz(self) -> float:
        return 1e3 / self.period_ns


def timing(netlist: MappedCore) -> SlowestPath:
    """The least period of a netlist. Raises `compiler.native.BuildError` where OpenSTA is missing
    or does not take the netlist.
    """
    text = _run(netlist, "timing", [
        *_setup(netlist, WIDE_NS), "report_checks -path_delay max -format full -digits 4",
        f"puts {_ENDS}",
        "report_checks -path_delay max -format end -group_count 1000000 -digits 4"])
    path, _, ends = text.partition(_ENDS)
    begin, end = (re.search(rf"{kind}point: (\S+)", path) for kind in ("Start", "End"))
    slacks: dict[str, float] = {}
    for name, slack in re.findall(r"^(\S+) \(.*\s(-?[\d.]+) \((?:MET|VIOLATED)\)$", ends,
                                  re.MULTILINE):
        unit = name.partition("/")[0] if "/" in name else TOP
        slacks[unit] = min(slacks.get(unit, WIDE_NS), float(slack))
    if not (begin and end and slacks):
        raise BuildError(f"OpenSTA must report paths, not {text[-400:]!r}")
    return SlowestPath(WIDE_NS - min(slacks.values()), begin[1], end[1],
                  {unit: WIDE_NS - slack for unit, slack in sorted(slacks.items())})


_ENDS = "ENDPOINTS"


def _setup(netlist: MappedCore, period_ns: float) -> list[str]:
    """Commands with which OpenSTA reads a netlist; it runs in the netlist's folder."""
    cells = netlist.cells
    return ["read_liberty cells.lib", "read_liberty macros.lib",
            "read_verilog core.v",
            f"link_design {TOP}", f"create_clock -name clk -period {period_ns:.6g} clk",
            f"set_driving_cell -lib_cell {cells.buffer} -pin {cells.buffer_output} [all_inputs]",
            "set_input_delay 0 -clock clk [all_inputs]",
            "set_output_delay 0 -clock clk [all_outputs]",
            f"set_load {cells.pin_pf:.6g} [all_outputs]",
            f"set_wire_load_model -name {WIRES}", "set_wire_load_mode top"]


def _run(netlist: MappedCore, name: str, lines: list[str]) -> str:
    """Runs a script of OpenSTA in the netlist's folder; the text that it prints."""
    tool = find_sta()
    with tempfile.NamedTemporaryFile("w", prefix=name, suffix=".tcl") as script:
        script.write("\n".join(lines) + "\nexit\n")
        script.flush()
        done = run_tool([tool, "-no_splash", "-exit", script.name], cwd=netlist.folder)
    text = done.stdout + done.stderr
    said = re.search(r"^Error.*", text, re.MULTILINE)
    if done.returncode or said:
        what = said[0] if said else text.strip()[-600:]
        raise BuildError(f"OpenSTA must take the netlist of {netlist.machine.config.name}: {what}")
    return text


def find_sta() -> str:
    """The program. Raises BuildError if there is none."""
    if path := shutil.which(STA):
        return path
    raise BuildError(f"{STA} (OpenSTA) must be there for timing: {INSTALL}")
