"""Measures networks on machines: ``lockstep intrinsic bench``."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from accel.estimates.technology import Technology, load_technology
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from compiler.files import write_text
from lockstep.options.compilation import with_memory
from lockstep.options.whole import calibration_of
from lockstep.printing.progress import progress_bar
from lockstep.printing.table import show_columns
from lockstep.compare.wholes import show_wholes
from lockstep.compare import NetworkCycles, measure, networks
from lockstep.compare.networks import DEFAULT
from lockstep.printing.lines import say
from lockstep.provenance import Asked
from runtime.driver.calibrated import Calibration, origin_note
from runtime.instructions import idle_lines
from runtime.pricing.hosts import TABLE, THIS

Results = Mapping[str, Sequence[NetworkCycles]]
"""What each network takes on each of the machines, by the network's name."""


MEASURED = ("networks/*/*/beside", "networks/*/*/waiting_joules")
"""Paths in the figures of what is measured, where the host is this processor."""


def bench(args: argparse.Namespace) -> int:
    titles = [name for name in (args.base, args.machine) if name]
    machines = [with_memory(load_machine(name), args) for name in titles]
    calibration, names = calibration_of(args), args.networks or DEFAULT
    asked = Asked.of(args, networks(names, args.size, int8=calibration is None))
    technology = load_technology(args.technology).at(machines[0].config.clock_mhz)
    results = measured(machines, names, args.size, calibration, args.host, technology,
                       dict(args.shape))
    if args.json:
        write_text(args.json, json.dumps({
            "machines": [{"name": title, "hash": machine.hash}
                         for title, machine in zip(titles, machines)],
            "networks": {name: [asdict(one) for one in some] for name, some in results.items()},
            "technology": technology.plain,
            "provenance": asked.provenance(dict(zip(titles, machines)), measured_by(args.host))},
            indent=1) + "\n")
    show_origins(machines, names, args.size, calibration is None)
    show_networks(results, titles)
    show_wholes(results, titles, "" if args.metric else "dB")
    say(f"technology {technology.name}: {technology.summary}")
    show_instructions(results, titles, machines)
    return 0


def measured_by(host: str) -> Sequence[str]:
    """Paths in figures of `measured` of what the next run may find otherwise, with this host."""
    return MEASURED if host == THIS else ()


def measured(machines: Sequence[Machine], names: Sequence[str], size: int,
             calibration: Calibration | None = None, host: str = TABLE,
             technology: Technology | None = None, shapes: Mapping[str, int] | None = None
             ) -> Results:
    """Measure networks on machines in a technology; a bar shows how far it is."""
    done: list[str] = []
    total = len(dict.fromkeys(names)) * len(machines)
    files = networks(names, size, int8=calibration is None)
    with progress_bar("networks", total, lambda: len(done)):
        results: dict[str, list[NetworkCycles]] = {}
        for name, path in files.items():
            for machine in machines:
                results.setdefault(name, []).append(
                    measure(machine, path, calibration, host, technology, shapes))
                done.append(name)
    return results


def show_origins(machines: Sequence[Machine], names: Sequence[str], size: int, int8: bool
                 ) -> None:
    """Say of networks in int8 that they were quantized for other machines."""
    for name, path in networks(names, size, int8).items():
        if note := origin_note(name, path, machines):
            say(note)


def show_networks(results: Results, titles: Sequence[str]) -> None:
    rows = []
    for name, some in results.items():
        row = [name, *(f"{one.cycles:,}" for one in some)]
        if len(some) > 1:
            row.append(change(some[0].cycles, some[1].cycles))
        rows.append([*row, *(f"{one.share:.1%}" for one in some),
                     *(f"{one.layers} + {one.host}" for one in some)])
    more = ["change"] if len(titles) > 1 else []
    show_columns("cycles of the accelerator, share of its peak, nodes there and on the host",
                 ["network", *_each("cycles", titles), *more, *_each("share", titles),
                  *_each("nodes", titles)], rows)


def _each(heading: str, titles: Sequence[str]) -> Iterator[str]:
    yield from (f"{heading}, {title}" if len(titles) > 1 else heading for title in titles)


def change(first: float, second: float) -> str:
    """The change from the first number to the second, in per cent of the first."""
    if first == second:
        return "="
    return f"{second / first - 1:+.1%}" if first else "new"


def show_instructions(results: Results, titles: Sequence[str],
                      machines: Sequence[Machine]) -> None:
    """Show how often each instruction of gemm and vector was executed, and its iterations."""
    known = {name: machine.units[opcode] for machine in machines
             for name, opcode in machine.opcodes.items()}
    rows = []
    for name, unit in known.items():
        if unit not in ("gemm", "vector"):
            continue
        if not any(one.executed.get(name) for some in results.values() for one in some):
            continue
        cells = [f"{one.executed.get(name, 0):,} ({one.iterations.get(name, 0):,})"
                 for some in results.values() for one in some]
        rows.append([name, *("-" if cell == "0 (0)" else cell for cell in cells)])
    heads = [heading for network in results for heading in _each(network, titles)]
    show_columns("instructions executed (and their iterations)", ["instruction", *heads], rows)
    show_idle(results)


def show_idle(results: Results) -> None:
    """Show why instructions are executed by no network, each with its reason in the first, and what
    area those take that are no shipped ones.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for some in results.values():
        for one in some:
            for row in one.instructions:
                found.setdefault(row["name"], []).append(row)
    for line in idle_lines([rows[0] for rows in found.values()
                            if not any(row["executed"] for row in rows)], shipped=True):
        say(line)
