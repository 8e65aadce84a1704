"""CUDA text, executed without a GPU: compiled by the C++ compiler with ``emulation.h``.

The header defines blocks, threads, barriers, shuffles, asynchronous copies and mma as plain C++;
its own text says how, and which mistakes it finds. Texts are compiled once, see `compiler.native`.
"""

import ctypes
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from compiler.errors import DEFECT, Error
from compiler.native import (build_once, compile_shared, compiler, digest,
                             precompile_header)
from compiler.processes import OwnLock

HEADER = Path(__file__).with_name("emulation.h")
FLAGS = ("-O1", "-fwrapv", "-ffp-contract=off", "-fno-strict-aliasing")
KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\([\d, ]+\)\s)?(\w+)\(")
# A reader of the text knows a kernel by its name alone; the launcher takes what every launch has.
LAUNCHER = """\
extern "C" int launch_{name}(const unsigned* grid, const unsigned* block, void** arguments) {{
  return simt::launch({name}, grid, block, arguments);
}}
"""


class EmulationError(Error, RuntimeError):
    """A kernel that would hang or misread on a GPU: names the kernel and what its threads did."""

    exit_status = DEFECT


class Emulation:
    """A CUDA text and its kernels; launches of one text do not overlap."""

    def __init__(self, text: str):
        launchers = "".join(LAUNCHER.format(name=name) for name in KERNEL.findall(text))
        source = f'#include "{HEADER.name}"\n{text}\n{launchers}'
        parts = (HEADER.read_text(), source, *FLAGS, *compiler())
        folder = build_once("simt", digest(parts), "CUDA emulation",
                            lambda scratch: _compile(source, scratch), "seconds")
        self._library = ctypes.CDLL(str(folder / "kernels.so"))
        self._library.launch_failure.restype = ctypes.c_char_p
        self._running = OwnLock()

    def launch(self, kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int],
               *arguments: np.ndarray | int | bytes) -> None:
        """Run `kernel` to its end. Arguments are arrays, in place, 64-bit integers, and the bytes
        of structures.

        Raises EmulationError for what no GPU would survive.
        """
        words = [_word(argument) for argument in arguments]
        places = (ctypes.c_void_p * len(words))(*(ctypes.addressof(word) for word in words))
        self.launch_at(kernel, grid, block, ctypes.addressof(places))

    def launch_at(self, kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int],
                  places: int) -> None:
        """As `launch`, with an array in memory of where each argument lies."""
        sizes = [(ctypes.c_uint * 3)(*size) for size in (grid, block)]
        with self._running:
            if self._library[f"launch_{kernel}"](*sizes, ctypes.c_void_p(places)):
                reason = self._library.launch_failure().decode()
                raise EmulationError(f"{kernel}: {reason}")


def _word(argument: np.ndarray | int | bytes) -> Any:
    match argument:
        case np.ndarray(): return ctypes.c_void_p(argument.ctypes.data)
        case bytes(): return ctypes.create_string_buffer(argument, len(argument))
        case _: return ctypes.c_int64(argument)


def _compile(source: str, folder: Path) -> None:
    path = folder / "kernels.cpp"
    path.write_text(source)
    compile_shared({path: ()}, folder / "kernels.so",
                   (f"-I{_precompiled()}", f"-I{HEADER.parent}", *FLAGS))


@cache
def _precompiled() -> Path:
    """A folder with the header as GCC has read it, which saves half of the time of a text. Other
    compilers do not look for it and read the header itself.
    """
    key = digest((HEADER.read_text(), *FLAGS, *compiler()))
    return build_once("simt-header", key, None, lambda folder: precompile_header(
        HEADER, folder / f"{HEADER.name}.gch", FLAGS))


@lru_cache(64)
def emulation(text: str) -> Emulation:
    """The text compiled, once for each text and process."""
    return Emulation(text)
