"""How fast is a network as one file of C, beside native code?

    python -m bench.c_text [NAME ...] [--size N] [--flags "-O3 -march=native"] [--rounds N]
                           [--folder DIR]

Each network (`NETWORKS` unless told; any of the zoo, with ``_int8`` in integers) is written as C
(docs/c.md), compiled by gcc with these flags, loaded, and takes turns with native code on one
thread of this computer: the network exported as a library (docs/export.md), and the module, which
Python calls. Outputs of int8 networks must be the module's to the bit, others within `BOUND`.
``--size`` is that of images (default 64).

Prints a line for each network: the three times, kB of text without its constants, seconds that gcc
takes, and the result. Then ``name value`` lines: ``c_text_NETWORK_over_native``, the text's time
over the library's. Exit status 1 where a result is wrong. Read best on a quiet machine.
"""

import argparse
import ctypes
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import lockstep
from bench.cpu import medians
from bench.export import DIGITS, exported_run, model_of_zoo, pointers
from compiler.cpu_gpu_backends.c.network import CFiles
from compiler.cpu_gpu_backends.cpu.arrays import aligned
from compiler.exports.check import BOUND
from runtime.emitted import network_in_c
from runtime.module import Module
from runtime.ports import random_inputs

FLAGS = "-O3 -march=native"
NETWORKS = ("digits_int8", "keywords_int8", "keywords", "mobilenet_v1_int8", "mobilenet_v1",
            "resnet18_int8", "resnet18")
FRAMES = 49                 # of keywords


@dataclass(frozen=True, slots=True)
class Row:
    """One network: what is wrong, "" for nothing, seconds of a run, the text, and its compiler."""

    wrong: str
    text: float
    native: float
    module: float
    text_bytes: int
    gcc_seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"default {', '.join(NETWORKS)}")
    parser.add_argument("--size", type=int, default=64, help="of images, default 64")
    parser.add_argument("--flags", default=FLAGS, help=f"of gcc, default {FLAGS!r}")
    parser.add_argument("--rounds", type=int, default=20, help="default 20")
    parser.add_argument("--folder", type=Path, help="keep the files here")
    args = parser.parse_args()
    wrong, figures = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.names or NETWORKS:
            folder = (args.folder or Path(scratch)) / name
            folder.mkdir(parents=True, exist_ok=True)
            module = lockstep.compile(_model(name, args.size), "cpu")
            row = _row(module, folder, shlex.split(args.flags), args.rounds,
                       0.0 if name.endswith("int8") else BOUND)
            print(f"{name:18} text {1e3 * row.text:8.3f} ms  native {1e3 * row.native:8.3f} ms  "
                  f"module {1e3 * row.module:8.3f} ms  "
                  f"{row.text_bytes / 1e3:6.0f} kB  gcc {row.gcc_seconds:5.1f} s  "
                  f"{row.wrong or 'right'}", flush=True)
            wrong += bool(row.wrong)
            figures.append(f"c_text_{name}_over_native {row.text / row.native:.2f}")
    print("\n".join(figures))
    return int(wrong > 0)


def _model(name: str, size: int) -> object:
    stem = name.removesuffix("_int8")
    if stem == "digits":
        return str(DIGITS / f"digits-{'int8' if name != stem else 'float'}.onnx")
    return model_of_zoo(stem, FRAMES if stem == "keywords" else size, int8=name != stem)()


def _row(module: Module, folder: Path, flags: list[str], rounds: int, bound: float) -> Row:
    files = network_in_c(module, "net", apart=True)
    for name, text in (("net.c", files.source), ("net.h", files.header)):
        (folder / name).write_text(text)
    (folder / "net.bin").write_bytes(files.weights or b"")
    begin = time.perf_counter()
    subprocess.run(["gcc", "-std=c99", *flags, "-fPIC", "-shared", "net.c", "-o", "net.so", "-lm"],
                   cwd=folder, check=True)
    seconds = time.perf_counter() - begin
    inputs = random_inputs(module.graph, 0)
    wanted = module(inputs)
    results = {name: aligned(array.shape, array.dtype.name) for name, array in wanted.items()}
    run = _text_run(files, folder, [inputs[name] for name in module.graph.inputs],
                    [*results.values()])
    wrong = [name for name, array in wanted.items() if not _near(results[name], array, bound)]
    times, _ = medians({"text": run, "native": exported_run(module, folder / "native"),
                        "module": lambda: module(inputs)}, rounds, 0.0)
    return Row(f"wrong {', '.join(wrong)}" if wrong else "", **times,
               text_bytes=len(files.source), gcc_seconds=seconds)


def _text_run(files: CFiles, folder: Path, inputs: list[np.ndarray], results: list[np.ndarray]
              ) -> Callable[[], object]:
    """A run of the compiled text, which has been tried once."""
    library = ctypes.CDLL(str(folder / "net.so"))
    arena = aligned((files.interface.arena_bytes,), "uint8")
    weights = aligned((len(files.weights or b""),), "uint8")
    weights[:] = np.frombuffer(files.weights or b"", np.uint8)
    self = ctypes.c_void_p()
    given = (ctypes.byref(self), pointers(inputs), pointers(results),
             ctypes.c_void_p(arena.ctypes.data))
    at = ctypes.c_void_p(weights.ctypes.data) if weights.size else None
    if library.net_init(ctypes.byref(self), at) or library.net_run(*given):
        raise RuntimeError("The network in C does not run")
    kept = inputs, weights, arena
    return lambda: (library.net_run(*given), kept)


def _near(found: np.ndarray, wanted: np.ndarray, bound: float) -> bool:
    return bool((np.abs(found.astype(np.float64) - wanted) <= bound * np.abs(wanted).max()).all())


if __name__ == "__main__":
    sys.exit(main())
