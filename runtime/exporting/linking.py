"""Libraries of object files, by the tools of the machine that they are for."""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from compiler.exports import ExportError
from compiler.native import call, compiler

COMPILERS = {"aarch64": ("aarch64-linux-gnu-gcc",), "armv8-a": ("aarch64-linux-gnu-gcc",),
             "armv7": ("arm-linux-gnueabihf-gcc",), "riscv64": ("riscv64-linux-gnu-gcc",)}
"""Commands that link for a machine, where ``CC`` names none."""


def shared_library(code: bytes, machine: str | None) -> bytes:
    """The code as a shared library; `machine` is a name of `MACHINES`, None for this computer."""
    linker = _linker(machine)
    openmp = ["-fopenmp"] if b"GOMP_parallel" in code else []
    return _made(code, "library.so", lambda made, given: [
        *linker, "-shared", "-o", made, given, "-lm", *openmp])


def static_library(code: bytes, name: str) -> bytes:
    """The code as an archive of one object, with an index. The same code gives the same bytes."""
    tool = shutil.which(os.environ.get("AR", "ar"))
    if tool is None:
        raise ExportError("A static library needs ar, of GNU binutils or LLVM: install it, name it "
                          "in AR, or export an object")
    return _made(code, "library.a", lambda made, given: [tool, "rcsD", made, given], f"{name}.o")


def wasm_module(code: bytes, name: str, functions: Sequence[str]) -> bytes:
    """The code as a WebAssembly module without imports, which exports these functions, its memory
    and where that is free: ``__heap_base``.
    """
    return _made(code, f"{name}.wasm", lambda made, given: [
        *_wasm_linker(), "--no-entry", "--gc-sections", "--strip-all", "-O2",
        *(f"--export={function}" for function in (*functions, "__heap_base")), "-o", made, given])


def _wasm_linker() -> list[str]:
    if found := shutil.which("wasm-ld"):
        return [found]
    if find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "wasm-ld"]
    raise ExportError("A WebAssembly module needs wasm-ld: install lld of LLVM (Debian: apt "
                      "install lld) or the package ziglang")


def _linker(machine: str | None) -> list[str]:
    if named := os.environ.get("CC", ""):
        return shlex.split(named)
    if machine is None or machine.startswith("x86-64") and os.uname().machine == "x86_64":
        return [*compiler()[:1]]
    for command in COMPILERS.get(machine, ()):
        if found := shutil.which(command):
            return [found]
    raise ExportError(f"A shared library for {machine} needs a compiler that links for it: name it "
                      f"in CC, or export an object")


def _made(code: bytes, made: str, command, given: str = "code.o") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / given, Path(folder) / made
        source.write_bytes(code)
        call(command(str(target), str(source)))
        return target.read_bytes()
