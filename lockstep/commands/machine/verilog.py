"""``lockstep verilog -o DIR``: the hardware of a machine as Verilog, with a test bench."""

import argparse
from pathlib import Path

from accel.machine.config import MACHINE
from compiler.errors import RequestError
from lockstep.printing.lines import say
from lockstep.options.arguments import add_machine, at_least
from lockstep.options.choices import OneOf


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "verilog", help="write the hardware of a machine as Verilog, with a test bench",
        description="Write a folder with the core in Verilog, its ports and memories in README.md "
                    "and memories.csv, waivers for Verilator's lint, and a test bench that runs "
                    "one program and compares, for Verilator and Icarus. The same machine and "
                    "options give the same bytes.")
    add = parser.add_argument
    add_machine(parser, f"(default {MACHINE})", MACHINE)
    add("--bus", type=OneOf("fpga.verilog.export:BUSES"), default="native",
        help="native: the core's own ports (default); axi4: registers behind AXI4-Lite, memory "
             "behind AXI4, an interrupt")
    add("--clock-mhz", type=at_least(1), metavar="N",
        help="of --bus axi4: what its register of the clock says (default: the machine's)")
    add("--vivado", action="store_true",
        help="with --bus axi4: write the script, too, from which Vivado makes a bitstream for "
             "PYNQ-Z1 or PYNQ-Z2 (docs/fpga.md)")
    add("-o", "--output", type=Path, required=True, metavar="DIR",
        help="the folder to write to; it is made where it is missing")
    return parser


def run(args: argparse.Namespace) -> int:
    from accel.machine.loading import load_machine
    from fpga.verilog.export import export

    for option, given in (("--clock-mhz", args.clock_mhz), ("--vivado", args.vivado)):
        if given and args.bus != "axi4":
            raise RequestError(f"{option} must come with --bus axi4, not {args.bus}")
    machine = load_machine(args.machine)
    try:
        files = export(machine, args.bus, args.clock_mhz or machine.config.clock_mhz, args.output,
                       args.vivado)
    except (FileExistsError, NotADirectoryError, PermissionError):
        raise RequestError(f"--output must name a folder that can be written, not "
                           f"{str(args.output)!r}") from None
    for file in files:
        say(f"{file}: {file.stat().st_size:,} bytes")
    if args.vivado:
        say(f"in {args.output} run `vivado -mode batch -source build.tcl`")
    return 0
