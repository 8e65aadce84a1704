"""``lockstep asic``: a machine's core in standard cells, with area, clock and power."""

import argparse
import json
from pathlib import Path
from typing import Any

from accel.machine.config import MACHINE
from compiler.errors import RequestError
from compiler.files import write_text
from lockstep.options.arguments import add_machine, at_least
from lockstep.options.choices import OneOf
from lockstep.options.paths import output_file
from lockstep.printing.lines import say

READY = "osu018"


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "asic", help="map a machine to standard cells: area, clock, power, a technology file",
        description="Map a machine's core to standard cells with yosys, memories as macros; time "
                    "it with OpenSTA; run a network on the netlist, each run from another "
                    "undefined start, and compare its memory to the bit; price what its nets did. "
                    "All figures are pre-layout (docs/asic.md). Exit status: 0, or 2 where the "
                    "request is wrong or a tool is missing, 3 where the netlist does something "
                    "else.")
    add_machine(parser, f"(default {MACHINE})", MACHINE)
    add = parser.add_argument
    add("--library", type=OneOf("asic.library:READY"), metavar="NAME",
        help=f"cells that a Debian package has (default {READY}): osu018, osu035, osu050")
    add("--liberty", type=Path, metavar="FILE", help="cells of your own, in Liberty; with --node")
    add("--node", type=at_least(1), metavar="NM",
        help="the process of --liberty in nm, to which memories are scaled")
    add("--mhz", type=at_least(1), metavar="N",
        help="the clock that sizes of cells aim at (default: as fast as they get)")
    add("--network", default="digits", metavar="MODEL",
        help="the network whose energy is counted: a file, or a name such as digits (default)")
    add("--runs", type=at_least(1), default=1, metavar="N",
        help="how many random inputs of it run, each from another start (default 1)")
    add("-o", "--output", type=output_file, metavar="TECH.toml",
        help="write the technology file, which --technology of run and explore reads")
    add("--netlist", type=Path, metavar="DIR",
        help="write the netlist there: core.v, and cells and macros as Verilog and Liberty")
    add("--json", type=output_file, metavar="R.json", help="write all figures")
    return parser


def run(args: argparse.Namespace) -> int:
    from accel.machine.loading import load_machine
    from asic.gates import GateCore
    from asic.netlist import FASTEST_NS, synthesize
    from asic.power import NetPrices
    from asic.report import figures_of
    from asic.running import run_network
    from asic.technology import fit
    from asic.timing import find_sta, timing
    from lockstep.printing.progress import progress_bar

    cells = _cells(args)
    machine = load_machine(args.machine)
    model = _model(args.network)
    find_sta()
    period = max(1e3 / args.mhz, FASTEST_NS) if args.mhz else FASTEST_NS
    netlist = synthesize(machine, cells, period)
    with progress_bar("timing", 0, lambda: 0):
        timed = timing(netlist)
    done = [0]
    with progress_bar(f"{args.network} on gates", args.runs, lambda: done[0]):
        core = GateCore(netlist)
        ran = run_network(core, NetPrices(core), model, args.runs,
                          progress=lambda count: done.__setitem__(0, count))
    fitted = None
    if args.output:
        name = Path(args.output).stem
        fitted = fit(name, netlist, timed, ran.joined(), ran.profiles)
        write_text(args.output, fitted.text)
    if args.netlist:
        _write_netlist(netlist, args.netlist)
    figures = figures_of(netlist, timed, ran, args.network, fitted)
    if args.json:
        write_text(args.json, json.dumps(figures, indent=1) + "\n")
    _show(figures, args)
    return 0


def _cells(args: argparse.Namespace) -> Any:
    from asic.library import read_library, ready_library

    if args.liberty is None:
        if args.node:
            raise RequestError("--node must come with --liberty")
        return ready_library(args.library or READY)
    if args.library:
        raise RequestError("--liberty must not come with --library")
    if not args.node:
        raise RequestError("--liberty must come with --node NM, the process of its cells")
    return read_library(args.liberty, float(args.node))


def _model(text: str) -> Any:
    from lockstep.options.network_files import may_be_name, network_file

    path = network_file(text) if may_be_name(text) else Path(text)
    if not path.is_file():
        raise RequestError(f"--network must be a file that exists, not {text!r}")
    return path


def _write_netlist(netlist: Any, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("core.v", "cells.v", "macros.v", "macros.lib"):
            write_text(folder / name, (netlist.folder / name).read_text())
    except (FileExistsError, NotADirectoryError, PermissionError):
        raise RequestError(f"--netlist must name a folder that can be written, not "
                           f"{str(folder)!r}") from None


def _show(figures: dict[str, Any], args: argparse.Namespace) -> None:
    from lockstep.printing.table import show_columns

    power, ran = figures["power"], figures["run"]
    rows = [(name, f"{unit['cells']:,}", f"{unit['logic_um2']:,.0f}", str(unit["macros"]),
             f"{unit['memory_um2']:,.0f}", f"{unit['share']:.1%}",
             f"{unit['period_ns']:.2f}" if unit["period_ns"] else "-", f"{unit['mw']:.3f}",
             f"{unit['leakage_mw']:.4f}") for name, unit in figures["units"].items()]
    show_columns(f"{figures['machine']['name']} in {figures['library']['name']}, pre-layout",
                 ("unit", "cells", "logic um2", "macros", "memory um2", "area", "ns", "mW",
                  "leaks mW"), rows)
    say(f"area {figures['area_mm2']:.3f} mm2 pre-layout: logic {figures['logic_mm2']:.3f}, "
        f"memories {figures['memory_mm2']:.3f}")
    say(f"clock {figures['mhz']:.1f} MHz pre-layout, from {figures['path']['begin']} to "
        f"{figures['path']['end']}")
    say(f"power {power['mw']:.1f} mW pre-layout at that clock in {ran['network']}: " + ", ".join(
        f"{part} {milliwatts:.1f}" for part, milliwatts in power["parts"].items())
        + f", leakage {power['leakage_mw']:.3f}")
    say(f"netlist: inputs of {ran['network']}, each from another undefined start: {ran['runs']}; "
        f"programs: {ran['programs']}; {ran['compared']:,} bytes of memory as declared, "
        f"{ran['cycles']:,} cycles as simulated")
    if fitted := figures["technology"]:
        say(f"{args.output}: energies fitted within " + ", ".join(
            f"{group} {error:+.0%}" for group, error in fitted["errors"].items()))
    if args.netlist:
        say(f"{args.netlist}: core.v, cells.v, macros.v, macros.lib")
