"""``lockstep explore NETWORK... --base M``: which machine?"""

import argparse

from accel.machine.config import MACHINE
from lockstep.options.choices import OneOf
from lockstep.options.arguments import (EFFORT, NETWORK, add_json, add_technology, add_tls,
                                        at_least, seconds)
from lockstep.options.network_files import SIZE
from lockstep.options.paths import input_file, machine_name, output_file
from lockstep.options.results import add_pictures, add_rows
from lockstep.options.whole import add_calibration, add_host


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "explore", help="vary a machine, and measure what that does to networks",
        description="Make machines from a base by changed fields and added instructions, compile "
                    "networks for each, prove and simulate them in exact time, and show which "
                    "machines no other one beats in all objectives. The values of these are "
                    "compared with those of the host. An exploration that was stopped goes on "
                    "where it was. Exit status: 0 done, 1 a machine computes other values, 2 the "
                    "request was wrong, 130 stopped by Ctrl-C, which keeps everything.")
    add = parser.add_argument
    add("networks", metavar="NETWORK", nargs="+",
        help=NETWORK)
    add("--base", type=machine_name, metavar="M", default=MACHINE,
        help=f"the machine that is changed: a preset, FILE.toml or FILE.py, which is run: trust it "
             f"like a program (default {MACHINE})")
    add("--vary", action="append", default=[], metavar="FIELD=A,B,C",
        help="a field of the machine's TOML file, of its memory (memory.latency) or a buffer (wgt) "
             "with its values: numbers, 32k, or half, same, double and so on of the base's; "
             "units=1,2 the units of vector; machine=M,M varies whole machines (repeatable)")
    add("--space", type=input_file, metavar="FILE.toml", help="the same as a table [vary]")
    add("--add", action="append", type=machine_name, default=[], metavar="FILE.py",
        help="instructions that each machine may have or not: those of this machine (repeatable)")
    add("--objective", metavar="LIST",
        help="what the front is of, with commas: ms and energy, of the whole inference, host and "
             "copies included; cycles and dram, of the accelerator alone; host_ms, accuracy, area, "
             "luts, registers, multipliers, block_rams, gates, mhz, bytes, products, edp, power, "
             "or a formula of these such as energy*ms (default: ms, area or luts, and energy, as "
             "far as the technology has them)")
    add_technology(parser)
    add("--budget", action="append", default=[], dest="limits", metavar="LIMIT",
        help='the most or the least of an objective, such as "area<=2" or "mhz>=80" '
             '(repeatable)')
    add("--strategy", default="auto",
        type=OneOf("runtime.exploring.exploration:STRATEGIES", first=("auto",)),
        help="grid: all; random; search: by what was measured so far, for a front soon; auto: grid "
             "for up to 256 machines, else search (default auto)")
    add("--trials", type=at_least(1), metavar="N",
        help="machines that are measured, the base and each field alone among them (default: "
             "all of a grid, else 200)")
    add("--seed", type=at_least(0), default=0, metavar="N", help="of the strategy (default 0)")
    add("--size", type=at_least(1), default=SIZE, metavar="N",
        help=f"pixels, frames or tokens of named networks (default {SIZE})")
    add("--effort", type=EFFORT, default=0,
        help="search mappings for machines on the front, too, by simulating some ways, or a few "
             "dozen, of every layer that loses cycles, until the front has no other machines "
             "(default 0: none; --vary effort=0,1 searches them for every machine)")
    add("--synthesize", action="store_true",
        help="run yosys for the cores of machines on the front, minutes each, and show what it "
             "makes beside the estimates (extra fpga)")
    add("--route", action="store_true",
        help="run nextpnr for them as well, for the smallest ECP5 with room, many minutes each")
    add("--jobs", type=at_least(1), metavar="N",
        help="cores that are built at a time (default: one for each core of this computer)")
    add_host(parser)
    add("--same-division", action="store_true",
        help="refuse machines for which the host computes other layers than for the base")
    add("--db", type=output_file, metavar="FILE",
        help="the database of records (default: one in the cache), made if there is none")
    add("--pool", metavar="ADDRESS",
        help="workers of a scheduler, tcp://HOST:PORT or tls://HOST:PORT (lockstep pool; default: "
             "processes here)")
    add_tls(parser)
    add("--processes", type=at_least(0), metavar="N",
        help="processes here; 0: this one (default: one for each core, two at least)")
    add("--limit", type=seconds, metavar="S", default=600.0,
        help="seconds that a network may take on a machine (default 600)")
    add("--no-check", action="store_true",
        help="do not compare the values of the front with those of the host")
    add("--report", type=output_file, metavar="PAGE.html",
        help="write a page: fronts to turn and filter, each machine, each field alone")
    add_pictures(parser)
    add_json(parser, "write everything as JSON")
    add_rows(parser, "the machines")
    add_calibration(parser, budget="--quantizer-budget")
    return parser


def run(args: argparse.Namespace) -> int:
    from lockstep.searching import explore as _explore

    return _explore.explore(args)
