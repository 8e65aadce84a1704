"""``lockstep check``: do the simulators agree? Random programs on each, compared to the byte."""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from compiler.errors import RequestError
from compiler.files import write_text
from lockstep.options.arguments import add_machine
from lockstep.options.paths import output_file

DEFAULT = "tiny-1x4x4"
INTERVAL_SECONDS = 10.0


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "check", help="run random programs on all simulators and compare them",
        description="Run random legal programs on the functional simulator, on the cycle "
                    "simulator and on the RTL, compare status, memory and, between the last two, "
                    "the cycle of every event, and count what the programs covered: every form of "
                    "every instruction runs. Exit status: 0 they agree and every bin is filled, 1 "
                    "the first difference or an empty bin, 2 the request was wrong.")
    add_machine(parser, f"(default {DEFAULT})", None)
    parser.add_argument("--geometries", type=_positive, metavar="N",
                        help="spread the programs over so many random machines instead (each is "
                             "built first, in up to a minute; empty bins are allowed)")
    parser.add_argument("--count", type=_positive, default=200, metavar="N",
                        help="random programs (default 200; with fewer, empty bins are allowed)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("--json", type=output_file, metavar="R.json", help="write the report")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def run(args: argparse.Namespace) -> int:
    if args.geometries:
        return _run_geometries(args)
    from accel.formal.known import keep_runs
    from accel.machine.loading import load_machine
    from accel.sim.checking.check import check

    machine = load_machine(args.machine or DEFAULT)
    name = machine.config.name
    with _progress() as tell:
        tell(f"{name}, the RTL is built", 0, 0)
        report = check(machine, args.count, args.seed, progress=lambda *done: tell(name, *done))
    if report.difference is None:
        keep_runs(machine, report.coverage.ran)
    _write(args, report.as_json())
    _show(report)
    return 0 if report.ok else 1


def _run_geometries(args: argparse.Namespace) -> int:
    """Runs the programs on every machine; stops at the first on which the simulators differ."""
    if args.machine:
        raise RequestError("--machine must be left out with --geometries: its machines are random")
    from accel.sim.checking.geometries import check_geometries

    def progress(config: Any, number: int, done: int, total: int) -> None:
        what = (f"{number + 1} of {args.geometries}: {config.name} ({_product(config)}, bus "
                f"{config.bus_bytes})")
        tell(what if total else f"{what}, the RTL is built", done, total)

    reports = []
    with _progress() as tell:
        for report in check_geometries(args.geometries, args.count, args.seed, progress):
            reports.append(report)
            tell(f"{report.machine.config.name}: {report.programs} programs "
                 f"{'agree' if report.ok else 'DIFFER'}, {report.seconds:.0f} s", 0, 0)
            if not report.ok:
                break
    ok = all(report.ok for report in reports)
    _write(args, {"ok": ok, "geometries": [{**report.as_json(),
                                            "geometry": report.machine.config.geometry(),
                                            "seconds": round(report.seconds, 1)}
                                           for report in reports]})
    _show_geometries(reports)
    return 0 if ok else 1


def _write(args: argparse.Namespace, report: dict[str, Any]) -> None:
    if args.json:
        write_text(args.json, json.dumps(report, indent=1) + "\n")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yields a function that is told what is done, and how many programs of how many are. It shows
    a bar on a terminal; elsewhere a line for whatever is new, and one every `INTERVAL_SECONDS`.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console, begin, told, latest = Console(stderr=True), time.monotonic(), "", 0.0
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(),
               TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True,
                  disable=not console.is_terminal) as progress:
        task = progress.add_task("")

        def tell(what: str, done: int, total: int) -> None:
            nonlocal told, latest
            now = time.monotonic()
            progress.update(task, description=what, completed=done, total=total or None)
            if not console.is_terminal and (what != told or now - latest >= INTERVAL_SECONDS):
                told, latest = what, now
                far = f", program {done} of {total}" if total else ""
                console.print(f"{now - begin:6.0f} s  {what}{far}", highlight=False, markup=False,
                              soft_wrap=True)

        yield tell


def _product(config: Any) -> str:
    return f"{config.batch}x{config.block_in}x{config.block_out}"


def _show_geometries(reports: Sequence[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("machine", "product", "bus", "programs", "cycles", "s", "")
    for report in reports:
        config = report.machine.config
        table.add_row(config.name, _product(config), str(config.bus_bytes), str(report.programs),
                      f"{report.cycles:,}", f"{report.seconds:.0f}",
                      "agree" if report.ok else "DIFFER")
    console = Console()
    console.print(table)
    for report in reports:
        if report.difference is not None:
            console.print(report.machine.config.to_toml(), highlight=False, markup=False)
            console.print(report.difference.describe(), highlight=False, markup=False)
    _show_end(console, reports)


def _show_end(console, reports: Sequence[Any]) -> None:
    """Prints whether all agree and, if nothing differs, how often each instruction ran."""
    from accel.sim.checking.check import ran

    console.print("the simulators agree" if all(r.ok for r in reports) else "NOT OK")
    if all(report.difference is None for report in reports):
        console.print(ran(reports), highlight=False, markup=False)


def _show(report) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"{report.machine.config.name} ({report.machine.hash[:12]}), seed {report.seed}",
                  highlight=False, markup=False)
    table = Table()
    table.add_column("covered")
    table.add_column("bins", justify="right")
    for group, (filled, total) in report.coverage.totals().items():
        table.add_row(group, f"{filled} of {total}")
    console.print(table)
    console.print(f"{report.programs} programs, {report.instructions:,} instructions, "
                  f"{report.cycles:,} cycles")
    for name in report.left_out:
        console.print(f"left out: {name}, which was made for another machine")
    if report.difference is not None:
        console.print(report.difference.describe(), highlight=False, markup=False)
    for name in report.empty:
        console.print(f"never covered: {name}", highlight=False, markup=False)
    _show_end(console, [report])
