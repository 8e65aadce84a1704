"""``lockstep run MODEL``: compiles a network, runs one inference, and prints the cost of each
layer.
"""

import argparse
import json
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from compiler.errors import RequestError
from lockstep.options.arguments import (NETWORK, add_compilation, add_json, add_technology, add_tls,
                                        at_least, rate, refresh, row_buffer, waves)
from lockstep.options.whole import add_host
from lockstep.options.inputs import arrays, set_inputs, write_outputs
from lockstep.options.saved import saved_module
from lockstep.options.results import PICTURES, add_pictures, add_rows
from lockstep.options.choices import OneOf
from lockstep.options.paths import input_file, model_file, output_file
from compiler.files import whole_file

DEFAULT_SIMULATOR, RTL = "cycle", "verilator"
TIMED = ("cycle", "slice")
"""Simulators that can leave out values."""


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
    add_compilation(parser)
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
        help="write one page with timeline, roofline, stalls, traffic and buffers (--sim cycle)")
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

    args.sim = args.sim or (RTL if args.waves else DEFAULT_SIMULATOR)
    asked = Asked.of(args)
    saved = saved_module(args, args.machine)
    if saved is None:
        args.target = target_of(args)
    _require_sense(args)
    if args.on:
        return _run_there(args, saved, asked)
    with _opened(args.trace) as trace:
        return _run(args, saved, trace, asked)


def _require_sense(args: argparse.Namespace) -> None:
    """Refuses options that would have no effect."""
    _require_sense_there(args)
    for option, given in (("--trace", args.trace), ("--report", args.report), ("--svg", args.svg),
                          ("--pdf", args.pdf), ("--technology", args.technology),
                          ("--no-values", args.no_values), ("--waves", args.waves)):
        if given and args.target.partition(":")[0] == "cpu" and "," not in args.target:
            raise RequestError(f"{option} must be left out with --target cpu: the host has no "
                               f"cycles")
    if args.trace and args.sim == "functional":
        raise RequestError("--trace must come with --sim cycle, slice or verilator: functional "
                           "has no cycles")
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


PAGES = ("report", *PICTURES)
"""Options that show what every unit did when."""

HERE = ("waves", "sim", "latency", "outstanding", "bytes_per_cycle", "row_buffer", "refresh",
        "stall_seed", "no_values", "trace", *PAGES, "technology", "memory", "precision")
"""Options of what runs here."""


def _require_sense_there(args: argparse.Namespace) -> None:
    for option in ("device", "tls"):
        if getattr(args, option) and args.on is None:
            raise RequestError(f"--{option} must come with --on ADDRESS")
    for option in HERE if args.on else ():
        if getattr(args, option) not in (None, False, {}, DEFAULT_SIMULATOR):
            raise RequestError(f"--{option.replace('_', '-')} must be left out with --on: the "
                               f"network runs elsewhere")


def _require_page(args: argparse.Namespace) -> None:
    from lockstep.report import require_plotly
    from lockstep.report.pictures import require_matplotlib

    wanted = [option for option in PAGES if getattr(args, option)]
    if wanted and args.sim != "cycle":
        raise RequestError(f"--{wanted[0]} must come with --sim cycle, not {args.sim}: the cycle "
                           f"simulator alone says what every unit did when")
    if wanted:
        _require_cycle_simulator(f"--{wanted[0]}")
    if args.report:
        require_plotly()
    require_matplotlib(args)


def _require_technology(args: argparse.Namespace) -> None:
    from accel.estimates.technology import load_technology

    if args.sim != "cycle":
        raise RequestError(f"--technology must come with --sim cycle, not {args.sim}: the cycle "
                           f"simulator alone counts every access")
    _require_cycle_simulator("--technology")
    args.technology = load_technology(args.technology)


def _require_cycle_simulator(option: str) -> None:
    """Refuses an option of the cycle simulator where the slice of the RTL takes its place."""
    from accel.sim.timed import made_for

    if not made_for.is_of_now():
        raise RequestError(f"{option} must come with the hardware that the cycle simulator was "
                           f"made for: this one is simulated by its slice, which has cycles and "
                           f"counters alone")


def _opened(path: Path | None):
    if path is None:
        return nullcontext()
    from accel.sim.trace import TraceFile

    return TraceFile(path)


def _run(args: argparse.Namespace, saved, trace, asked) -> int:
    from lockstep.printing.progress import progress_bar
    from runtime import DeviceError, report
    from runtime.exporting.ports import random_inputs

    given = arrays(args.input) if args.input else None
    graph = None if saved else _imported(args, given)
    module, machine, watched = _compiled(args, saved, graph)
    programs = [compiled.program for compiled in module.accelerated]
    if trace:
        trace.require_space(programs)
    if args.waves:
        _require_layer(args, programs)
    for option in (*PAGES, "technology"):
        if getattr(args, option) and not programs:
            raise RequestError(f"--{option} must be left out for {str(args.model)!r}: all of it "
                               f"runs on the host, which has no cycles")
    inputs = random_inputs(module.graph, args.seed) if given is None else given
    set_inputs(module, inputs)
    seed = args.seed if given is None else None
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
    figures |= {"model": args.model.title, "target": args.target, "simulator": _ran(args, runs),
                "seed": seed, "provenance": _provenance(args, asked, machine)}
    if args.precision:
        figures["precision"] = {"kind": args.precision, "errors": _errors(module, graph, inputs)}
    if args.no_values:
        figures["outputs"] = []
    if args.technology:
        _add_technology(args, figures, machine, watched)
    _add_whole(args, figures, module, machine)
    _write_trace(args, trace, machine, watched)
    _write(args, module, figures)
    if any(getattr(args, option) for option in PAGES):
        _write_page(args, figures, machine, watched)
    _show(args, figures)
    if not args.tsv:
        _say_simulator(args, figures)
        _say_origin(args, machine)
    return 0


def _require_layer(args: argparse.Namespace, programs) -> None:
    """Refuses a layer that no program has."""
    layers = [name for program in programs for name, _ in program.layers]
    if args.waves[0] not in layers:
        raise RequestError(f"--waves must name a layer that runs on the accelerator "
                           f"({', '.join(layers) or 'there are none'}), not {args.waves[0]!r}")


def _show(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    from lockstep.printing.layers import show
    from lockstep.printing.rows import layer_rows, put_rows

    put_rows(args, layer_rows(figures))
    if args.tsv:
        return
    show(figures, args.verbose, args.bounds)
    if "energy" in figures:
        _show_energy(figures)


MEASURED = ("wall_seconds",)
MEASURED_BY_AUTO = ("auto", "host/*", "notes")
MEASURED_HOST = ("whole",)
"""Paths in the report of what the next run may find otherwise; of targets ``auto:``, prices; where
the host is this processor, its part.
"""


def _provenance(args: argparse.Namespace, asked, machine) -> dict[str, Any]:
    from runtime.pricing.hosts import THIS

    by_auto = MEASURED_BY_AUTO if args.target.startswith("auto:") else ()
    by_host = MEASURED_HOST if args.host == THIS else ()
    name = machine.config.name if machine else ""
    return asked.provenance({name: machine}, (*MEASURED, *by_auto, *by_host))


def _add_technology(args: argparse.Namespace, figures: dict[str, Any], machine, watched) -> None:
    from lockstep.printing.energy import add_technology

    add_technology(figures, watched.recordings, machine, args.technology)


def _add_whole(args: argparse.Namespace, figures: dict[str, Any], module, machine) -> None:
    """Adds the host's part, where the time of the accelerator's is known."""
    from runtime.pricing.hosts import known_host
    from runtime.whole import host_part, waiting_joules

    is_timed = machine and (figures["cycles"] or not module.accelerated)
    energies = args.technology.energies if args.technology else None
    part = host_part(module, known_host(args.host), energies) if is_timed else None
    figures["whole"] = part and part.plain(figures["seconds"]) | {
        "waiting_joules": waiting_joules(machine, energies, part)}


def _ran(args: argparse.Namespace, runs) -> str:
    """The simulator that gave the cycles."""
    return next((run.simulator for run in runs if run.simulator), args.sim)


def _say_simulator(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    from lockstep.printing.lines import say

    if figures["simulator"] != args.sim:
        say(f"cycles by the {figures['simulator']} of the RTL: the cycle simulator was made for "
            f"other hardware")


def _say_origin(args: argparse.Namespace, machine) -> None:
    from lockstep.printing.lines import say
    from runtime.driver.calibrated import origin_note

    if machine and args.calibration is None and (
            note := origin_note(args.model.title, args.model, [machine])):
        say(note)


def _show_energy(figures: dict[str, Any]) -> None:
    from lockstep.printing.lines import say
    from lockstep.printing.energy import show_energy
    from lockstep.printing.whole import whole_energy

    show_energy(figures)
    if part := figures["whole"]:
        say(whole_energy(part, figures["energy"]["joules"]))


def _run_there(args: argparse.Namespace, saved, asked) -> int:
    """Compiles here and runs on a worker of a pool."""
    from lockstep.printing.progress import progress_bar
    from lockstep.options.arguments import certificates_of
    from runtime import DeviceError, report
    from runtime.exporting.ports import random_inputs
    from runtime.tuning.pool import device_of
    from runtime.tuning.remote import RemoteError, remote

    name = args.device or device_of(args.target.removeprefix("auto:").split(",")[0])
    with remote(args.on, certificates_of(args.tls)) as place:
        device = place.device(name)
        given = arrays(args.input) if args.input else None
        module, machine, _ = _compiled(args, saved, None if saved else _imported(args, given))
        module = device.load(module)
        set_inputs(module, random_inputs(module.graph, args.seed) if given is None else given)
        begin = time.perf_counter()
        try:
            with progress_bar(f"{args.model.name} on {name} of {args.on}", 0, lambda: 0):
                runs = module.run()
        except (DeviceError, RemoteError) as error:
            print(f"lockstep: {error}", file=sys.stderr)
            return 1
    figures = report(module, runs, machine, time.perf_counter() - begin)
    figures |= {"model": args.model.title, "target": args.target, "on": args.on, "device": name,
                "simulator": f"{name} of {args.on}",
                "seed": args.seed if given is None else None,
                "provenance": _provenance(args, asked, machine)}
    _write(args, module, figures)
    _show(args, figures)
    return 0


def _write_trace(args: argparse.Namespace, trace, machine, watched) -> None:
    from lockstep.printing.progress import progress_bar

    if trace:
        with progress_bar(f"writing {args.trace.name}", 0, lambda: 0):
            trace.write(machine, watched.recordings)


def _write(args: argparse.Namespace, module, figures: dict[str, Any]) -> None:
    if args.output:
        write_outputs({name: module.get_output(name) for name in module.graph.outputs}, args.output)
    if args.json:
        with whole_file(args.json) as file:
            file.write(f"{json.dumps(figures, indent=1)}\n".encode())


def _write_page(args: argparse.Namespace, figures: dict[str, Any], machine, watched) -> None:
    from lockstep.printing.progress import progress_bar
    from lockstep.report import page_figures, write_page
    from lockstep.report.pictures import put_pictures
    from lockstep.report.pictures.run import run_pictures

    with progress_bar("writing pictures", 0, lambda: 0):
        page = page_figures(figures, watched.recordings, machine,
                            {"virtual threads": str(args.threads)})
        put_pictures(args, run_pictures(page), figures["provenance"])
        if args.report:
            with whole_file(args.report) as file:
                write_page(file, page)


def _imported(args: argparse.Namespace, given):
    from lockstep.options.compilation import imported

    return imported(args, given)


def _errors(module, graph, inputs) -> dict[str, float]:
    """The error of float outputs against the same network on the host, in float32: the greatest
    difference, over the greatest element.
    """
    import numpy as np

    import lockstep

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


def _compiled(args: argparse.Namespace, saved, graph):
    from lockstep.options.compilation import compiled, machine_of, with_memory
    from accel.sim.rtl.waves import Waves
    from lockstep.printing.progress import Watched
    from runtime import SimulatedDevice
    from runtime.driver.loading import placed

    machine = saved.machine if saved else machine_of(args)
    if saved and machine:
        machine = with_memory(machine, args)
    if machine:
        memory = replace(machine.config.memory, **_memory_options(args))
        machine = replace(machine, config=replace(machine.config, memory=memory))
    options: dict[str, Any] = {"values": not args.no_values} if args.sim in TIMED else {}
    if args.sim == "cycle":
        options["timeline"] = True
    if args.waves:
        options["waves"] = Waves(*args.waves)
    watched = Watched(args.sim, options)
    device = SimulatedDevice(machine, watched) if machine else None
    module = placed(saved, device) if saved else compiled(args, device, graph=graph)
    return module, machine, watched


def _memory_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the memory that were given."""
    single = {name: getattr(args, name) for name in ("latency", "outstanding", "stall_seed",
                                                     "bytes_per_cycle")}
    given = {name: value for name, value in single.items() if value is not None}
    return {**given, **args.row_buffer, **args.refresh}
