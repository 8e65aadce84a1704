"""Native code that is compiled on first use, and kept in the cache (`compiler.kept`).

Tools are run by `call` alone (`compiler.processes`).
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from compiler.kept import (BuildError, CacheError, build_once, cache_folder, find, note, noted)
from compiler.processes import call_all, run_tool

__all__ = ["BuildError", "CacheError", "build_once", "cache_folder", "call", "compile_objects",
           "compile_shared", "compiler", "digest", "find", "library_of", "note", "noted",
           "object_of", "precompile_header", "processor", "run_tool"]


@cache
def compiler() -> tuple[str, str]:
    """Path and identity of the C++ compiler: ``$CXX``, or the first that is found."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    for name in names:
        if path := shutil.which(name):
            version = run_tool([path, "--version"])
            return path, version.stdout.partition("\n")[0]
    raise BuildError(f"A C++ compiler must be installed to build native code; none of "
                     f"{', '.join(names)} was found (CXX may name one)")


@cache
def processor() -> str:
    """The processor, as far as ``-march=native`` depends on it."""
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


_COMMON = ("-fPIC", "-std=c++17")


def compile_shared(sources: Mapping[Path, Sequence[str]], target: Path,
                   flags: Sequence[str] = (), objects: Sequence[Path] = ()) -> None:
    """Compile C++ files, each with flags of its own and the common ones, to a shared object, of
    which `objects` that are there already become part.
    """
    folder = target.parent.absolute()
    compiled = compile_objects(sources, folder, flags)
    call([compiler()[0], *_COMMON, *flags, "-shared", "-o", str(folder / target.name),
          *map(str, (*compiled, *objects))], folder)
    for path in compiled:
        os.unlink(path)


def library_of(kind: str, what: str, texts: Mapping[str, str], flags: Sequence[str],
               takes: str = "up to a minute") -> ctypes.CDLL:
    """The library that `object_of` gives, loaded."""
    return ctypes.CDLL(str(object_of(kind, what, texts, flags, takes)))


def object_of(kind: str, what: str, texts: Mapping[str, str], flags: Sequence[str],
              takes: str = "up to a minute") -> Path:
    """The shared object of C++ files and the headers that they include, by the names of their
    files, for this processor; from the cache, or newly built as `build_once` says it. Its folder
    has the name of the entry.
    """
    key = digest([*(f"{name}\n{text}" for name, text in texts.items()), *flags, compiler()[1],
                  processor()])

    def make(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name).write_text(text)
        compile_shared({folder / name: () for name in texts if name.endswith(".cpp")},
                       folder / f"{kind}.so", [*flags, f"-I{folder}"])
    return build_once(kind, key, what, make, takes) / f"{kind}.so"


def compile_objects(sources: Mapping[Path, Sequence[str]], folder: Path,
                    flags: Sequence[str] = ()) -> list[Path]:
    """Compile C++ files, each with flags of its own and the common ones, to objects in a folder."""
    objects = [folder / f"{source.stem}.o" for source in sources]
    for done in call_all([[compiler()[0], *_COMMON, *flags, *own, "-c", "-o", str(path),
                           str(source.absolute())]
                          for (source, own), path in zip(sources.items(), objects)], cwd=folder):
        _require(done)
    return objects


def precompile_header(source: Path, target: Path, flags: Sequence[str] = ()) -> None:
    """Write a header as the compiler has read it, for files that are compiled with these flags and
    the common ones and include it first.
    """
    call([compiler()[0], *_COMMON, *flags, "-w", "-x", "c++-header", "-o", str(target),
          str(source)], target.parent)


def call(command: Sequence[str], cwd: Path | None = None,
         env: Mapping[str, str] | None = None) -> None:
    """Run a tool. Raises BuildError with the end of what it said if it fails."""
    _require(run_tool(command, cwd, env))


def _require(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines()
        errors = [line for line in said if "error" in line.lower()] or said[-5:]
        raise BuildError(f"{Path(done.args[0]).name} failed with status {done.returncode}: "
                         + " | ".join(errors[:5]))
