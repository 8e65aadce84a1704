"""Do exported networks compute what the module computes, in little code and memory, as fast?

`objects`: each network (sizes that an emulator bears) is exported for each of ``--targets``, its
header is compiled as C99 and as C++17 without a warning, and its test program is compiled, linked
and run: on this computer, or under qemu-user with the cross compiler of Debian. Outputs of int8
networks must be those of the module to the bit, others within `BOUND`. ``--valgrind`` and
``--sanitize`` run those of this computer's architecture under valgrind's memcheck and with
``-fsanitize=address,undefined`` as well. ``--time`` exports for this computer and takes turns with
the module, and so reads best on a quiet machine. Prints a line for each network and target: result,
bytes of code, of constants and of the arena, and what the arena has over the largest live set; then
``export_NETWORK_TARGET_code_bytes``, ``..._arena_over_live``, ``export_NETWORK_time_over_module``.

`trained` does the same of trained networks of wheels, on a sample of theirs.

`text`: each network is written as C (docs/c.md), compiled by gcc with ``--flags``, loaded, and
takes turns with native code on one thread of this computer: the network exported as a library
(docs/export.md), and the module, which Python calls. ``--size`` is that of images. Prints a line
for each network: the three times, kB of text without its constants, seconds that gcc takes, and the
result; then ``c_text_NETWORK_over_native``, the text's time over the library's. Read best on a
quiet machine.

Exit status 1 where a run is wrong, a program is not clean, or a header has a warning.
"""

import ctypes
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import lockstep
from bench.cpu.speed import medians
from bench.frame import Bench, Sheet
from bench.inputs import real_networks
from bench.inputs.real_networks import BY_NAME
from bench.support.onnx_runtime import Peer
from compiler.cpu_gpu_backends.c.network import CFiles
from compiler.cpu_gpu_backends.cpu.arrays import aligned
from compiler.exports.check import BOUND
from compiler.exports.objects import section_bytes
from compiler.frontend.building.binding import extents_of, real_inputs
from compiler.quantize import quantize_ranges
from lockstep.testing import zoo
from lockstep.testing.models import DIGITS
from runtime.driver.emitted import network_in_c
from runtime.exporting.export import export
from runtime.module import Module
from runtime.exporting.ports import random_inputs

TARGETS = ("aarch64", "x86-64", "x86-64-v3")
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
    "digits_int8": lambda: str(DIGITS),
    "digits_float": lambda: str(DIGITS.with_name("digits-float.onnx")),
    "keywords": model_of_zoo("keywords", 49),
    "keywords_int8": model_of_zoo("keywords", 49, int8=True),
    "resnet18": model_of_zoo("resnet18", 32),
    "resnet18_int8": model_of_zoo("resnet18", 32, int8=True),
    "mobilenet_v1_int8": model_of_zoo("mobilenet_v1", 64, int8=True),
    "mobilenet_v2": model_of_zoo("mobilenet_v2", 64), "squeezenet": model_of_zoo("squeezenet", 64),
    "vit_small": model_of_zoo("vit_small", 32), "bert_small": model_of_zoo("bert_small", 32),
    "lstm": model_of_zoo("lstm", 32), "unet": model_of_zoo("unet", 32)}
TRAINED = [network.name for network in real_networks.NETWORKS if network.path]
AS_TEXT = ("digits_int8", "keywords_int8", "keywords", "mobilenet_v1_int8", "mobilenet_v1",
            "resnet18_int8", "resnet18")
FRAMES = 49                 # of keywords

Compiled = tuple[Module, Mapping[str, np.ndarray] | None]

BENCH = Bench(__file__, __doc__)
BENCH.option("--targets", nargs="+", default=TARGETS, help=f"also {', '.join(RUNNERS)}")
BENCH.option("--valgrind", action="store_true", help="run under valgrind as well")
BENCH.option("--sanitize", action="store_true", help="run with sanitizers as well")
BENCH.option("--time", action="store_true", help="compare times with the module's")
BENCH.option("--rounds", type=int, default=20, help="of times")
BENCH.option("--size", type=int, default=64, help="of images of text")
BENCH.option("--flags", default="-O3 -march=native", help="of gcc")
BENCH.option("--folder", type=Path, help="keep the files here")


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


@dataclass(frozen=True, slots=True)
class TextRow:
    """One network: what is wrong, "" for nothing, seconds of a run, the text, and its compiler."""

    wrong: str
    text: float
    native: float
    module: float
    text_bytes: int
    gcc_seconds: float


@BENCH.part(NETWORKS)
def objects(sheet: Sheet) -> None:
    _objects(sheet, lambda name: (lockstep.compile(NETWORKS[name](), "cpu"), None))


@BENCH.part(TRAINED, extra=True)
def trained(sheet: Sheet) -> None:
    _objects(sheet, _trained)


def _objects(sheet: Sheet, compiled: Callable[[str], Compiled]) -> None:
    with _folder(sheet) as scratch:
        for name in sheet.cases:
            module, inputs = compiled(name)
            for target in sheet.targets:
                row = _row(module, name, target, scratch / f"{name}-{target}", inputs, sheet)
                print(f"{name:18} {target:10} code {row.code_bytes:9,} constants "
                      f"{row.constant_bytes:11,} arena {row.arena_bytes:11,} "
                      f"({row.arena_over_live:.3f} of live)  {row.wrong or 'right'}", flush=True)
                sheet.row(row)
                sheet.require(not row.wrong)
                sheet.figure(f"export_{name}_{target}_code_bytes", row.code_bytes)
                sheet.figure(f"export_{name}_{target}_arena_over_live", row.arena_over_live, ".3f")
            if sheet.time:
                ratio = _time_over_module(module, scratch / name, sheet.rounds)
                sheet.figure(f"export_{name}_time_over_module", ratio, ".3f")


@BENCH.part([*zoo.NETWORKS, *(f"{name}_int8" for name in zoo.NETWORKS), "digits", "digits_int8"],
            AS_TEXT, extra=True)
def text(sheet: Sheet) -> None:
    with _folder(sheet) as scratch:
        for name in sheet.cases:
            (folder := scratch / name).mkdir(parents=True, exist_ok=True)
            module = lockstep.compile(_model(name, sheet.size), "cpu")
            row = _text_row(module, folder, shlex.split(sheet.flags), sheet.rounds,
                            0.0 if name.endswith("int8") else BOUND)
            print(f"{name:18} text {1e3 * row.text:8.3f} ms  native {1e3 * row.native:8.3f} ms  "
                  f"module {1e3 * row.module:8.3f} ms  "
                  f"{row.text_bytes / 1e3:6.0f} kB  gcc {row.gcc_seconds:5.1f} s  "
                  f"{row.wrong or 'right'}", flush=True)
            sheet.row(row)
            sheet.require(not row.wrong)
            sheet.figure(f"c_text_{name}_over_native", row.text / row.native, ".2f")


@contextmanager
def _folder(sheet: Sheet) -> Iterator[Path]:
    """The folder that is kept, or one that is not."""
    with tempfile.TemporaryDirectory() as scratch:
        yield sheet.folder or Path(scratch)


def _trained(name: str) -> Compiled:
    """A trained network, and the inputs of a sample."""
    network = BY_NAME[name]
    model = onnx.load(network.path or network.file)
    sample = next(network.samples(Peer(model))).inputs
    given = [value for value in real_inputs(model.graph) if value.name not in network.bind]
    module = lockstep.compile(model, "cpu", shapes=extents_of(given, sample), bind=network.bind)
    return module, {value.name: sample[value.name] for value in given}


def _row(module: Module, name: str, machine: str, folder: Path,
         inputs: Mapping[str, np.ndarray] | None, sheet: Sheet) -> Row:
    exact = name.endswith("int8") and name in NETWORKS
    made = export(module, folder, name, machine=machine, apart=False, inputs=inputs,
                  bound=0.0 if exact else BOUND)
    sizes = section_bytes(made.exported.code)
    wrong = _header_warnings(folder, name) or _wrong(folder, name, machine, sheet)
    return Row(name, machine, wrong, sizes.code, sizes.constants,
               made.exported.interface.arena_bytes,
               made.exported.interface.arena_bytes / max(1, made.exported.live_bytes))


def _header_warnings(folder: Path, name: str) -> str:
    for command in (("gcc", "-std=c99", "-x", "c"), ("g++", "-std=c++17", "-x", "c++")):
        if text := _failure([*command, *WARNINGS, "-fsyntax-only", str(folder / f"{name}.h")]):
            return f"header: {text}"
    return ""


def _wrong(folder: Path, name: str, machine: str, sheet: Sheet) -> str:
    """Why the test program is wrong; "" where it is right."""
    cc, runner = RUNNERS.get(machine, ("gcc", ()))
    if missing := [tool for tool in (cc, *runner[:1]) if shutil.which(tool) is None]:
        return f"needs {missing[0]}"
    program = str(folder / "test")
    own = machine.startswith("x86-64")
    runs = [((), tuple(runner))]
    runs += [((), VALGRIND)] * (own and sheet.valgrind and machine not in UNKNOWN_TO_VALGRIND)
    runs += [(SANITIZED, ())] * (own and sheet.sanitize)
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


def _model(name: str, size: int) -> object:
    stem = name.removesuffix("_int8")
    if stem == "digits":
        return NETWORKS["digits_int8" if name != stem else "digits_float"]()
    return model_of_zoo(stem, FRAMES if stem == "keywords" else size, int8=name != stem)()


def _text_row(module: Module, folder: Path, flags: list[str], rounds: int, bound: float) -> TextRow:
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
    return TextRow(f"wrong {', '.join(wrong)}" if wrong else "", **times,
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
