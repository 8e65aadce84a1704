"""The makers of results, and the time: version, commit, sources, packages, processor, date."""

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compiler.tune.record import now, processor_name, versions
import lockstep

CLONE = Path(lockstep.__file__).parents[1]
ROOMS = ("accel", "compiler", "fpga", "lockstep", "runtime")
PACKAGES = ("numpy", "amaranth", "llvmlite")


def made() -> dict[str, Any]:
    """Versions, processor and date. `commit` is None outside a clone, `changed` says that files of
    the clone differ from the commit; `sources` is a hash of all sources, clone or not.
    """
    return {"lockstep": lockstep.__version__, **commit_of(CLONE),
            "sources": versions(ROOMS, ()).split()[-1],
            "python": platform.python_version(),
            "packages": {package: version(package) for package in PACKAGES},
            "processor": processor_name(), "date": now()}


@cache
def commit_of(folder: Path) -> dict[str, Any]:
    """The commit of a clone, and if its files differ from it; Nones for a folder that is none."""
    commit = _git(folder, "rev-parse", "HEAD") if (folder / ".git").exists() else None
    changes = None if commit is None else _git(folder, "status", "--porcelain")
    return {"commit": commit, "changed": None if changes is None else changes != ""}


def _git(folder: Path, *words: str) -> str | None:
    """The answer of git, without the last line's end; None where git is missing or refuses. No lock
    is taken, which a commit at the same time would meet.
    """
    try:
        done = subprocess.run(["git", "--no-optional-locks", "-C", str(folder), *words], check=True,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.rstrip("\n")
