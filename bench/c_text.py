"""How fast is a network as one file of C, beside the native module?

    python -m bench.c_text [NAME ...] [--size N] [--flags "-O3 -march=native"] [--rounds N]
                           [--folder DIR]

Each network (`NETWORKS` unless told; any of the zoo, with ``_int8`` in integers) is written as C
(docs/c.md), compiled by gcc with these flags, loaded, and takes turns with the native module on one
thread of this computer. Outputs of int8 networks must be the module's to the bit, others within
`BOUND`. ``--size`` is that of images (default 64).

Prints a line for each network: result, both times, kB of text without its constants, and seconds
that gcc takes. Then ``name value`` lines: ``c_text_NETWORK_over_module``. Exit status 1 where a
result is wrong. Read best on a quiet machine.
"""

import argparse
import ctypes
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import lockstep
from bench.cpu import medians
from bench.export import DIGITS, model_of_zoo, pointers
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
            print(f"{name:18} text {1e3 * row.text:9.3f} ms  module {1e3 * row.module:9.3f} ms  "
                  f"{row.text_bytes / 1e3:6.0f} kB  gcc {row.gcc_seconds:5.1f} s  "
                  f"{row.wrong or 'right'}", flush=True)
            wrong += bool(row.wrong)
            figures.append(f"c_text_{name}_over_module {row.text / row.module:.2f}")
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
    library = ctypes.CDLL(str(folder / "net.so"))
    inputs = random_inputs(module.graph, 0)
    wanted = module(inputs)
    results = {name: aligned(array.shape, array.dtype.name) for name, array in wanted.items()}
    arena = aligned((files.interface.arena_bytes,), "uint8")
    weights = aligned((len(files.weights or b""),), "uint8")
    weights[:] = np.frombuffer(files.weights or b"", np.uint8)
    self = ctypes.c_void_p()
    given = (ctypes.byref(self), pointers([inputs[name] for name in module.graph.inputs]),
             pointers([*results.values()]), ctypes.c_void_p(arena.ctypes.data))
    if library.net_init(ctypes.byref(self), ctypes.c_void_p(weights.ctypes.data)) or (
            library.net_run(*given)):
        raise RuntimeError("The network in C does not run")
    wrong = [name for name, array in wanted.items() if not _near(results[name], array, bound)]
    times, _ = medians({"text": lambda: library.net_run(*given), "module": lambda: module(inputs)},
                       rounds, 0.0)
    return Row(f"wrong {', '.join(wrong)}" if wrong else "", times["text"], times["module"],
               len(files.source), seconds)


def _near(found: np.ndarray, wanted: np.ndarray, bound: float) -> bool:
    return bool((np.abs(found.astype(np.float64) - wanted) <= bound * np.abs(wanted).max()).all())


if __name__ == "__main__":
    sys.exit(main())
