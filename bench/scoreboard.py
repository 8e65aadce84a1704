"""The scoreboard: runs the commands of ``scoreboard.toml`` and checks each figure against its
floor. A command prints lines ``name value``; other lines are ignored. ``python -m
bench.scoreboard`` measures everything and exits with 1 when a floor is lost, a command fails or
does not print its figure. ``python -m bench.scoreboard measure [NAME ...]`` measures the named
figures and checks them in the same way. What needs a feature that this processor lacks is not
measured, and its row says so. Each command's figures are printed on stderr when it ends. Exit
status 2: the table or a name is wrong.
"""

import argparse
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from compiler.cpu_gpu_backends.llvm.machine import host

TABLE = Path(__file__).with_name("scoreboard.toml")
TIMEOUT_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table; the fields are described at its head."""

    name: str
    what: str
    unit: str
    better: str
    aim: float
    floor: float | None = None
    best: float | None = None
    command: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"name must be an identifier, not {self.name!r}")
        if self.better not in ("lower", "higher"):
            raise ValueError(f'better of {self.name} must be "lower" or "higher", '
                             f"not {self.better!r}")
        if self.floor is not None and not self.command:
            raise ValueError(f"command of {self.name} must be given, because it has a floor")

    def reaches(self, value: float, mark: float) -> bool:
        return value <= mark if self.better == "lower" else value >= mark


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure with its value; without a value, `verdict` says why. A `lost` figure fails the run.
    """

    figure: Figure
    value: float | None
    verdict: str
    lost: bool


def read_table(path: Path = TABLE) -> list[Figure]:
    """The rows of `path`. Raises ValueError for an unknown field or a name given twice."""
    figures = []
    for row in tomllib.loads(path.read_text()).get("figure", []):
        unknown = sorted(row.keys() - Figure.__slots__)
        if unknown:
            raise ValueError(f"a figure's fields must be {', '.join(Figure.__slots__)}, "
                             f"not {unknown[0]!r}")
        lists = {name: tuple(row.get(name, ())) for name in ("command", "needs", "lacks")}
        figures.append(Figure(**{**row, **lists}))
    names = [figure.name for figure in figures]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"name must be given once, not {names.count(name)} times: {name!r}")
    return figures


def values_in(text: str) -> dict[str, float]:
    """The ``name value`` lines of a command's output."""
    values = {}
    for line in text.splitlines():
        match line.split():
            case [name, number] if name.isidentifier():
                try:
                    values[name] = float(number)
                except ValueError:
                    continue
    return values


def judge(figure: Figure, value: float) -> Measured:
    """Compares a value with floor and aim."""
    if figure.floor is not None and not figure.reaches(value, figure.floor):
        return Measured(figure, value, "LOST: worse than its floor", True)
    if figure.reaches(value, figure.aim):
        return Measured(figure, value, "aim reached", False)
    return Measured(figure, value, "short of the aim", False)


def run_command(command: tuple[str, ...]) -> tuple[dict[str, float], str]:
    """Returns the values that a command printed, and the reason if it failed."""
    arguments = [sys.executable if word == "python" else word for word in command]
    try:
        done = subprocess.run(arguments, cwd=TABLE.parents[1], capture_output=True, text=True,
                              timeout=TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, str(error)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return {}, f"exit status {done.returncode}: {last[0]}"
    return values_in(done.stdout), ""


def unmeasured(figure: Figure) -> str:
    """Why this machine does not measure the figure; empty where it does."""
    if not figure.command:
        return "not measured yet"
    if figure.needs and not set(figure.needs) & set(host().features):
        return f"not measured: this processor has no {' or '.join(figure.needs)}"
    if other := sorted(set(figure.lacks) & set(host().features)):
        return f"not measured: this processor has {' and '.join(other)}"
    return ""


def measure(figures: Sequence[Figure], said: Callable[[str], None] = lambda line: None
            ) -> list[Measured]:
    """Runs every command once and judges the figures in the order of the table. `said` takes a line
    when a command begins and one for each of its figures.
    """
    due = [figure for figure in figures if not unmeasured(figure)]
    found: dict[str, Measured] = {}
    commands = list(dict.fromkeys(figure.command for figure in due))
    for count, command in enumerate(commands, 1):
        said(f"{time.strftime('%H:%M:%S')} [{count}/{len(commands)}] {' '.join(command)}")
        values, reason = run_command(command)
        for figure in due:
            if figure.command != command:
                continue
            if figure.name in values:
                row = judge(figure, values[figure.name])
            else:
                verdict = f"FAILED: {reason or 'its command did not print it'}"
                row = Measured(figure, None, verdict, True)
            said(f"  {figure.name} {number(row.value)} {row.verdict}")
            found[figure.name] = row
    return [found.get(figure.name) or Measured(figure, None, unmeasured(figure), False)
            for figure in figures]


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.10g}"


def render(measured: Sequence[Measured]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("figure", no_wrap=True)
    for heading in ("value", "floor", "best", "aim"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("unit")
    table.add_column("verdict")
    for row in measured:
        figure = row.figure
        marks = map(number, (row.value, figure.floor, figure.best, figure.aim))
        table.add_row(figure.name, *marks, figure.unit, row.verdict,
                      style="red" if row.lost else "")
    return table


def select(figures: list[Figure], names: Sequence[str]) -> list[Figure]:
    known = {figure.name for figure in figures}
    for name in names:
        if name not in known:
            raise ValueError(f"figure must be one of {', '.join(sorted(known))}, not {name!r}")
    return [figure for figure in figures if not names or figure.name in names]


def main(argv: Sequence[str] | None = None, path: Path = TABLE) -> int:
    parser = argparse.ArgumentParser(prog="bench.scoreboard",
                                     description="Measure the figures of scoreboard.toml.")
    parser.add_argument("mode", nargs="?", choices=["all", "measure"], default="all")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(argv)
    try:
        figures = select(read_table(path), options.names)
    except ValueError as error:
        print(f"scoreboard: error: {error}", file=sys.stderr)
        return 2
    measured = measure(figures, lambda line: print(line, file=sys.stderr, flush=True))
    Console().print(render(measured))
    lost = [row.figure.name for row in measured if row.lost]
    if lost:
        print(f"scoreboard: lost: {', '.join(lost)}", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
