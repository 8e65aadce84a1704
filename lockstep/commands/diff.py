"""``lockstep diff A B``: two machines side by side, by layer and by unit."""

import argparse

from lockstep.options.arguments import NETWORK, add_json, add_technology, at_least
from lockstep.options.network_files import SIZE
from lockstep.options.paths import machine_name, output_file
from lockstep.options.results import add_pictures, add_rows
from lockstep.options.whole import add_calibration, add_host

MACHINES = "a preset, FILE.toml, or FILE.py, which is run: trust it like a program"


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "diff", help="compare two machines, by unit and by layer of networks",
        description="Compare two machines: geometry, instructions, datapaths, estimated area and "
                    "clock; with --network also each layer's cycles and what bounds it, and each "
                    "unit's busy cycles and energy. Exit status: 0 done, 1 a run failed, 2 the "
                    "request was wrong.")
    add = parser.add_argument
    add("base", metavar="A", type=machine_name, help=f"a machine: {MACHINES}")
    add("other", metavar="B", type=machine_name, help="the one to compare it with")
    add("--network", action="append", default=[], metavar="N", dest="networks",
        help=f"compile and simulate it for both: {NETWORK} (repeatable)")
    add("--size", type=at_least(1), default=SIZE, metavar="N",
        help=f"pixels, frames or tokens of named networks (default {SIZE})")
    add_technology(parser)
    add_json(parser, "write the comparison as JSON")
    add_rows(parser, "the figures of both")
    add("--html", type=output_file, metavar="FILE.html", help="write one page with pictures")
    add_pictures(parser)
    add_host(parser)
    add_calibration(parser)
    parser.set_defaults(machine=None)
    return parser


def run(args: argparse.Namespace) -> int:
    from lockstep.diff.machines import diff_closely

    return diff_closely(args)
