"""Carries out ``lockstep reproduce``."""

import argparse
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler.errors import RequestError
from compiler.kept import FRESH
from lockstep.printing.lines import say
from lockstep.options.paths import OutputFile, OutputFolder, PictureFolder, find_networks
from lockstep.provenance.measured import differences, unmeasured
from lockstep.provenance.texts import made_text

SCRATCH = ("json", "output")        # files that the command writes in a folder of its own
COMMANDS = ("run", "explore", "diff", "quantize", "intrinsic")
MOST = 20                           # differences that are shown
LONGEST = 60                        # of a value

Parse = Callable[[Sequence[str]], argparse.Namespace]


def reproduce(path: Path, parse: Parse) -> int:
    """Make the results again and say where they differ; the exit status."""
    told = _read(path)
    provenance = told["provenance"]
    args = parse(provenance["command"])
    args.words, args.parse, args.files_then = provenance["command"], parse, provenance["files"]
    find_networks(vars(args))
    with tempfile.TemporaryDirectory() as folder, _without_results(Path(folder)):
        results = _redirect(args, Path(folder))
        with contextlib.redirect_stdout(io.StringIO()):
            status = args.run(args)
        if not results.exists():
            say(f"{path}: the command ended with status {status} and wrote no results")
            return 1
        return _compare(path, told, json.loads(results.read_text()))


def _read(path: Path) -> dict[str, Any]:
    """The results. Raises RequestError for a file without a provenance to begin from."""
    told: Any = None
    try:
        told = json.loads(path.read_bytes())
        provenance = told["provenance"]
        fits = (provenance["command"][0] in COMMANDS
                and all(isinstance(word, str) for word in provenance["command"])
                and all(isinstance(path, str) for path in provenance["measured"])
                and isinstance(provenance["files"], dict) and made_text(provenance["made"]))
    except (ValueError, TypeError, LookupError, RecursionError):
        fits = False
    if not fits:
        raise RequestError(f"{str(path)!r} must be results with their provenance, as --json of "
                           f"run, explore, diff and quantize writes them")
    return told


@contextlib.contextmanager
def _without_results(folder: Path) -> Iterator[None]:
    """Within, the cache has no results; those of the processes that are begun lie in a folder."""
    before = os.environ.get(FRESH)
    os.environ[FRESH] = str(folder / "results")
    try:
        yield
    finally:
        os.environ.pop(FRESH)
        if before is not None:
            os.environ[FRESH] = before


def _redirect(args: argparse.Namespace, folder: Path) -> Path:
    """Let a command write into a folder what it must, and read no results of others; where its
    JSON goes.
    """
    for name, value in vars(args).items():
        if name == "db" or name in SCRATCH and isinstance(value, OutputFile):
            setattr(args, name, _scratch(folder / name, value))
        elif isinstance(value, OutputFile | OutputFolder | PictureFolder):
            setattr(args, name, None)
        elif name == "waves" and value:         # it chooses the simulator
            args.waves = (value[0], OutputFile(folder / value[1].name))
    return folder / "json"


def _scratch(place: Path, given: OutputFile | None) -> OutputFile:
    file = OutputFile(place)
    file.name_given = "" if given is None else given.title
    return file


def _compare(path: Path, told: Mapping[str, Any], again: Mapping[str, Any]) -> int:
    found = [*_differences(told, again)]
    then, now = (made_text(one["provenance"]["made"]) for one in (told, again))
    by = f"{then}, and again by {now}" if then != now else then
    for place, here, there in found[:MOST]:
        say(f"{place}: {_short(here)} then, {_short(there)} now")
    if len(found) > MOST:
        say(f"and {len(found) - MOST:,} more")
    count = f"{len(found):,} difference{'s' * (len(found) > 1)}"
    what = count if found else "the same to the bit"
    say(f"{path}: {what}; made by {by}; not compared, since measured: "
        f"{', '.join(told['provenance']['measured'])}")
    return 1 if found else 0


def _differences(told: Mapping[str, Any], again: Mapping[str, Any]
                 ) -> Iterator[tuple[str, str, str]]:
    """Differences but in what the older results mark as measured."""
    marks = told["provenance"]["measured"]
    later = {**again, "provenance": {**again["provenance"], "measured": marks}}
    yield from differences(unmeasured(told), unmeasured(later))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
