"""Explorations killed at random moments, and resumed: ``python -m bench.explore killed``.

A command explores a few dozen machines with one network, with effort for the mappings of its front,
from an empty cache; it is killed by SIGKILL at random moments, several times in a row, and then
runs to its end. What it prints and writes must be what an undisturbed run does, byte for byte, and
nothing may be left: no file, no process (`bench.killed`).
"""

import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from bench.killed import DIGITS, Job, Place, Record, row

__all__ = ["SPACE", "explorations", "killed"]

SPACE = ("block_out=4,8,16", "bus_bytes=4,8", "wgt=same,double,quadruple", "memory.latency=16,64")
TRIALS = 24             # of a search
OUTPUT = "out.json"


def explorations(varied: tuple[str, ...] = SPACE, trials: int = TRIALS, effort: int = 1
                 ) -> dict[str, Job]:
    """The commands: of the whole grid, and of a search."""
    vary = [word for one in varied for word in ("--vary", one)]
    command = ("explore", str(DIGITS), "--base", "tiny-1x4x4", *vary, "--effort", str(effort),
               "--processes", "2", "--json", OUTPUT)
    return {"grid": Job(command, 1, _told, output=OUTPUT),
            "search": Job((*command, "--strategy", "search", "--trials", str(trials)), 1, _told,
                          output=OUTPUT)}


def _told(folder: Path) -> str:
    return (folder / "said").read_text() + (folder / OUTPUT).read_text()


def killed(jobs: dict[str, Job], kills: int, seed: int) -> dict[str, float | int]:
    """Kills each command so many times in a row; tells what was wrong, and how long it takes."""
    figures: dict[str, float | int] = {}
    record = Record(Counter(killed_wrong=0, killed_leftovers=0))
    for name, job in jobs.items():
        with tempfile.TemporaryDirectory() as folder:
            first = Place(Path(folder) / "first", job)
            seconds, wanted = list[float](), ""
            for _ in range(2):                  # the second time everything is known
                begin = time.monotonic()
                status, wanted = first.finish()
                seconds.append(time.monotonic() - begin)
                if status:
                    raise SystemExit(f"{name}: {wanted}")
            whole, known = seconds
            # So that on the average they lie side by side over all that is measured.
            within = known + 2 * (whole - known) / (kills + 1)
            row(name, [signal.SIGKILL] * kills, Place(Path(folder) / "killed", job),
                Random(f"{name} {seed}"), within, wanted, record)
        figures[f"explore_{name}_seconds"] = whole
    return figures | {f"explore_{name}": count for name, count in record.counts.items()}
