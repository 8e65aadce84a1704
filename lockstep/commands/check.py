"""``lockstep check``: do the simulators agree? Random programs on each, compared to the byte."""

import argparse
import json

from lockstep.errors import output_file

__all__ = ["add_parser", "run"]


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "check", help="run random programs on all simulators and compare them",
        description="Run random legal programs on the functional simulator and on the RTL, compare "
                    "status and memory, and count what the programs covered. Exit status: 0 they "
                    "agree and every bin is filled, 1 the first difference or an empty bin, 2 the "
                    "request was wrong.")
    parser.add_argument("--config", default="tiny-1x4x4", metavar="PRESET|FILE.toml",
                        help="the machine (default tiny-1x4x4)")
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
    from accel.config import load
    from accel.machine import Machine

    machine = Machine(load(args.config))
    report = _checked(machine, args)
    if args.json:
        args.json.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    _show(report)
    return 0 if report.ok else 1


def _checked(machine, args: argparse.Namespace):
    from rich.console import Console
    from rich.progress import Progress

    from accel.sim.check import check

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"check {machine.config.name}", total=args.count)
        return check(machine, args.count, args.seed,
                     progress=lambda done, total: progress.update(task, completed=done,
                                                                  total=total))


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
    if report.difference is not None:
        console.print(report.difference.describe(), highlight=False, markup=False)
    for name in report.empty:
        console.print(f"never covered: {name}", highlight=False, markup=False)
    console.print("the simulators agree" if report.ok else "NOT OK")
