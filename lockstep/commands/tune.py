"""``lockstep tune MODEL --target T``: searches plans for a network and keeps what it measures."""

import argparse

from lockstep.options.choices import OneOf
from lockstep.options.arguments import (NETWORK, add_bind, add_json, add_machine, add_tls,
                                        add_verbose, at_least, minutes, seconds, shape)
from lockstep.options.paths import MachineName, model_file, output_file


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "tune", help="search faster schedules of a network for a target",
        description="Search faster schedules: each task of the network (the kernel of a group of "
                    "operators, the algorithm of a convolution) is measured in many ways. Results "
                    "are kept in a database, which --plans of compile and run reads. A search that "
                    "was stopped goes on where it was. Exit status: 0 done, 2 the request was "
                    "wrong, 130 stopped by Ctrl-C, which keeps everything.")
    add = parser.add_argument
    add("model", metavar="MODEL", type=model_file,
        help=NETWORK)
    add("--target", type=MachineName, metavar="T", default="cpu",
        help="cpu, cpu:THREADS, cuda, opencl, accel:MACHINE, or a list of them (default cpu)")
    add_machine(parser, "that a target means by accel alone", None)
    add("--trials", type=at_least(1), metavar="N", default=512,
        help="plans that are measured, of all tasks together, with those of earlier searches by "
             "this seed; on an accelerator ways to compute layers (default 512)")
    add("--minutes", type=minutes, metavar="M",
        help="measure no more new plans after so long; the best ones are still measured again, "
             "beside the target's own")
    add("--patience", type=at_least(1), metavar="N", default=64,
        help="a task ends after so many trials without gain (default 64)")
    add("--limit", type=seconds, metavar="S", default=60.0,
        help="seconds that a trial may take, with its build (default 60)")
    add("--db", type=output_file, metavar="FILE",
        help="the database (default: one in the cache), made if there is none")
    add("--pool", metavar="ADDRESS",
        help="workers of a scheduler, tcp://HOST:PORT or tls://HOST:PORT (lockstep pool); none: "
             "one process here that builds and measures (default: workers of this computer, one "
             "measures, the others build, and all count the cycles of accelerators; needs the "
             "extra pool, else as with none)")
    add_tls(parser)
    add("--strategy", type=OneOf("compiler.tune.explorer:STRATEGIES"), default="guided",
        help="guided: by estimates, then by a model that learns; descent: neighbours of the best; "
             "random; grid: all (default guided)")
    add("--seed", type=at_least(0), default=0, metavar="N", help="of the search (default 0)")
    add("--shape", action="append", type=shape, default=[], metavar="NAME=N",
        help="extent of a dimension that the model leaves open")
    add_bind(parser)
    add("--report", type=output_file, metavar="FILE.html",
        help="write a page: curves of the search, estimates against measurements, what the best "
             "plans do differently")
    add_json(parser, "write the results as JSON")
    add_verbose(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    from lockstep.searching import tune as _tune

    return _tune.tune(args)
