"""``lockstep run MODEL``: compiles a network, runs one inference, and prints the cost of each
layer.
"""

import argparse

from lockstep.options.arguments import (NETWORK, add_compilation, add_json, add_technology, add_tls,
                                        at_least, rate, refresh, row_buffer, waves)
from lockstep.options.whole import add_accuracy, add_host
from lockstep.options.saved import saved_module
from lockstep.options.results import add_pictures, add_rows
from lockstep.options.choices import OneOf
from lockstep.options.paths import input_file, model_file, output_file
from lockstep.options.simulators import DEFAULT_SIMULATOR, RTL


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "run", help="run a network on the accelerator (or the host) and report each layer",
        description="Compile a network, or take one that `lockstep compile` has written; run "
                    "one inference and report each layer. Without --input the input is seeded "
                    "random. torch evaluates parts of a .pt2 file: trust it like a program. Exit "
                    "status: 0 done, 1 the run failed, 2 the request was wrong.")
    add = parser.add_argument
    add("model", metavar="MODEL", type=model_file,
        help=f"{NETWORK}; or what lockstep compile has made of one")
    add_accuracy(add_compilation(parser))
    add("--sim", type=OneOf("runtime.devices.device:SIMULATORS"),
        help="values only; cycles, fast; those of the RTL without its data; the RTL, which takes "
             "long "
             f"(default {DEFAULT_SIMULATOR}; with --waves {RTL})")
    add("--latency", "--dram-latency", type=at_least(0), metavar="N",
        dest="latency", help="of the memory, in cycles (this and the next five: by default that of "
                             "the machine or of --memory, else 64)")
    add("--outstanding", "--dram-outstanding", type=at_least(1), metavar="N",
        dest="outstanding", help="bursts of the memory in flight (else 64)")
    add("--bytes-per-cycle", type=rate, metavar="X",
        help="average rate of the memory (else the width of the machine's bus)")
    add("--row-buffer", type=row_buffer, default={}, metavar="BYTES[,MISS[,BANKS]]",
        help="rows of the memory: their size, cycles of a miss (default 20), banks (default 8)")
    add("--refresh", type=refresh, default={}, metavar="INTERVAL,CYCLES",
        help="refresh of the memory: cycles from one to the next, cycles of each (else none)")
    add("--stall-seed", type=at_least(0), metavar="N",
        help="of random stalls of the memory (else 0: none)")
    add("--no-values", action="store_true", help="cycles only: outputs are not computed")
    add("--input", type=input_file, metavar="X.npz",
        help="inputs, by name; they tell the dimensions that the model leaves open")
    add("--output", type=output_file, metavar="Y.npz", help="write the outputs, by name")
    add_json(parser, "write the report as JSON")
    add_rows(parser, "the layers")
    add("--trace", type=output_file, metavar="T.json",
        help="write what every unit did when: .json or .json.gz for Perfetto, .vcd for short runs")
    add("--waves", type=waves, metavar="LAYER[,FILE.fst]",
        help="write the waveforms of all signals of the RTL while a layer runs, for GTKWave or "
             "Surfer (default file: LAYER.fst)")
    add("--report", type=output_file, metavar="FILE.html",
        help="write one page with timeline, roofline, stalls, traffic and buffers (--sim cycle or "
             "slice)")
    add_pictures(parser)
    add("--bounds", action="store_true",
        help="show how far each layer can be from its best: least cycles and bytes of all tilings")
    add_technology(parser, None)
    add_host(parser)
    add("--seed", type=at_least(0), default=0, metavar="N", help="of the random input (default 0)")
    add("--on", metavar="ADDRESS",
        help="run on a worker of the pool at tcp://HOST:PORT or tls://HOST:PORT (lockstep pool)")
    add("--device", metavar="D", help="of the pool (default: that of the target)")
    add_tls(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    from lockstep.options.compilation import target_of
    from lockstep.provenance import Asked
    from lockstep.running.requests import require_sense

    args.sim = args.sim or (RTL if args.waves else DEFAULT_SIMULATOR)
    asked = Asked.of(args)
    saved = saved_module(args, args.machine)
    if saved is None:
        args.target = target_of(args)
    require_sense(args)
    if args.on:
        from lockstep.running.there import run_there

        return run_there(args, saved, asked)
    from lockstep.running.here import run_here

    return run_here(args, saved, asked)
