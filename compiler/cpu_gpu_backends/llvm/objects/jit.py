"""Compiles the text of an LLVM module to machine code, keeps it on disk and loads it."""

import ctypes
import ctypes.util
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from threading import RLock
from types import MappingProxyType

import llvmlite.binding as llvm

from compiler.errors import Error
from compiler.native import build_once, digest

from compiler.cpu_gpu_backends.llvm.emitting.functions import FUNCTIONS
from compiler.cpu_gpu_backends.llvm.machine import Processor, host, linker, target_machine
from .apart import apart
from .halves import HALVES, halves
from .pool import address_of, pool


class CodeError(Error):
    """There is no code for a text, by a defect of LLVM or as somebody killed it; the message is one
    sentence."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to generate code: all ways mean the same."""

    joins: bool = True          # statements that do the same, to vectors
    level: int = 3              # of optimization


WAYS = (_Way(), _Way(joins=False), _Way(joins=False, level=1))
"""The first is meant; another one follows where LLVM fails."""


_in_llvm = RLock()
"""Held by the thread that compiles or links. A fork waits for it: a child could not finish what
another thread has begun, nor take LLVM's own locks from it."""
os.register_at_fork(before=_in_llvm.acquire, after_in_parent=_in_llvm.release,
                    after_in_child=_in_llvm.release)


def _optimized(text: str, machine: Processor, way: _Way = WAYS[0]) -> llvm.ModuleRef:
    target = target_machine(machine)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(target.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=min(
        way.level, 2 if machine.is_small else 3))
    options.slp_vectorization = way.joins and not machine.is_small  # there code should be short
    options.loop_vectorization = options.loop_unrolling = way.level > 1 and not machine.is_small
    passes = llvm.create_pass_builder(target, options)
    passes.getModulePassManager().run(module, passes)
    return module


def optimized(text: str, machine: Processor | None = None) -> str:
    """The module after LLVM's passes, at their highest level."""
    return str(_optimized(text, machine or host()))


def assembly(text: str, machine: Processor | None = None) -> str:
    """The module as assembly."""
    return _generated(text, machine or host(), "assembly").decode()


def object_code(text: str, machine: Processor) -> bytes:
    """The module as an object file.

    It is cached (`compiler.native`) under the hash of the text, the machine and the version of
    LLVM; processes that want it at the same time compile it once. Without a writable cache it is
    compiled every time.
    """
    version = ".".join(map(str, llvm.llvm_version_info))
    key = digest([text, version, machine.triple, machine.cpu, *machine.features, "-",
                  *machine.absent, *(["static"] * machine.is_bare),
                  *(["small"] * machine.is_small)])
    try:
        folder = build_once("kernels", key, None, lambda folder: _write_object(
            folder / "kernel.o", text, machine))
        return (folder / "kernel.o").read_bytes()
    except OSError:
        return _object_code(text, machine)


def _write_object(path, text: str, machine: Processor) -> None:
    path.write_bytes(_object_code(text, machine))


def _object_code(text: str, machine: Processor) -> bytes:
    return _generated(text, machine, "object")


def _emitted(text: str, machine: Processor, kind: str, way: _Way) -> bytes:
    target, module = target_machine(machine), _optimized(text, machine, way)
    return target.emit_object(module) if kind == "object" else target.emit_assembly(module).encode()


def _generated(text: str, machine: Processor, kind: str) -> bytes:
    """The code that LLVM emits in the first way in which it gets to an end. Raises CodeError."""
    with _in_llvm:
        target_machine(machine)                 # kept, so that no child makes its own
        for way in WAYS:
            try:
                code = apart(_emitted, text, machine, kind, way)
            except ChildProcessError as error:
                raise CodeError(f"The process that generates code was killed by {error}") from None
            if code is not None:
                return code
    names = ", ".join(re.findall(r"^define \w+ @(\w+)\(", text, re.MULTILINE)[:3])
    raise CodeError(f"LLVM {'.'.join(map(str, llvm.llvm_version_info))} ends while it generates "
                    f"code of {names} for {machine.cpu}, a defect of LLVM; give another target")


FOREIGN: dict[str, int] = {}
"""Functions that code links with in preference to those of the process: name to address."""

_MATH = (*FUNCTIONS, "fmod", "fmodf", "floor", "floorf", "ceil", "ceilf", "rint", "rintf")


@cache
def _math() -> dict[str, int]:
    """Finds the mathematical functions: in the process already, or in a separate library."""
    process = ctypes.CDLL(None)
    library = process if hasattr(process, "expf") else ctypes.CDLL(ctypes.util.find_library("m"))
    return {name: address_of(library, name) for name in _MATH}


class Library:
    """Machine code in memory, from an object file that defines `names` and may call what is at the
    addresses of `others`. The object keeps the code alive while its functions are in use.
    """

    def __init__(self, code: bytes, names: Iterable[str], machine: Processor,
                 others: Mapping[str, int] = MappingProxyType({})):
        with _in_llvm:
            self._link(code, names, machine, others)

    def _link(self, code: bytes, names: Iterable[str], machine: Processor,
              others: Mapping[str, int]) -> None:
        self._jit = linker(machine)
        link = llvm.JITLibraryBuilder().add_object_img(code)
        link.add_current_process()
        symbols = _math()
        if b"GOMP_parallel" in code:
            symbols |= pool().symbols
        if any(name.encode() in code for name in HALVES):
            symbols |= halves()
        symbols |= FOREIGN | dict(others)
        for name, address in symbols.items():
            link.import_symbol(name, address)
        for name in names:
            link.export_symbol(name)
        self._tracker = link.link(self._jit, "library")

    def address(self, name: str) -> int:
        return self._tracker[name]


def library(text: str, machine: Processor | None = None) -> Library:
    """The library of a text, compiled once for each text, machine and process."""
    return _library(text, machine or host())


@cache
def _library(text: str, machine: Processor) -> Library:
    names = re.findall(r"^define \w+ @(\w+)\(", text, re.MULTILINE)
    return Library(object_code(text, machine), names, machine)
