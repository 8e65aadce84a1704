"""``lockstep intrinsic new|show|diff|bench``: instructions of one's own."""

import argparse

from accel.machine.config import MACHINE
from lockstep.options.arguments import (NETWORK, add_kinds, add_machine, add_memory,
                                        add_technology, at_least)
from lockstep.options.network_files import SIZE
from lockstep.options.paths import machine_name, output_file
from lockstep.options.results import add_pictures, add_rows
from lockstep.options.whole import add_calibration, add_host

GEOMETRY = "tiny-1x4x4"
MACHINES = "a preset, FILE.toml, or FILE.py, which is run: trust it like a program"


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "intrinsic", help="begin, look at, compare and measure instructions of one's own",
        description="Instructions that a machine's file declares. Exit status: 0 done, 1 a run "
                    "failed, 2 the request was wrong.")
    add_kinds(parser, ((_add_new, _new), (_add_show, _show), (_add_diff, _diff),
                       (_add_bench, _bench)))
    return parser


def run(args: argparse.Namespace) -> int:
    return args.perform(args)


def _add_new(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "new", help="write a machine with one instruction more, to edit",
        description="Write a machine's file: a shipped geometry, the shipped instructions and one "
                    "more, which works as it stands, with comments on what can be changed. A file "
                    "that exists is not overwritten.")
    add = parser.add_argument
    add("name", metavar="NAME", help="of the instruction: an identifier")
    add("--preset", default=GEOMETRY, metavar="P", help=f"the geometry (default {GEOMETRY})")
    add("-o", "--output", type=output_file, metavar="FILE.py", help="default: NAME.py")
    return parser


def _new(args: argparse.Namespace) -> int:
    from lockstep.intrinsics.new import new

    return new(args.name, args.preset, args.output)


def _add_show(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "show", help="show encoding, meaning, time and hardware of an instruction",
        description="Show an instruction: its word with the fields that it reads, what it "
                    "computes, operands, immediates, loops, time, and the operators and registers "
                    "of its unit's datapath.")
    add = parser.add_argument
    add("name", metavar="NAME", help="of the instruction")
    add_machine(parser, f"that has it (default {MACHINE})", MACHINE)
    add("--json", type=output_file, metavar="R.json", help="write all of it as JSON")
    add("--verilog", type=output_file, metavar="FILE.v",
        help="write the datapath of its unit, gemm or vector, as Verilog")
    return parser


def _show(args: argparse.Namespace) -> int:
    from lockstep.intrinsics.show import show

    return show(args.name, args.machine, args.json, args.verilog)


def _add_diff(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "diff", help="compare two machines: instructions, encodings, hardware, cycles",
        description="Compare two machines: instructions that were added, removed or changed, "
                    "opcodes and fields that moved, geometry, memory, operators and registers of "
                    "the datapaths, times and, with --networks, the cycles of networks. A machine "
                    "alone is compared with the shipped instructions in its own geometry.")
    add = parser.add_argument
    add("base", metavar="BASE", type=machine_name, help=f"a machine: {MACHINES}")
    add("other", metavar="OTHER", type=machine_name, nargs="?", help="the one to compare it with")
    add("--machine", "--config", type=machine_name, metavar="M", help="OTHER, as an option")
    add("--networks", type=_names, default=(), metavar="LIST",
        help=f"compile and run these for both, in the cycle simulator, with commas: {NETWORK}")
    _add_size(parser)
    add("--json", type=output_file, metavar="R.json", help="write the comparison as JSON")
    add_rows(parser, "the figures of both")
    add("--html", type=output_file, metavar="FILE.html", help="write one page with pictures")
    add_pictures(parser)
    add_host(parser)
    add_calibration(parser)
    return parser


def _diff(args: argparse.Namespace) -> int:
    from lockstep.diff.machines import diff

    return diff(args)


def _add_bench(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "bench", help="measure networks on a machine, and beside another one",
        description="Compile networks for a machine, run each once in the cycle simulator, and "
                    "tell cycles, share of the array's peak, and how often each instruction was "
                    "executed; with --base, beside another machine.")
    add = parser.add_argument
    add("networks", metavar="NETWORK", nargs="*", help=f"{NETWORK} (default digits keywords)")
    add_machine(parser, f"(default {MACHINE})", MACHINE)
    add("--base", type=machine_name, metavar="M", help="the machine to compare with")
    add_memory(parser)
    _add_size(parser)
    add_technology(parser)
    add("--json", type=output_file, metavar="R.json", help="write the figures as JSON")
    add_host(parser)
    add_calibration(parser)
    return parser


def _bench(args: argparse.Namespace) -> int:
    from lockstep.intrinsics.bench import bench

    return bench(args)


def _add_size(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=at_least(1), default=SIZE, metavar="N",
                        help=f"pixels, frames or tokens of named networks (default {SIZE})")


def _names(text: str) -> tuple[str, ...]:
    """Parses names with commas."""
    names = tuple(text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"must be names with commas between, not {text!r}")
    return names
