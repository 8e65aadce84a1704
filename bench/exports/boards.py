"""What do exported networks take of boards without a system, and are they right there?

`boards`: networks of `bench.exports.programs` are exported for each of ``--boards``, and their test
programs are compiled with the board's libc, linked with its start-up code and run in QEMU: digits
on the 360 held-out images, others on one stored input. Outputs of int8 networks must be those of
the module to the bit, others within `BOUND`. QEMU's clock is moved by instructions (``-icount``): a
run says how many it executes, which is not how long they take. A run's stack is painted before, and
looked at afterwards. Prints a line for each network and board: samples that are right, bytes of
code and constants of the network, of its arena and of the deepest stack (256 at least), and the
instructions of a run; then ``export_NETWORK_BOARD_code_bytes`` and ``..._instructions``. Exit
status 1 where an output differs, 2 where a tool is missing.

`cortex_m`: the digits network in int8 is exported for a Cortex-M7, linked without a system (by
``arm-none-eabi-gcc``), and run in QEMU on the 360 held-out images; each network of ``--networks``
(`.tflite`, `.onnx`) is run on seeded random inputs. Every output must be the module's: to the bit,
floats of float networks within 1e-4 of the largest one. One line for each network: bytes of code,
of constants (weights among them), of the arena, of inputs and outputs, of the deepest stack; the
sum of the last three, and what it is with ``--arrays inside``; millions of instructions that a run
executes.

With a Python that has the package `tflite_micro`, what TensorFlow Lite for Microcontrollers
allocates for the same `.tflite` file stands beside it: its arena, which has inputs and outputs in
it, and what of that is activations (the head). It is counted on this computer: its records hold
pointers of 64 bits. With the program `onnx2c`, the C that it writes of the same `.onnx` file is
compiled and run likewise: its variables, inputs, outputs and stack.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lockstep
from bench.exports.programs import NETWORKS
from bench.frame import Bench, Sheet
from bench.support.boards import AROUND, BOARDS, run_on
from bench.support.cortex_m import CC, EMULATOR, FLAGS, Values, run_function, run_network
from compiler.errors import Error, RequestError
from compiler.exports import Sample, check_program
from compiler.exports.names import identifier_from
from compiler.exports.objects import section_bytes
from examples.digits.data import held_out
from lockstep.testing.models import DIGITS
from runtime.exporting.export import export, exported_code
from runtime.exporting.ports import random_inputs

KINDS = (".tflite", ".onnx")
SAMPLES, SEED, BOUND = 2, 11, 1e-4
ALLOCATIONS = """\
import sys
from tflite_micro import runtime
runtime.Interpreter.from_file(sys.argv[1]).print_allocations()
"""
COLUMNS = ("code", "constants", "arena", "in_out", "stack", "ram", "inside", "minstr",
           "tflm", "tflm_head", "onnx2c", "o2c_flash", "o2c_minstr")

BENCH = Bench(__file__, __doc__)
BENCH.option("--boards", nargs="+", choices=BOARDS, default=[*BOARDS])
BENCH.option("--networks", type=Path, metavar="FOLDER", help="further networks of cortex_m")
BENCH.option("--tflm", metavar="PYTHON", help="a Python with tflite_micro")
BENCH.option("--onnx2c", metavar="PROGRAM", help="a compiler of .onnx to C")


@BENCH.part(NETWORKS, ("digits_int8", "keywords_int8"))
def boards(sheet: Sheet) -> None:
    if missing := [tool for board in sheet.options.boards for tool in BOARDS[board].missing]:
        raise RequestError(f"{missing[0]} must be installed")
    for name in sheet.cases:
        for board in sheet.options.boards:
            with tempfile.TemporaryDirectory() as folder:
                row = measured(name, board, Path(folder))
            print(f"{name:18} {board:10}", *(f"{key} {value:,}" for key, value in row.items()),
                  flush=True)
            sheet.row({"name": name, "board": board, **row})
            sheet.require(row["right"] == row["samples"])
            for key in ("code_bytes", "instructions"):
                sheet.figure(f"export_{name}_{board.replace('-', '_')}_{key}", row[key])


@BENCH.part(extra=True)
def cortex_m(sheet: Sheet) -> None:
    if sheet.networks is not None and not sheet.networks.is_dir():
        raise RequestError(f"--networks must be a folder, not {sheet.networks}")
    if missing := [tool for tool in (CC, EMULATOR) if shutil.which(tool) is None]:
        raise RequestError(f"{missing[0]} must be installed")
    files = [] if sheet.networks is None else sorted(
        file for file in sheet.networks.iterdir() if file.suffix in KINDS)
    print(f"{'network':<24}" + "".join(f"{column:>11}" for column in COLUMNS) + "  right")
    for file in (DIGITS, *files):
        found = _measured(file, sheet.onnx2c)
        if sheet.tflm and file.suffix == ".tflite":
            found |= tflm_bytes(sheet.tflm, file)
        print(_line(file.stem, found), flush=True)
        sheet.row({"name": file.stem, **found})
        sheet.require(found["right"] == found["samples"])
    digits = sheet.rows[0]
    for figure, value in (("right", digits["right"]), ("code_bytes", digits["code"]),
                          ("ram_bytes", digits["ram"]),
                          ("instructions", round(digits["minstr"] * 1e6))):
        sheet.figure(f"digits_cortex_m_{figure}", value)


def measured(name: str, machine: str, folder: Path) -> dict[str, int]:
    """Bytes and counts by name, of a network of `bench.export` on a board."""
    board, module = BOARDS[machine], lockstep.compile(NETWORKS[name](), "cpu")
    bound = 0.0 if name.endswith("int8") else BOUND
    made = export(module, folder, name, machine=machine, apart=False, bound=bound).exported
    count = 1
    if name == "digits_int8":
        given = [{"image": image[None]} for image in held_out()[0]]
        count = len(given)
        (folder / f"{name}_test.c").write_text(check_program(
            made.interface, [Sample(inputs, module(inputs)) for inputs in given], bound))
    (folder / "around.c").write_text(AROUND.format(name=name, executed=board.executed))
    done = run_on(board, folder, "around.c", f"{name}_test.c", f"{name}.o",
                  f"-Wl,--wrap={name}_run")
    said = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()
            if line.startswith(("stack ", "instructions "))}
    wrong = [int(line.split()[1]) for line in done.stdout.splitlines()
             if line.startswith(f"{name}: ")]
    sizes = section_bytes(made.code)
    return {"right": count - wrong[0] if wrong else 0, "samples": count, "code_bytes": sizes.code,
            "constant_bytes": sizes.constants, "arena_bytes": made.interface.arena_bytes,
            "stack_bytes": said.get("stack", 0), "instructions": said.get("instructions", 0)}


def _measured(file: Path, onnx2c: str | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            module = lockstep.compile(str(file), "cpu")
            given = digits_samples() if file == DIGITS else ()
            found = measured_cortex_m(Path(folder), module, identifier_from(file.stem), given)
        except Error as error:
            raise SystemExit(f"{file}: {error}") from None
        if onnx2c and file.suffix == ".onnx":
            found |= onnx2c_figures(Path(folder), onnx2c, file, module)
        return found


def digits_samples() -> list[Values]:
    """The held-out images."""
    return [{"image": image[None]} for image in held_out()[0]]


def measured_cortex_m(folder: Path, module: Any, name: str, given: Sequence[Values] = ()
             ) -> dict[str, float]:
    """Bytes and counts of a network by name, run on these samples or on random ones; and again with
    inputs and outputs inside the arena.
    """
    given = given or [random_inputs(module.graph, SEED + place) for place in range(SAMPLES)]
    wanted = [module(each) for each in given]
    is_float = any(type_.dtype == "float32" for value, type_ in module.graph.values.items()
                   if value in module.graph.constants)
    figures: dict[str, float] = {"samples": len(given), "right": len(given)}
    for inside in (True, False):
        made = export(module, folder, name, machine="cortex-m7", apart=False,
                      inside=inside).exported
        run = run_network(folder, made.interface, given, wanted, BOUND if is_float else 0.0)
        sizes, arena = section_bytes(made.code), made.interface.arena_bytes
        arrays = sum(array.size_bytes for array in (*made.interface.inputs,
                                                    *made.interface.outputs)
                     if array.offset is None)
        figures |= {"right": min(run.right, int(figures["right"])),
                    "inside" if inside else "ram": arena + arrays + run.stack_bytes}
    return figures | {"code": sizes.code, "constants": sizes.constants, "arena": arena,
                      "in_out": arrays, "stack": run.stack_bytes,
                      "minstr": run.instructions / 1e6}


def tflm_bytes(python: str, file: Path) -> dict[str, float]:
    """What TensorFlow Lite for Microcontrollers allocates for a network; nothing where it does not
    take it.
    """
    done = subprocess.run([python, "-c", ALLOCATIONS, str(file)], capture_output=True, text=True,
                          check=False, stdin=subprocess.DEVNULL)
    found = dict(re.findall(r"Arena allocation (\w+) (\d+) bytes", done.stdout + done.stderr))
    return {"tflm": int(found["total"]), "tflm_head": int(found["head"])} if found else {}


def onnx2c_figures(folder: Path, program: str, file: Path, module: Any) -> dict[str, float]:
    """What the C that onnx2c writes takes, of which float32 decides the outputs: nothing where it
    does not take the network.
    """
    done = subprocess.run([program, str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        return {}
    (folder / "entry.c").write_text(done.stdout)
    subprocess.run([CC, *FLAGS[:4], "-O2", "-w", "-c", "entry.c"], cwd=folder, check=True)
    sizes = section_bytes((folder / "entry.o").read_bytes())
    given = [random_inputs(module.graph, SEED)]
    interface = exported_code(module, "net", machine="cortex-m7").interface
    run = run_function(folder, "entry", "entry.o", interface, given, [module(given[0])], BOUND)
    arrays = sum(array.size_bytes for array in (*interface.inputs, *interface.outputs))
    return {"onnx2c": sizes.variables + arrays + run.stack_bytes,
            "o2c_flash": sizes.code + sizes.constants, "o2c_minstr": run.instructions / 1e6}


def _line(name: str, found: dict[str, float]) -> str:
    cells = ["-" if column not in found else f"{found[column]:.2f}" if "minstr" in column
             else f"{found[column]:,}" for column in COLUMNS]
    return (f"{name[:23]:<24}" + "".join(f"{cell:>11}" for cell in cells)
            + f"  {found['right']} of {found['samples']}")
