"""The frame of every benchmark: its parts, the options that all have, and where figures go.

    python -m bench NAME [--only NAME ...] [--json FILE] [--machine M]... [--seed N] [own options]

A benchmark is a module with a `Bench` and its parts, functions that are given a `Sheet`. A part may
have cases (networks, say). ``--only`` takes names of parts and of cases: named parts run, with the
named ones of their cases if there are some; where only cases are named, every part runs that has
some of them. An `extra` part runs only when it is named. ``--json`` writes machines, seed, figures
and rows. Exit status 1: something measured is wrong. 2: the request is, and one line says how.
"""

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from compiler.errors import Error, RequestError
from compiler.files import write_text

HERE = Path(__file__).parent


@dataclass
class Sheet:
    """What a part is given: its cases, the options as attributes, and the places for results."""

    options: argparse.Namespace
    cases: list[str]
    default_machines: Sequence[str] = ()
    load: Callable[[str], Machine] = load_machine
    figures: dict[str, Any] = field(default_factory=dict)
    rows: list[Any] = field(default_factory=list)
    is_wrong: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["options"], name)

    def machines_or(self, names: Sequence[str]) -> dict[str, Machine]:
        """The machines that the command asks for, else these, by name."""
        return {name: self.load(name) for name in getattr(self, "machine_names", None) or names}

    @cached_property
    def machines(self) -> dict[str, Machine]:
        """The machines that the command asks for, else the bench's own, by name."""
        return self.machines_or(self.default_machines)

    @property
    def machine(self) -> Machine:
        """The only machine of the command, else the bench's own."""
        return self.machine_or(*self.default_machines)

    def machine_or(self, *names: str) -> Machine:
        """The only machine of the command, else this one. Raises RequestError for several."""
        machine, *others = self.machines_or(names).values()
        if others:
            raise RequestError(f"--machine must be given once, not {1 + len(others)} times")
        return machine

    def figure(self, name: str, value: Any, form: str = "") -> None:
        """Prints ``name value``, a line that the scoreboard reads."""
        self.figures[name] = value
        print(name, format(value, form), flush=True)

    def row(self, values: Any) -> None:
        """Keeps a record, a dataclass or a mapping, for ``--json``."""
        self.rows.append(dict(values) if isinstance(values, Mapping) else asdict(values))

    def require(self, right: bool) -> None:
        """Makes the exit status 1 if `right` is false."""
        self.is_wrong |= not right


@dataclass(frozen=True)
class Part:
    """A function with the names of its cases, those that run unless told, and whether to run."""

    function: Callable[[Sheet], None]
    known: Collection[str]
    default: Sequence[str]
    extra: bool
    is_open: bool

    @property
    def name(self) -> str:
        return self.function.__name__.strip("_")

    def has(self, case: str) -> bool:
        return case in self.known or self.is_open and Path(case).suffix != ""


class Bench:
    """A benchmark.

    Parameters
    ----------
    file, text : ``__file__`` and ``__doc__`` of its module.
    machine : one name or several that ``--machine`` replaces; without it there is no such option.
    seed : what ``--seed`` is unless told; None where nothing is drawn.
    load : what makes a machine of a name.
    environment : variables that must be set before a process begins.
    """

    def __init__(self, file: str, text: str | None, machine: str | Sequence[str] = (),
                 seed: int | None = None, load: Callable[[str], Machine] = load_machine,
                 environment: Mapping[str, str] | None = None):
        path = Path(file).relative_to(HERE).with_suffix("")
        self.name, self.load, self.environment = ".".join(path.parts), load, environment or {}
        self.parts: list[Part] = []
        self.parser = argparse.ArgumentParser(
            prog=f"python -m bench {self.name}", description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter)
        self.option("--only", nargs="+", metavar="NAME", default=[], help="parts, or their cases")
        self.option("--json", type=Path, metavar="FILE", help="where machines, figures and rows go")
        self.machines = [machine] if isinstance(machine, str) else list(machine)
        if machine:
            self.option("--machine", action="append", metavar="M", dest="machine_names",
                        help=f"preset, TOML or Python; repeatable ({', '.join(self.machines)})")
        if seed is not None:
            self.option("--seed", type=int, default=seed, help=f"of all that is drawn ({seed})")

    def option(self, *names: str, **how: Any) -> None:
        """Adds an option of the bench's own, as `argparse` takes it."""
        default = how.get("default")
        if "help" in how and default not in (None, [], False) and str(default) not in how["help"]:
            how["help"] += f" ({default})"
        self.parser.add_argument(*names, **how)

    def part(self, cases: Collection[str] = (), default: Sequence[str] | None = None,
             extra: bool = False, is_open: bool = False
             ) -> Callable[[Callable[[Sheet], None]], Callable[[Sheet], None]]:
        """Adds the decorated function. Files are cases as well where it `is_open`."""
        def added(function: Callable[[Sheet], None]) -> Callable[[Sheet], None]:
            chosen = list(cases) if default is None else default
            self.parts.append(Part(function, cases, chosen, extra, is_open))
            return function

        return added

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Runs what the command asks for; returns the exit status."""
        options = self.parser.parse_args(argv)
        sheet = Sheet(options, [], self.machines, self.load)
        try:
            for part, sheet.cases in self.chosen(options.only):
                part.function(sheet)
            if options.json:
                self._write(sheet)
        except Error as error:
            print(f"bench {self.name}: {error}", file=sys.stderr)
            return error.exit_status
        return int(sheet.is_wrong)

    def _write(self, sheet: Sheet) -> None:
        told = {"machines": {name: machine.hash for name, machine in sheet.machines.items()},
                "seed": getattr(sheet.options, "seed", None), "figures": sheet.figures,
                "rows": sheet.rows}
        write_text(sheet.options.json, json.dumps(told, indent=1, default=str) + "\n")

    def chosen(self, only: Sequence[str]) -> Iterator[tuple[Part, list[str]]]:
        """The parts that these names ask for, with their cases. Raises RequestError."""
        names = {part.name for part in self.parts}
        for name in only:
            if name not in names and not any(part.has(name) for part in self.parts):
                known = names | {case for part in self.parts for case in part.known}
                raise RequestError(f"--only must be of {', '.join(sorted(known))}, not {name!r}")
        named = [part for part in self.parts if part.name in only]
        alone = {name for name in only if not any(
            part.name == name or part.has(name) for part in named)}
        for name in only:
            parts = [part for part in self.parts if name in alone and part.has(name)]
            if parts and all(part.extra for part in parts):
                raise RequestError(f"--only must name {' or '.join(one.name for one in parts)} "
                                   f"beside {name!r}: an extra part runs only when it is named")
        for part in self.parts:
            cases = [name for name in only if part.has(name)]
            if part in named or not part.extra and (alone & {*cases} or not only):
                yield part, cases or list(part.default)


def positive(text: str) -> int:
    """An integer of at least 1, as a type of options."""
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value
