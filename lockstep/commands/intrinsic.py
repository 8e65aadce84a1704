"""``lockstep intrinsic new|show``: instructions of one's own."""

import argparse

from accel.machine.config import MACHINE
from lockstep.commands._arguments import add_machine
from lockstep.paths import output_file

__all__ = ["add_parser", "run"]

GEOMETRY = "tiny-1x4x4"


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "intrinsic", help="begin and look at instructions of one's own",
        description="Instructions that a machine's file declares. Exit status: 0 done, 1 a run "
                    "failed, 2 the request was wrong.")
    kinds = parser.add_subparsers(metavar="COMMAND", required=True)
    for add, perform in ((_add_new, _new), (_add_show, _show)):
        add(kinds).set_defaults(perform=perform)
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
    from lockstep.commands._new import new

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
    from lockstep.commands._show import show

    return show(args.name, args.machine, args.json, args.verilog)
