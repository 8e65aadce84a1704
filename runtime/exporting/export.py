"""Writes a network as files that need neither Python nor a compiler of networks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from compiler.cpu_gpu_backends.cpu.exported import Exported, exported
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm import MACHINES, Processor, host
from compiler.errors import ArgumentError
from compiler.exports import (ExportError, Sample, check_program, header, javascript,
                              javascript_test, typescript)
from compiler.exports.bindings import LANGUAGES, OVER_A_SHARED_LIBRARY
from compiler.exports.bindings import bindings as texts_of
from compiler.exports.check import BOUND
from compiler.exports.names import identifier_from
from compiler.files import FileError, write_bytes
from compiler.graph.division.protocols import HOST
from compiler.plans import Plans
from compiler.te import SMALL
from compiler.tune.best import packaged
from runtime.exporting.linking import shared_library, static_library, wasm_module
from runtime.exporting.scales import described
from runtime.exporting.ports import random_inputs

KINDS = ("object", "static", "shared", "module")
"""``NAME.o``, ``libNAME.a``, ``libNAME.so``, or ``NAME.wasm``."""

SEED = 0            # of the stored inputs


@dataclass(frozen=True, slots=True)
class ExportedFiles:
    """The files that were written, in order, and the code's description of itself."""

    files: tuple[Path, ...]
    exported: Exported


def export(module: Any, folder: str | PathLike[str], name: str | None = None, *,
           machine: str | None = None, kind: str | None = None, apart: bool | None = None,
           threads: int = 1, plain: bool = False, plans: Plans | None = None,
           inputs: Mapping[str, np.ndarray] | None = None, bound: float = BOUND,
           bindings: Sequence[str] = (), inside: bool = False) -> ExportedFiles:
    """Writes a network of the processor, a `runtime.Module`, into a folder: code, ``NAME.h``,
    weights if they are apart, and a program that tries it.

    Parameters
    ----------
    name : an identifier of C with which all names begin; by default the network's.
    machine : one of `compiler.cpu_gpu_backends.llvm.MACHINES`; by default this computer.
    kind : one of `KINDS`; by default "object", for WebAssembly "module".
    apart : whether weights are a file of their own, NAME.bin; by default they are where they take
        more than 16 MiB.
    threads : threads of a run (libgomp's).
    plain : without Winograd's products.
    plans : where schedules come from, by default what comes with Lockstep, as for
        `lockstep.compile`.
    inputs : what the program runs on; by default random arrays of `SEED`.
    bound : by how much floats may differ there, as a share of the largest one (or of 1).
    bindings : languages for which a text is written, too: "cpp", "java", "rust"; "python" and
        "node", which load a shared library. WebAssembly has its module of JavaScript.
    inside : whether inputs and outputs have places in the arena, which a run uses for what it
        computes, too: less memory in all, if the caller has them there.

    Raises ExportError for a network of which another target computes a part, ArgumentError for an
    option that is not one of these, FileError where the files cannot be written.
    """
    kinds = _kinds(_processor(machine))
    if kind is None:
        kind = "module" if "module" in kinds else "object"
    if kind not in kinds:
        raise ArgumentError(f"kind must be {', '.join(kinds)} for {machine or 'this computer'}, "
                            f"not {kind!r}")
    _require_bindings(bindings, kind)
    made = exported_code(module, name, machine=machine, apart=apart, threads=threads, plain=plain,
                         plans=plans, inside=inside)
    given = inputs or random_inputs(module.graph, SEED)
    outputs = module(given)
    files = dict(_files(made, kind, machine, Sample(_bytes(given), _bytes(outputs)),
                        bound))
    for language in bindings:
        files |= {file: text.encode()
                  for file, text in texts_of(made.interface, language).items()}
    folder = Path(folder)
    _make(folder)
    for file, data in files.items():
        write_bytes(folder / file, data)
    return ExportedFiles(tuple(folder / file for file in files), made)


def _bytes(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays, those of small types as their codes, as the code takes and gives them."""
    return {name: array.view(np.uint8) if array.dtype.name in SMALL else array
            for name, array in arrays.items()}


def _require_bindings(bindings: Sequence[str], kind: str) -> None:
    for language in bindings:
        if language not in LANGUAGES:
            raise ArgumentError(f"bindings must be of {', '.join(LANGUAGES)}, not {language!r}")
        if kind == "module":
            raise ArgumentError("bindings must be left out for a WebAssembly module, which has its "
                                "module of JavaScript")
        if language in OVER_A_SHARED_LIBRARY and kind != "shared":
            raise ArgumentError(f"kind must be shared for a module of "
                                f"{OVER_A_SHARED_LIBRARY[language]}, which loads it, not {kind}")


def exported_code(module: Any, name: str | None = None, *, machine: str | None = None,
                  apart: bool | None = None, threads: int = 1, plain: bool = False,
                  plans: Plans | None = None, inside: bool = False) -> Exported:
    """The code of `export`, without files."""
    processor, graph = _processor(machine), module.graph
    if other := sorted({step.segment.target for step in module.steps} - {HOST}):
        raise ExportError(f"{graph.name} must be compiled for cpu to be exported: parts of it are "
                          f"on {', '.join(other)}")
    if threads > 1 and processor.is_bare:
        raise ArgumentError(f"threads must be 1 for {machine}, which has no libgomp, not {threads}")
    target = CpuTarget(threads=threads, plain=plain, plans=packaged() if plans is None else plans,
                       machine=MACHINES[machine] if machine else None)
    name = identifier_from(graph.name) if name is None else name
    return exported(target.compile(graph), name, processor, apart,
                    described(graph, module.scales),
                    f"{graph.name}, for {machine or 'a processor like this one'}", inside)


def _processor(machine: str | None) -> Processor:
    if machine is not None and machine not in MACHINES:
        raise ArgumentError(f"machine must be one of {', '.join(MACHINES)}, not {machine!r}")
    return MACHINES[machine] if machine else host()


def _kinds(processor: Processor) -> tuple[str, ...]:
    """The kinds of `KINDS` that there are for a processor."""
    if processor.architecture == "wasm32":
        return ("object", "module")
    return ("object", "static") if processor.is_bare else ("object", "static", "shared")


def _files(made: Exported, kind: str, machine: str | None, sample: Sample, bound: float
           ) -> Iterator[tuple[str, bytes]]:
    name = made.interface.name
    if made.weights:
        yield f"{name}.bin", made.weights
    if kind == "module":
        yield f"{name}.wasm", wasm_module(made.code, name, [f"{name}_init", f"{name}_run"])
        yield f"{name}.js", javascript(made.interface).encode()
        yield f"{name}.d.ts", typescript(made.interface).encode()
        yield f"{name}_test.mjs", javascript_test(made.interface, [sample], bound).encode()
        return
    yield f"{name}.h", header(made.interface).encode()
    if kind == "object":
        yield f"{name}.o", made.code
    elif kind == "static":
        yield f"lib{name}.a", static_library(made.code, name)
    else:
        yield f"lib{name}.so", shared_library(made.code, machine)
    yield f"{name}_test.c", check_program(made.interface, [sample], bound).encode()


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(folder, error) from None
