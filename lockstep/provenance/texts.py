"""Provenance for readers: the lines of a page."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

DIGITS = 12         # of a commit


def made_text(made: Mapping[str, Any]) -> str:
    """The version, and the commit where it is known: ``lockstep 0.2.0 at 1f2e3d4c5b6a, changed``.
    """
    commit = f" at {made['commit'][:DIGITS]}" if made["commit"] else ""
    return f"lockstep {made['lockstep']}{commit}{', changed' if made['changed'] else ''}"


def provenance_lines(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of the provenance of results; none for results without it."""
    provenance = figures.get("provenance")
    if not provenance:
        return
    made = provenance["made"]
    yield "command", shlex.join(["lockstep", *provenance["command"]])
    yield "made by", made_text(made)
    yield "sources", made["sources"]
    yield "with", ", ".join([f"Python {made['python']}", *(
        f"{name} {version}" for name, version in made["packages"].items())])
    yield "processor", made["processor"]
    yield "date", made["date"]
    yield from ((f"sha256 of {name}", digest or "not a regular file")
                for name, digest in provenance["files"].items())
    for name, machine in provenance["machines"].items():
        yield f"machine {name}", f"{machine['hash']}, {machine['clock_mhz']} MHz"
        yield f"memory of {name}", _options(machine["memory"])
    yield from ((name.replace("_", " "), str(seed)) for name, seed in provenance["seeds"].items())
    yield "options", _options(provenance["options"])


def _options(options: Mapping[str, Any]) -> str:
    """The options that say something, in a line."""
    return ", ".join(f"{name} {value}" for name, value in options.items()
                     if value not in (None, False, [], {}, ""))
