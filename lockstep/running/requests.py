"""Requests that ``lockstep run`` refuses before anything is computed."""

import argparse

from accel.estimates.technology import load_technology
from compiler.errors import RequestError
from lockstep.report import require_plotly
from lockstep.report.pictures import require_matplotlib
from lockstep.options.results import PICTURES
from lockstep.options.simulators import DEFAULT_SIMULATOR, RTL, TIMED
from runtime.pricing.hosts import known_host

PAGES = ("report", *PICTURES)
"""Options that show what every unit did when."""

HERE = ("waves", "sim", "latency", "outstanding", "bytes_per_cycle", "row_buffer", "refresh",
        "stall_seed", "no_values", "trace", *PAGES, "technology", "memory", "precision")
"""Options of what runs here."""


def require_sense(args: argparse.Namespace) -> None:
    """Refuses options that would have no effect, and hosts that there are not."""
    _require_sense_there(args)
    known_host(args.host)
    for option, given in (("--trace", args.trace), ("--report", args.report), ("--svg", args.svg),
                          ("--pdf", args.pdf), ("--technology", args.technology),
                          ("--no-values", args.no_values), ("--waves", args.waves)):
        if given and args.target.partition(":")[0] == "cpu" and "," not in args.target:
            raise RequestError(f"{option} must be left out with --target cpu: the host has no "
                               f"cycles")
    if args.trace and args.sim == "functional":
        raise RequestError("--trace must come with --sim cycle, slice or verilator: functional has "
                           "no cycles")
    if args.waves and args.sim != RTL:
        raise RequestError(f"--waves must come with --sim {RTL}, not {args.sim}: the RTL alone has "
                           f"signals")
    _require_page(args)
    if args.technology:
        _require_technology(args)
    if args.no_values and args.sim not in TIMED:
        raise RequestError(f"--no-values must come with --sim {' or '.join(TIMED)}, not {args.sim}")
    if args.no_values and args.output:
        raise RequestError("--output must be left out with --no-values: there are none")


def _require_sense_there(args: argparse.Namespace) -> None:
    for option in ("device", "tls"):
        if getattr(args, option) and args.on is None:
            raise RequestError(f"--{option} must come with --on ADDRESS")
    for option in HERE if args.on else ():
        if getattr(args, option) not in (None, False, {}, DEFAULT_SIMULATOR):
            raise RequestError(f"--{option.replace('_', '-')} must be left out with --on: the "
                               f"network runs elsewhere")


def _require_page(args: argparse.Namespace) -> None:
    wanted = [option for option in PAGES if getattr(args, option)]
    if wanted and args.sim not in TIMED:
        raise RequestError(f"--{wanted[0]} must come with --sim {' or '.join(TIMED)}, not "
                           f"{args.sim}: only these say what every unit did when")
    if args.report:
        require_plotly()
    require_matplotlib(args)


def _require_technology(args: argparse.Namespace) -> None:
    if args.sim != "cycle":
        raise RequestError(f"--technology must come with --sim cycle, not {args.sim}: the cycle "
                           f"simulator alone counts every access")
    args.technology = load_technology(args.technology)


def require_programs(args: argparse.Namespace, programs, machine) -> None:
    """Refuses options about programs where the accelerator has none, or not the layer."""
    for option in (*PAGES, "technology"):
        if getattr(args, option) and not programs:
            raise RequestError(f"--{option} must be left out for {str(args.model)!r}: all of it "
                               f"runs on the host, which has no cycles")
    layers = [name for program in programs for name, _ in program.layers]
    if args.waves and args.waves[0] not in layers:
        raise RequestError(f"--waves must name a layer that runs on the accelerator "
                           f"({', '.join(layers) or 'there are none'}), not {args.waves[0]!r}")
