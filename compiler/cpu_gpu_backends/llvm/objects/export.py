"""Ahead-of-time code: objects and shared libraries with a plain C interface, and its header.

::

    int32_t name(const float *x, float *y);     /* 0, or why it could not run */

Arrays are dense, in row-major order, aligned to their elements, and no output overlaps another
array. Objects need nothing but the C library (its mathematical part
for float64), for parallel loops libgomp (``-fopenmp``), and for conversions of float16 that the
processor lacks the run-time library that compilers link with (libgcc from GCC 12 on).
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from compiler.exports.names import ExportError, c_name, c_type, free_name, is_identifier
from compiler.files import write_bytes, write_text
from compiler.ir import Program, shape_text
from compiler.native import call, compiler
from compiler.te import Buffer, is_record, numpy_dtype, record_fields

from compiler.cpu_gpu_backends.llvm.emitting.emit import emit_all
from compiler.cpu_gpu_backends.llvm.machine import Processor, host
from .jit import object_code

__all__ = ["ExportError", "compile_object", "header", "link_shared"]


def compile_object(programs: Mapping[str, Program], machine: Processor | None = None,
                   contract: bool = False) -> bytes:
    """An object file in which each program is a function of the given name.

    For this computer, or for one of `machine.MACHINES`. Raises ExportError for a name that C
    does not take.
    """
    _check_names(programs)
    machine = machine or host()
    return object_code(emit_all(programs, machine, contract), machine)


def header(programs: Mapping[str, Program], guard: str = "LOCKSTEP_KERNELS_H") -> str:
    """The C and C++ header of an object: a prototype for each program."""
    _check_names(programs)
    records = sorted({b.dtype for p in programs.values() for b in (*p.inputs, *p.outputs)
                      if is_record(b.dtype)})
    lines = ["/* Arrays are dense, in row-major order, aligned to their elements; no output",
             "   overlaps another array. Functions return 0, or 1 when there is no memory for",
             "   their local buffers, or 2 when the operating system refuses the tile registers of",
             "   AMX; what the outputs hold then is not defined. */",
             f"#ifndef {guard}", f"#define {guard}", "",
             "#include <stdbool.h>", "#include <stdint.h>", "",
             "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    for record in records:
        lines += [*_struct(record), ""]
    for name, program in programs.items():
        lines += [f"/* {_signature(program)} */", f"{_prototype(name, program)};", ""]
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def link_shared(programs: Mapping[str, Program], path: Path, machine: Processor | None = None,
                contract: bool = False, linker: Sequence[str] | None = None) -> None:
    """Write a shared library to `path` and its header beside it, with the suffix ``.h``.

    `linker` is the command of a C compiler that links for `machine`; without it, the one of this
    computer (``$CXX``). Raises BuildError if there is none or if it fails, FileError where the
    files cannot be written.
    """
    text = header(programs, re.sub(r"\W", "_", path.stem).upper() + "_H")
    code = compile_object(programs, machine, contract)
    openmp = ["-fopenmp"] if b"GOMP_parallel" in code else []
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kernels.so"
        library.with_suffix(".o").write_bytes(code)
        call([*(linker or compiler()[:1]), "-shared", "-o", str(library),
              str(library.with_suffix(".o")), "-lm", *openmp])
        write_bytes(path, library.read_bytes())
    write_text(path.with_suffix(".h"), text)


def _check_names(programs: Mapping[str, Program]) -> None:
    for name in programs:
        if not is_identifier(name):
            raise ExportError(f"Name of a function must be an identifier of C, not {name!r}")


def _struct(record: str) -> list[str]:
    """A record as C has it: packed, padded to its size."""
    fields = record_fields(record)
    padding = numpy_dtype(record).itemsize - sum(numpy_dtype(t).itemsize for t in fields.values())
    members = [f"    {c_type(dtype)} {c_name(name)};" for name, dtype in fields.items()]
    members += [f"    uint8_t padding_[{padding}];"] * (padding > 0)
    return [f"struct {c_name(record)} {{", *members, "} __attribute__((packed));"]


def _prototype(name: str, program: Program) -> str:
    taken: set[str] = set()
    parts = [_parameter("const ", b, taken) for b in program.inputs]
    parts += [_parameter("", b, taken) for b in program.outputs]
    parts += [f"int64_t {free_name(symbol.name, taken)}" for symbol in program.parameters]
    return f"int32_t {name}({', '.join(parts) or 'void'})"


def _parameter(const: str, buffer: Buffer, taken: set[str]) -> str:
    return f"{const}{c_type(buffer.dtype)} *{free_name(buffer.name, taken)}"


def _signature(program: Program) -> str:
    def listed(buffers: Sequence[Buffer]) -> str:
        return ", ".join(f"{c_name(b.name)}: {b.dtype}{shape_text(b.shape)}" for b in buffers)

    return f"({listed(program.inputs)}) -> {listed(program.outputs)}"
