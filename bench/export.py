"""Do exported networks compute what the module computes, in little code and memory, as fast?

    python -m bench.export [NAME ...] [--trained] [--machines aarch64,x86-64,x86-64-v3]
                           [--valgrind] [--sanitize] [--time] [--rounds N] [--folder DIR]

Each network (all of `NETWORKS` unless told; sizes that an emulator bears; with ``--trained`` those
of `bench.inputs.real_networks`, on a sample of theirs) is exported for each
machine, its header is compiled as C99 and as C++17 without a warning, and its test program is
compiled, linked and run: on this computer, or under qemu-user with the cross compiler of Debian.
Outputs of int8 networks must be those of the module to the bit, others within `BOUND`.
``--valgrind`` and ``--sanitize`` run those of this computer's architecture under valgrind's
memcheck and with ``-fsanitize=address,undefined`` as well. ``--time`` exports for this computer and
takes turns with the module, and so reads best on a quiet machine.

Prints a line for each network and machine: result, bytes of code, of constants and of the arena,
and what the arena has over the largest live set. Then ``name value`` lines:
``export_NETWORK_MACHINE_code_bytes``, ``..._arena_over_live``, ``export_NETWORK_time_over_module``.
Exit status 1 where a run is wrong, a program is not clean, or a header has a warning.
"""

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import lockstep
from bench.cpu import medians
from bench.inputs import real_networks
from bench.inputs.real_networks import BY_NAME
from bench.support.real_peer import Peer
from compiler.cpu_gpu_backends.cpu.arrays import aligned
from compiler.exports.check import BOUND
from compiler.exports.objects import section_bytes
from compiler.frontend.binding import extents_of, real_inputs
from compiler.quantize import quantize_ranges
from lockstep.testing import zoo
from runtime.exporting.export import export
from runtime.module import Module
from runtime.ports import random_inputs

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits"
MACHINES = ("aarch64", "x86-64", "x86-64-v3")
RUNNERS = {
    "aarch64": ("aarch64-linux-gnu-gcc", ("qemu-aarch64", "-cpu", "max", "-L",
                                          "/usr/aarch64-linux-gnu")),
    "armv8-a": ("aarch64-linux-gnu-gcc", ("qemu-aarch64", "-cpu", "cortex-a72", "-L",
                                          "/usr/aarch64-linux-gnu")),
    "armv7": ("arm-linux-gnueabihf-gcc", ("qemu-arm", "-cpu", "max", "-L",
                                          "/usr/arm-linux-gnueabihf")),
    "riscv64": ("riscv64-linux-gnu-gcc", ("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu"))}
"""By machine: the compiler, and what runs its programs. Others run as they are."""

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
UNKNOWN_TO_VALGRIND = ("x86-64-v4",)
VALGRIND = ("valgrind", "-q", "--error-exitcode=9", "--leak-check=full")


def model_of_zoo(name: str, size: int, int8: bool = False) -> Callable[[], object]:
    def model() -> object:
        net = zoo.network(name, size)
        filled = zoo.fill(net)
        made = zoo.float_model(net, filled)
        return quantize_ranges(made, filled.ranges) if int8 else made
    return model


NETWORKS: dict[str, Callable[[], object]] = {
    "digits_int8": lambda: str(DIGITS / "digits-int8.onnx"),
    "digits_float": lambda: str(DIGITS / "digits-float.onnx"),
    "keywords": model_of_zoo("keywords", 49),
    "keywords_int8": model_of_zoo("keywords", 49, int8=True),
    "resnet18": model_of_zoo("resnet18", 32),
    "resnet18_int8": model_of_zoo("resnet18", 32, int8=True),
    "mobilenet_v1_int8": model_of_zoo("mobilenet_v1", 64, int8=True),
    "mobilenet_v2": model_of_zoo("mobilenet_v2", 64), "squeezenet": model_of_zoo("squeezenet", 64),
    "vit_small": model_of_zoo("vit_small", 32), "bert_small": model_of_zoo("bert_small", 32),
    "lstm": model_of_zoo("lstm", 32), "unet": model_of_zoo("unet", 32)}
TRAINED = [network.name for network in real_networks.NETWORKS if network.path]


@dataclass(frozen=True, slots=True)
class Row:
    """One network on one machine: what went wrong, "" for nothing, and the sizes in bytes."""

    network: str
    machine: str
    wrong: str
    code_bytes: int
    constant_bytes: int
    arena_bytes: int
    arena_over_live: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"of {', '.join([*NETWORKS, *TRAINED])}")
    parser.add_argument("--trained", action="store_true", help="trained networks of wheels")
    parser.add_argument("--machines", default=",".join(MACHINES),
                        help=f"default {','.join(MACHINES)}; also {', '.join(RUNNERS)}")
    parser.add_argument("--valgrind", action="store_true", help="run under valgrind as well")
    parser.add_argument("--sanitize", action="store_true", help="run with sanitizers as well")
    parser.add_argument("--time", action="store_true", help="compare times with the module's")
    parser.add_argument("--rounds", type=int, default=20, help="of --time, default 20")
    parser.add_argument("--folder", type=Path, help="keep the files here")
    args = parser.parse_args()
    wrong, figures = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.names or (TRAINED if args.trained else NETWORKS):
            module, inputs = _trained(name) if name in TRAINED else (
                lockstep.compile(NETWORKS[name](), "cpu"), None)
            for machine in args.machines.split(","):
                folder = (args.folder or Path(scratch)) / f"{name}-{machine}"
                row = _row(module, name, machine, folder, inputs, args)
                _print(row)
                wrong += bool(row.wrong)
                figures += [f"export_{name}_{machine}_code_bytes {row.code_bytes}",
                            f"export_{name}_{machine}_arena_over_live {row.arena_over_live:.3f}"]
            if args.time:
                ratio = _time_over_module(module, Path(scratch) / name, args.rounds)
                figures.append(f"export_{name}_time_over_module {ratio:.3f}")
    print("\n".join(figures))
    return int(wrong > 0)


def _print(row: Row) -> None:
    print(f"{row.network:18} {row.machine:10} code {row.code_bytes:9,} constants "
          f"{row.constant_bytes:11,} arena {row.arena_bytes:11,} ({row.arena_over_live:.3f} of "
          f"live)  {row.wrong or 'right'}", flush=True)


def _trained(name: str) -> tuple[Module, dict[str, np.ndarray]]:
    """A trained network, and the inputs of a sample."""
    network = BY_NAME[name]
    model = onnx.load(network.path or network.file)
    sample = next(network.samples(Peer(model))).inputs
    given = [value for value in real_inputs(model.graph) if value.name not in network.bind]
    module = lockstep.compile(model, "cpu", shapes=extents_of(given, sample), bind=network.bind)
    return module, {value.name: sample[value.name] for value in given}


def _row(module: Module, name: str, machine: str, folder: Path,
         inputs: Mapping[str, np.ndarray] | None, args: argparse.Namespace) -> Row:
    exact = name.endswith("int8") and name in NETWORKS
    made = export(module, folder, name, machine=machine, apart=False, inputs=inputs,
                  bound=0.0 if exact else BOUND)
    sizes = section_bytes(made.exported.code)
    wrong = _header_warnings(folder, name) or _wrong(folder, name, machine, args)
    return Row(name, machine, wrong, sizes.code, sizes.constants,
               made.exported.interface.arena_bytes,
               made.exported.interface.arena_bytes / max(1, made.exported.live_bytes))


def _header_warnings(folder: Path, name: str) -> str:
    for command in (("gcc", "-std=c99", "-x", "c"), ("g++", "-std=c++17", "-x", "c++")):
        if text := _failure([*command, *WARNINGS, "-fsyntax-only", str(folder / f"{name}.h")]):
            return f"header: {text}"
    return ""


def _wrong(folder: Path, name: str, machine: str, args: argparse.Namespace) -> str:
    """Why the test program is wrong; "" where it is right."""
    cc, runner = RUNNERS.get(machine, ("gcc", ()))
    if missing := [tool for tool in (cc, *runner[:1]) if shutil.which(tool) is None]:
        return f"needs {missing[0]}"
    program = str(folder / "test")
    own = machine.startswith("x86-64")
    runs = [((), tuple(runner))]
    runs += [((), VALGRIND)] * (own and args.valgrind and machine not in UNKNOWN_TO_VALGRIND)
    runs += [(SANITIZED, ())] * (own and args.sanitize)
    for flags, before in runs:
        if text := _failure([cc, "-std=c99", "-O1", *WARNINGS, *flags, "-o", program,
                             str(folder / f"{name}_test.c"), str(folder / f"{name}.o"), "-lm"]
                            ) or _failure([*before, program]):
            return f"{' '.join((*flags, *before[:1]))} {text}"
    return ""


def _failure(command: list[str]) -> str:
    """The last line of what a command says that fails; "" where it does not."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stderr + done.stdout).strip().splitlines()
    said = lines[-1] if lines else f"exit status {done.returncode}"
    return "" if done.returncode == 0 else f"{command[0]}: {said}"


def _time_over_module(module: Module, folder: Path, rounds: int) -> float:
    """The time of a run of the exported library over that of the module, called in turns."""
    inputs = random_inputs(module.graph, 0)
    times, _ = medians({"exported": exported_run(module, folder),
                        "module": lambda: module(inputs)}, rounds, 0.0)
    return times["exported"] / times["module"]


def exported_run(module: Module, folder: Path) -> Callable[[], object]:
    """A run of the module as a library for this computer, on random inputs."""
    made = export(module, folder, "timed", kind="shared", apart=False)
    library = ctypes.CDLL(str(folder / "libtimed.so"))
    inputs = random_inputs(module.graph, 0)
    arrays = [inputs[name] for name in module.graph.inputs]
    results = [aligned(array.shape, array.dtype.name) for array in module(inputs).values()]
    arena = aligned((made.exported.interface.arena_bytes,), "uint8")
    self = ctypes.c_void_p()
    given = (ctypes.byref(self), pointers(arrays), pointers(results),
             ctypes.c_void_p(arena.ctypes.data))
    if library.timed_init(ctypes.byref(self), None) or library.timed_run(*given):
        raise RuntimeError("The exported library does not run")
    kept = arrays, results, arena
    return lambda: (library.timed_run(*given), kept)


def pointers(arrays: Sequence[np.ndarray]) -> ctypes.Array:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


if __name__ == "__main__":
    sys.exit(main())
