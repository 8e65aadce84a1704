"""What do exported networks take of a microcontroller, and are they right there?

    python -m bench.export_cortex_m [--networks FOLDER] [--tflm PYTHON] [--onnx2c PROGRAM]
                                    [--json FILE]

The digits network in int8 is exported for a Cortex-M7, linked without a system (by
``arm-none-eabi-gcc``), and run in QEMU on the 360 held-out images; each network of the folder
(`.tflite`, `.onnx`) is run on seeded random inputs. Every output must be the module's: to the bit,
floats of float networks within 1e-4 of the largest one. One line for each network: bytes of code,
of constants (weights among them), of the arena, of inputs and outputs, of the deepest stack; the
sum of the last three, and what it is with ``--arrays inside``; millions of instructions that a run
executes.

With a Python that has the package `tflite_micro`, what TensorFlow Lite for Microcontrollers
allocates for the same `.tflite` file stands beside it: its arena, which has inputs and outputs in
it, and what of that is activations (the head). It is counted on this computer: its records hold
pointers of 64 bits. With the program `onnx2c`, the C that it writes of the same `.onnx` file is
compiled and run likewise: its variables, inputs, outputs and stack. Exit status 1 where an output
of ours differs.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lockstep
from bench.support.cortex_m import CC, EMULATOR, FLAGS, Values, run_function, run_network
from compiler.errors import Error
from compiler.exports.names import identifier_from
from compiler.exports.objects import section_bytes
from examples.digits.data import held_out
from runtime.exporting.export import export, exported_code
from runtime.ports import random_inputs

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits" / "digits-int8.onnx"
KINDS = (".tflite", ".onnx")
SAMPLES, SEED, BOUND = 2, 11, 1e-4
ALLOCATIONS = """\
import sys
from tflite_micro import runtime
runtime.Interpreter.from_file(sys.argv[1]).print_allocations()
"""
COLUMNS = ("code", "constants", "arena", "in_out", "stack", "ram", "inside", "minstr",
           "tflm", "tflm_head", "onnx2c", "o2c_flash", "o2c_minstr")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=Path, metavar="FOLDER", help="further networks")
    parser.add_argument("--tflm", metavar="PYTHON", help="a Python with tflite_micro")
    parser.add_argument("--onnx2c", metavar="PROGRAM", help="a compiler of .onnx to C")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures for scripts")
    args = parser.parse_args()
    if args.networks is not None and not args.networks.is_dir():
        parser.error(f"--networks must be a folder, not {args.networks}")
    if missing := [tool for tool in (CC, EMULATOR) if shutil.which(tool) is None]:
        print(f"{missing[0]} must be installed", file=sys.stderr)
        return 2
    files = [] if args.networks is None else sorted(
        file for file in args.networks.iterdir() if file.suffix in KINDS)
    print(f"{'network':<24}" + "".join(f"{column:>11}" for column in COLUMNS) + "  right")
    figures = {}
    for file in (DIGITS, *files):
        found = figures[file.stem] = _measured(file, args.onnx2c)
        if args.tflm and file.suffix == ".tflite":
            found |= tflm_bytes(args.tflm, file)
        print(_line(file.stem, found), flush=True)
    digits = figures[DIGITS.stem]
    print(f"digits_cortex_m_right {digits['right']}")
    print(f"digits_cortex_m_code_bytes {digits['code']}")
    print(f"digits_cortex_m_ram_bytes {digits['ram']}")
    print(f"digits_cortex_m_instructions {digits['minstr'] * 1e6:.0f}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    return int(any(found["right"] != found["samples"] for found in figures.values()))


def _measured(file: Path, onnx2c: str | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            module = lockstep.compile(str(file), "cpu")
            given = digits_samples() if file == DIGITS else ()
            found = measured(Path(folder), module, identifier_from(file.stem), given)
        except Error as error:
            raise SystemExit(f"{file}: {error}") from None
        if onnx2c and file.suffix == ".onnx":
            found |= onnx2c_figures(Path(folder), onnx2c, file, module)
        return found


def digits_samples() -> list[Values]:
    """The held-out images."""
    return [{"image": image[None]} for image in held_out()[0]]


def measured(folder: Path, module: Any, name: str, given: Sequence[Values] = ()
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


if __name__ == "__main__":
    sys.exit(main())
