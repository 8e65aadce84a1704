"""Native code that is compiled on first use, kept in a cache.

The cache lies in ``$LOCKSTEP_CACHE``, else ``$XDG_CACHE_HOME/lockstep``, else
``~/.cache/lockstep``. An entry is a folder named after the hash of all that it was made from. It
is built apart, under a lock, and appears whole: processes that want it at once are safe.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from compiler.errors import Error

__all__ = ["BuildError", "CacheError", "build_once", "cache_folder", "call", "compile_shared",
           "compiler", "digest", "processor", "replace_text"]


class BuildError(Error):
    """Native code could not be built; the message says which tool failed, and how."""


class CacheError(BuildError, OSError):
    """The cache cannot be written. What can be done without one is."""


def cache_folder() -> Path:
    """Where built objects are kept."""
    if chosen := os.environ.get("LOCKSTEP_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "lockstep"


@cache
def compiler() -> tuple[str, str]:
    """Path and identity of the C++ compiler: ``$CXX``, or the first that is found."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    for name in names:
        if path := shutil.which(name):
            version = subprocess.run([path, "--version"], capture_output=True, text=True)
            return path, version.stdout.partition("\n")[0]
    raise BuildError(f"A C++ compiler must be installed to build native code; none of "
                     f"{', '.join(names)} was found (CXX may name one)")


@cache
def processor() -> str:
    """What ``-march=native`` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    chosen = [line for line in lines if line.startswith(("model name", "flags"))][:2]
    return platform.machine() + "".join(chosen)


def digest(parts: Iterable[str]) -> str:
    """Hash of a sequence of texts."""
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part.encode()).digest())
    return total.hexdigest()


def build_once(kind: str, key: str, what: str | None, build: Callable[[Path], None],
               takes: str = "up to a minute") -> Path:
    """The folder of `key` in the cache; `build` fills it, in another place, if it is not there.

    `what`, and how long it `takes`, are shown on a terminal while it is being built; without it,
    nothing is. Raises CacheError if the cache cannot be written.
    """
    folder = cache_folder() / kind / key[:32]
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        locked = open(folder.with_suffix(".lock"), "w")
    except OSError as error:
        raise CacheError(f"Cache {cache_folder()} must be a folder that can be written "
                         f"({error.strerror}); LOCKSTEP_CACHE may name another one") from None
    with locked as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():         # another process has built it meanwhile
            return folder
        scratch = Path(tempfile.mkdtemp(prefix="build-", dir=folder.parent))
        try:
            with _spinner(what and f"Building {what} (once; {takes})"):
                build(scratch)
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def replace_text(path: Path, text: str) -> None:
    """Write a small file at once: a reader sees all of it, or what was there before."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as scratch:
        scratch.write(text)
    os.replace(scratch.name, path)


@contextmanager
def _spinner(text: str | None) -> Iterator[None]:
    if not text or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def compile_shared(sources: Mapping[Path, Sequence[str]], target: Path,
                   flags: Sequence[str] = ()) -> None:
    """Compile C++ files, each with flags of its own and the common ones, to a shared object."""
    command = [compiler()[0], "-fPIC", "-std=c++17", *flags]
    objects = [target.with_name(f"{source.stem}.o") for source in sources]
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda job: call([*command, *job[0][1], "-c", "-o", str(job[1]),
                                        str(job[0][0])]), zip(sources.items(), objects)))
    call([*command, "-shared", "-o", str(target), *map(str, objects)])
    for one in objects:
        one.unlink()


def call(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """Run a tool. Raises BuildError with the end of what it said if it fails."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines()
        errors = [line for line in said if "error" in line.lower()] or said[-5:]
        raise BuildError(f"{Path(command[0]).name} failed with status {done.returncode}: "
                         + " | ".join(errors[:5]))
