"""Runs a benchmark, or lists all: ``python -m bench [NAME [options]]``.

``python -m bench`` prints each benchmark with the question that it answers; ``NAME --help`` has its
parts and options (`bench.frame`). `inputs` holds what several of them measure, `support` how
they measure, and `tests.support` what tests need as well.
"""

import ast
import importlib
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence

from bench.frame import HERE, Bench

AREAS = {
    "accelerator": "The array, and schedules for it",
    "simulators": "Simulators, the RTL and the proof",
    "fpga": "FPGAs",
    "cpu": "The CPU",
    "gpu": "GPUs",
    "networks": "Networks as users bring them",
    "searches": "Searches and explorations",
    "exports": "Networks without the compiler",
    "robustness": "Bad input and sudden ends",
}
"""The folders of benchmarks."""

ALONE = ("values", "fingerprints", "scoreboard")
"""Commands of their own, ``python -m bench.NAME``: random networks, and all that must not be lost.
"""


def benchmarks(area: str) -> Iterator[str]:
    """The benchmarks of a folder."""
    yield from (f"{area}.{path.stem}" for path in sorted((HERE / area).glob("*.py")))


def question(name: str) -> str:
    """The first sentence of a benchmark's docstring."""
    path = HERE.joinpath(*name.split(".")).with_suffix(".py")
    path = path if path.exists() else path.with_suffix("") / "__main__.py"
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    sentence = re.match(r".*?[?.](?=\s|$)", text.replace("\n", " "))
    return sentence[0] if sentence else ""


def show() -> None:
    for area, title in AREAS.items():
        _show(title, benchmarks(area), "")
    _show("Commands of their own", ALONE, "bench.")


def _show(title: str, names: Iterator[str] | Sequence[str], prefix: str) -> None:
    print(f"{title}\n")
    for name in names:
        print(textwrap.fill(question(name), 100, subsequent_indent=" " * 29,
                            initial_indent=f"  {prefix + name:26} "))
    print()


def main(argv: Sequence[str]) -> int:
    """Runs the benchmark that the first argument names, in a process with its environment."""
    if not argv:
        show()
        return 0
    name, *options = argv
    known = [one for area in AREAS for one in benchmarks(area)]
    if name not in known:
        print(f"bench: NAME must be one of {', '.join(known)}, not {name!r}", file=sys.stderr)
        return 2
    bench: Bench = importlib.import_module(f"bench.{name}").BENCH
    if any(os.environ.get(key) != value for key, value in bench.environment.items()):
        os.execve(sys.executable, [sys.executable, "-m", "bench", *argv],
                  os.environ | bench.environment)       # libraries read it when they are loaded
    return bench.main(options)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
