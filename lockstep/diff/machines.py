"""Compares machines: ``lockstep intrinsic diff`` and ``lockstep diff``."""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from accel.estimates.technology import Technology, load_technology
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind
from compiler.errors import RequestError
from compiler.files import whole_file, write_text
from lockstep.intrinsics.bench import (Results, change, measured, measured_by, show_idle,
                                       show_instructions, show_networks, show_origins)
from lockstep.options.whole import calibration_of
from lockstep.printing.rows import diff_rows, put_rows
from lockstep.printing.table import show_columns
from lockstep.compare.wholes import show_wholes
from lockstep.compare import MachineDifference, compare, networks
from lockstep.provenance import Asked
from lockstep.report.pictures import put_pictures, require_matplotlib
from lockstep.report.pictures.others import comparison_pictures
from lockstep.printing.lines import say
from lockstep.manual.resources import KINDS, UnitResources

def diff(args: argparse.Namespace) -> int:
    asked = _asked(args)
    machines, titles = _machines(args)
    results = _measured(args, machines)
    _compared(args, machines, titles, results, asked)
    if results and not args.tsv:
        show_networks(results, titles)
        _show_wholes(args, results, titles)
        show_instructions(results, titles, machines)
    return 0


def _asked(args: argparse.Namespace) -> Asked:
    return Asked.of(args, networks(args.networks, args.size, int8=args.calibration is None))


def _compared(args: argparse.Namespace, machines: list[Machine], titles: list[str],
              results: Results, asked: Asked, more: Mapping[str, Any] | None = None) -> None:
    found = compare(*machines)
    figures = asdict(found) | {
        "machines": [{"name": title, "hash": machine.hash}
                     for title, machine in zip(titles, machines)],
        "networks": {name: [asdict(one) for one in some] for name, some in results.items()},
        **(more or {}),
        "provenance": asked.provenance(dict(zip(titles, machines)), measured_by(args.host))}
    if args.json:
        write_text(args.json, json.dumps(figures, indent=1) + "\n")
    if args.html:
        from lockstep.report.comparison import write_comparison

        with whole_file(args.html) as file:
            write_comparison(file, figures, list(_hardware(found)))
    hardware = [*_hardware(found)]
    put_rows(args, diff_rows(figures, hardware))
    put_pictures(args, comparison_pictures(figures, hardware), figures["provenance"])
    if args.tsv:
        return
    show_origins(machines, args.networks, args.size, args.calibration is None)
    for line in _lines(found, titles):
        say(line)
    show_columns("hardware of the datapaths, from their plans, and bytes of the buffers",
                 ["", *titles, "change"], [
                     [name, f"{here:,}", f"{there:,}", change(here, there)]
                     for name, here, there in _hardware(found)])


def diff_closely(args: argparse.Namespace) -> int:
    """`diff`, and beside it area, clock, each layer and each unit."""
    from lockstep.diff.tables import show_estimates, show_layers, show_units

    asked = _asked(args)
    technology = load_technology(args.technology)
    machines, titles = _machines(args)
    technology = technology.at(machines[0].config.clock_mhz)
    results = _measured(args, machines, technology)
    _compared(args, machines, titles, results, asked, {"technology": technology.plain})
    if args.tsv:
        return 0
    show_estimates(machines, titles, technology)
    if results:
        _show_wholes(args, results, titles)
    for name, (here, there) in results.items():
        show_units(name, here, there, titles)
        show_layers(name, here, there, titles)
    show_idle(results)
    return 0


def _measured(args: argparse.Namespace, machines: list[Machine],
              technology: Technology | None = None) -> Results:
    calibration = calibration_of(args)
    return (measured(machines, args.networks, args.size, calibration, args.host, technology,
                     dict(args.shape)) if args.networks else {})


def _show_wholes(args: argparse.Namespace, results: Results, titles: list[str]) -> None:
    show_wholes(results, titles, "" if args.metric else "dB")


def _machines(args: argparse.Namespace) -> tuple[list[Machine], list[str]]:
    """Both machines and what they are called."""
    if args.html:
        from lockstep.report import require_plotly

        require_plotly("--html")
    require_matplotlib(args)
    if args.other and args.machine:
        raise RequestError("OTHER must be given once: as an argument, or by --machine")
    other = args.other or args.machine
    base = load_machine(args.base)
    if other:
        return [base, load_machine(other)], [args.base, other]
    shipped = base.with_shipped
    if shipped.hash == base.hash:
        raise RequestError("OTHER must be given: " + (
            f"a unit of {args.base} would do nothing without its own instructions"
            if base.structure.of_kind(UnitKind.STREAM) else
            f"{args.base} has the shipped instructions alone"))
    return [shipped, base], ["shipped", args.base]


def _lines(found: MachineDifference, titles: list[str]) -> Iterator[str]:
    """A sentence for each difference of declarations and geometry."""
    yield f"{titles[0]} -> {titles[1]}"
    yield from (f"{field}: {here} -> {there}" for field, (here, there) in found.geometry.items())
    for name in found.added:
        yield f"{name}: is one more"
    for name in found.removed:
        yield f"{name}: is missing"
    for name, sentences in found.changed.items():
        yield from (f"{name}: {sentence}" for sentence in sentences)
    for name, (here, there) in found.opcodes.items():
        yield f"{name}: opcode {here} -> {there}"
    if not any((found.geometry, found.added, found.removed, found.changed, found.opcodes)):
        yield "instructions, encodings and geometry are the same"


def _hardware(found: MachineDifference) -> Iterator[tuple[str, int, int]]:
    """Rows of the table: what, and how much in both machines. Both zero is left out."""
    for unit, (here, there) in found.times.items():
        yield f"{unit}: cycles from issue to write", here.write, there.write
        yield f"{unit}: cycles of an iteration", here.interval, there.interval
    for unit, (here, there) in found.resources.items():
        yield f"{unit}: stages", here.stages, there.stages
        yield f"{unit}: bits of registers", here.register_bits, there.register_bits
        for kind in KINDS:
            if here.count(kind) or there.count(kind):
                yield f"{unit}: {kind}", here.count(kind), there.count(kind)
        yield f"{unit}: bits of adders", _adder_bits(here), _adder_bits(there)
    for buffer, (here, there) in found.memory.items():
        yield f"{buffer}: bytes", here, there


def _adder_bits(resources: UnitResources) -> int:
    widths: Mapping[str, Any] = resources.operators.get("adders", {})
    return sum(int(width) * count for width, count in widths.items())
