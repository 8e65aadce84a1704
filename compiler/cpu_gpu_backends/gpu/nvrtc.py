"""CUDA text to machine code by NVRTC, on any machine: neither a GPU nor a driver is needed."""

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from compiler.native import BuildError


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a multiprocessor that one kernel takes.

    They are registers of a thread, static shared memory of a block, what a thread stores to and
    loads from memory because registers ran out, and its local memory: the room for that, and for
    arrays whose indices are not known.
    """

    registers: int
    shared_bytes: int
    spill_bytes: int
    local_bytes: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one architecture."""

    arch: str
    image: bytes
    ptx: str
    resources: dict[str, Resources]


@lru_cache(64)
def compile_cuda(text: str, arch: str = "sm_80") -> Cubin:
    """Compile for an architecture, say ``sm_90``.

    Raises BuildError when NVRTC is missing, or with its first errors.
    """
    nvrtc = _nvrtc()
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], []))
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", b"--ptxas-options=-v"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = _bytes(nvrtc, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode()
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        errors = [line for line in log.splitlines() if "error" in line] or [str(status)]
        raise BuildError(f"NVRTC refused the kernels for {arch}: {' | '.join(errors[:5])}")
    image = _bytes(nvrtc, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    ptx = _bytes(nvrtc, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    nvrtc.nvrtcDestroyProgram(program)
    return Cubin(arch, image, ptx.decode(), _resources(log))


def nvrtc_version() -> str:
    """The version of the compiler here, say ``13.0``: the resources of kernels depend on it. Raises
    BuildError.
    """
    nvrtc = _nvrtc()
    (status, *numbers) = nvrtc.nvrtcVersion()
    _checked(nvrtc, (status,))
    return ".".join(map(str, numbers))


def _nvrtc() -> ModuleType:
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise BuildError("NVRTC must be installed to compile CUDA: install the extra 'gpu' "
                         "(cuda-bindings, nvidia-cuda-nvrtc)") from error
    return nvrtc


def _checked(nvrtc: Any, answer: tuple) -> Any:
    status, *rest = answer
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise BuildError(f"NVRTC failed: {status}")
    return rest[0] if rest else None


def _bytes(nvrtc: Any, size_of: Any, get: Any, program: Any) -> bytes:
    """Text or code that NVRTC hands out in two calls; texts end with a zero."""
    data = b" " * _checked(nvrtc, size_of(program))
    _checked(nvrtc, get(program, data))
    return data.rstrip(b"\0") if get is not nvrtc.nvrtcGetCUBIN else data


_FUNCTION = re.compile(r"Compiling entry function '(\w+)'")
_MEMORY = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def _resources(log: str) -> dict[str, Resources]:
    """Reads the resources of each kernel from what the assembler tells."""
    resources, name, local, spilled = {}, "", 0, 0
    for line in log.splitlines():
        if match := _FUNCTION.search(line):
            name = match[1]
        elif match := _MEMORY.search(line):
            local, spilled = int(match[1]), int(match[2]) + int(match[3])
        elif match := _USED.search(line):
            resources[name] = Resources(int(match[1]), int(match[2] or 0), spilled, local)
    return resources
