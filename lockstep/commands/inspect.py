"""``lockstep inspect MODEL``: who wrote a network, how it is quantized, and what will be integer
where, before anything is compiled.
"""

import argparse
import json
from dataclasses import asdict
from typing import Any

from compiler.errors import RequestError
from lockstep.options.arguments import (NETWORK, add_bind, add_json, add_machine, add_verbose,
                                        shape)
from lockstep.options.paths import model_file


def add_parser(subparsers) -> argparse.ArgumentParser:
    from accel.machine.config import MACHINE

    parser = subparsers.add_parser(
        "inspect", help="print how a network is quantized, and which layers will be integer",
        description="Print which tool wrote a network, how its file spells quantization, and for "
                    "each layer operator, types and target; for those that the accelerator does "
                    "not take, why. Nothing is compiled. Reasons are those that run prints. Exit "
                    "status: 0 done, 2 the network cannot be imported: then the tool, the "
                    "spellings and all that is not supported are printed.")
    add = parser.add_argument
    add("model", metavar="MODEL", type=model_file, help=NETWORK)
    add_machine(parser, f"that is to take it (default {MACHINE})", MACHINE)
    add("--shape", action="append", type=shape, default=[], metavar="NAME=N",
        help="extent of a dimension that the model leaves open (default 1)")
    add_bind(parser)
    add_json(parser, "write all of it as JSON")
    add_verbose(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    from compiler.frontend.building.refusal import ImportRefused
    from compiler.frontend.spellings import read_signs
    from lockstep.printing.inspection import show_fates, show_file, show_refusals
    from lockstep.provenance import Asked

    asked, signs = Asked.of(args), read_signs(args.model)
    figures: dict[str, Any] = {
        "model": args.model.title, "kind": signs.kind, "producers": [*signs.producers],
        "tools": [*signs.tools], "spellings": [asdict(row) for row in signs.spelled],
        "refusals": []}
    show_file(figures)
    try:
        figures |= _fates(args)
        show_fates(figures, args.verbose)
    except ImportRefused as error:
        figures["refusals"] = [*error.refusals] or [str(error)]
        if not error.refusals:
            raise
        show_refusals(error.refusals, args.verbose)
        raise RequestError(f"{args.model.title}: cannot be imported: {len(error.refusals)} of its "
                           f"operators are not supported") from None
    finally:
        if args.json:
            _write(args, figures, asked)
    return 0


def _fates(args: argparse.Namespace) -> dict[str, Any]:
    """Tells what becomes of each layer. Raises ImportRefused."""
    from accel.machine.loading import load_machine
    from compiler.frontend.models import graph_of
    from runtime import SimulatedDevice, simulator
    from runtime.driver.inspection import inspected
    from runtime.driver.targets import Targets, accelerator

    machine = load_machine(args.machine)
    device = SimulatedDevice(machine, simulator("functional"))
    graph = graph_of(args.model, dict(args.shape), bind=dict(args.bind))
    return inspected(graph, Targets([accelerator(machine, device)]))


def _write(args: argparse.Namespace, figures: dict[str, Any], asked) -> None:
    from accel.machine.loading import load_machine
    from compiler.files import write_text

    machine = load_machine(args.machine)
    figures["provenance"] = asked.provenance({machine.config.name: machine})
    write_text(args.json, json.dumps(figures, indent=1) + "\n")
