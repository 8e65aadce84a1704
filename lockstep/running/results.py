"""Writes and prints the results of ``lockstep run``, with their provenance."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from accel.machine.status import Run
from compiler.files import whole_file
from lockstep.options.inputs import write_outputs
from lockstep.printing.energy import show_energy
from lockstep.printing.layers import show as show_layers
from lockstep.printing.lines import say
from lockstep.printing.progress import progress_bar
from lockstep.printing.rows import layer_rows, put_rows
from lockstep.printing.whole import whole_energy
from lockstep.provenance import Asked
from lockstep.report import page_figures, write_page as write_html
from lockstep.report.pictures import put_pictures
from lockstep.report.pictures.run import run_pictures
from runtime.driver.calibrated import origin_note
from runtime.pricing.hosts import THIS

MEASURED = ("wall_seconds",)
MEASURED_BY_AUTO = ("auto", "host/*", "notes")
MEASURED_HOST = ("whole",)
"""Paths in the report of what the next run may find otherwise; of targets ``auto:``, prices; where
the host is this processor, its part.
"""


def provenance(args: argparse.Namespace, asked: Asked, machine) -> dict[str, Any]:
    """Tells all that the report follows from, and what of it is measured."""
    by_auto = MEASURED_BY_AUTO if args.target.startswith("auto:") else ()
    by_host = MEASURED_HOST if args.host == THIS else ()
    name = machine.config.name if machine else ""
    return asked.provenance({name: machine}, (*MEASURED, *by_auto, *by_host))


def simulator_of(args: argparse.Namespace, runs: Sequence[Run]) -> str:
    """The simulator that ran, which may be another one than was asked for."""
    return next((run.simulator for run in runs if run.simulator), args.sim)


def put_results(args: argparse.Namespace, module, figures: Mapping[str, Any]) -> None:
    """Writes the outputs and the report where the options ask for it."""
    if args.output:
        write_outputs({name: module.get_output(name) for name in module.graph.outputs}, args.output)
    if args.json:
        with whole_file(args.json) as file:
            file.write(f"{json.dumps(figures, indent=1)}\n".encode())


def write_page(args: argparse.Namespace, figures: Mapping[str, Any], machine, watched) -> None:
    """Writes the page, and the pictures as files."""
    with progress_bar("writing pictures", 0, lambda: 0):
        page = page_figures(figures, watched.recordings, machine,
                            {"virtual threads": str(args.threads)})
        put_pictures(args, run_pictures(page), figures["provenance"])
        if args.report:
            with whole_file(args.report) as file:
                write_html(file, page)


def show(args: argparse.Namespace, figures: Mapping[str, Any], machine=None) -> None:
    """Prints the report, and for which other machine than this one the network was quantized."""
    put_rows(args, layer_rows(figures))
    if args.tsv:
        return
    show_layers(figures, args.verbose, args.bounds)
    if "energy" in figures:
        show_energy(figures)
        if part := figures["whole"]:
            say(whole_energy(part, figures["energy"]["joules"]))
    if machine and figures["simulator"] != args.sim:
        say(f"cycles by the {figures['simulator']} of the RTL: the cycle simulator was made for "
            f"another machine")
    if machine and args.calibration is None and (
            note := origin_note(args.model.title, args.model, [machine])):
        say(note)
