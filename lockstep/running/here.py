"""A run on the simulators and the processor of this computer."""

import argparse
import sys
import time
from contextlib import nullcontext
from typing import Any

import numpy as np

import lockstep
from accel.sim.trace import TraceFile
from lockstep.options.inputs import arrays, set_inputs
from lockstep.printing.energy import add_technology
from lockstep.printing.progress import progress_bar
from lockstep.provenance import Asked
from lockstep.running.networks import compiled_network, imported_network
from lockstep.running.requests import PAGES, require_programs
from lockstep.running.results import (provenance, put_results, show, simulator_of,
                                       write_page)
from runtime import DeviceError, report
from runtime.exporting.ports import random_inputs
from runtime.pricing.hosts import known_host
from runtime.whole import host_part, waiting_joules


def run_here(args: argparse.Namespace, saved, asked: Asked) -> int:
    """Compiles the network, unless it is `saved`, and runs it; the exit status."""
    with TraceFile(args.trace) if args.trace else nullcontext() as trace:
        return _run(args, saved, trace, asked)


def _run(args: argparse.Namespace, saved, trace, asked: Asked) -> int:
    given = arrays(args.input) if args.input else None
    graph, quantized = (None, None) if saved else imported_network(args, given)
    module, machine, watched = compiled_network(args, saved, graph)
    programs = [compiled.program for compiled in module.accelerated]
    if trace:
        trace.require_space(programs)
    require_programs(args, programs, machine)
    inputs = random_inputs(module.graph, args.seed) if given is None else given
    set_inputs(module, inputs)
    begin = time.perf_counter()
    try:
        with progress_bar(f"{args.model.name} on {args.target} ({args.sim})",
                          sum(program.count for program in programs), watched.retired):
            runs = module.run()
    except DeviceError as error:
        _write_trace(args, trace, machine, watched)     # it shows how far the run got
        print(f"lockstep: {error}", file=sys.stderr)
        return 1
    figures = report(module, runs, machine, time.perf_counter() - begin)
    figures |= {"model": args.model.title, "target": args.target,
                "simulator": simulator_of(args, runs),
                "seed": args.seed if given is None else None, "quantized": quantized,
                "provenance": provenance(args, asked, machine)}
    if args.precision:
        figures["precision"] = {"kind": args.precision, "errors": _errors(module, graph, inputs)}
    if args.no_values:
        figures["outputs"] = []
    if machine and args.technology:
        add_technology(figures, watched.recordings, machine, args.technology)
    _add_whole(args, figures, module, machine)
    _write_trace(args, trace, machine, watched)
    put_results(args, module, figures)
    if any(getattr(args, option) for option in PAGES):
        write_page(args, figures, machine, watched)
    show(args, figures, machine)
    return 0


def _add_whole(args: argparse.Namespace, figures: dict[str, Any], module, machine) -> None:
    """Adds the host's part, where the time of the accelerator's is known."""
    is_timed = machine and (figures["cycles"] or not module.accelerated)
    energies = args.technology.energies if args.technology else None
    part = host_part(module, known_host(args.host), energies) if is_timed else None
    figures["whole"] = part and part.plain(figures["seconds"]) | {
        "waiting_joules": waiting_joules(machine, energies, part)}


def _write_trace(args: argparse.Namespace, trace, machine, watched) -> None:
    if trace:
        with progress_bar(f"writing {args.trace.name}", 0, lambda: 0):
            trace.write(machine, watched.recordings)


def _errors(module, graph, inputs) -> dict[str, float]:
    """The error of float outputs against the same network on the host, in float32: the greatest
    difference, over the greatest element.
    """
    host = lockstep.compile(graph, "cpu")
    set_inputs(host, inputs)
    host.run()
    errors = {}
    for name in module.graph.outputs:
        found, wanted = (np.asarray(one.get_output(name)) for one in (module, host))
        if wanted.dtype.kind == "f" and wanted.size:
            difference = np.abs(found.astype(np.float64) - wanted).max()
            errors[name] = float(difference / max(np.abs(wanted).max(), np.finfo(np.float32).tiny))
    return errors
