"""Lists the benchmarks: ``python -m bench``, each with the question that it answers.

A benchmark is ``python -m bench.NAME``; ``--help`` has its options. `inputs` holds what several of
them measure, `spoiled` what `bench.fuzz` tries, `support` how they measure.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

AREAS = {
    "The array, and schedules for it": (
        "accel", "machines", "random_layers", "depthwise", "double_buffering", "tilings", "bounds",
        "decode", "normalize", "packed_weights", "sparse_weights", "limits", "shares", "partition",
        "layout"),
    "Simulators, the RTL and the proof": (
        "exact", "simulation_speed", "geometries", "floats", "mutants", "proof", "token_faults"),
    "FPGAs": ("fmax", "bitstreams", "post_synthesis", "board_memory", "board_networks", "axi4"),
    "The CPU": ("cpu", "cpu_bodies", "cpu_intrinsics", "fusion", "long_chains", "memory_plan",
                "resident", "threads"),
    "GPUs": ("gpu", "gpu_resources", "gpu_sass", "gpu_shapes"),
    "Networks as users bring them": (
        "front_ends", "onnx_nodes", "light_models", "real_models", "layer_accuracy", "torch_export",
        "torch_quantized", "torch_scales", "fingerprints"),
    "Searches and explorations": (
        "tuning", "search", "metaschedule", "pool", "killed_search", "explore", "estimates",
        "energy"),
    "Networks without the compiler": (
        "export", "export_boards", "export_cortex_m", "c_text", "wasm"),
    "Bad input and sudden ends": ("fuzz", "killed"),
    "Random networks": ("values",),
    "All figures that must not be lost": ("scoreboard",),
}
"""The benchmarks by what they measure."""

FOLDER = Path(__file__).parent


def benchmarks() -> Iterator[str]:
    """The modules of this folder that are commands, this one excepted."""
    for path in sorted((*FOLDER.glob("*.py"), *FOLDER.glob("*/__main__.py"))):
        if path != Path(__file__) and 'if __name__ == "__main__"' in path.read_text():
            yield path.parent.name if path.stem == "__main__" else path.stem


def question(name: str) -> str:
    """The first sentence of a benchmark's docstring."""
    path = FOLDER / f"{name}.py"
    path = path if path.exists() else FOLDER / name / "__main__.py"
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    sentence = re.match(r".*?[?.](?=\s|$)", text.replace("\n", " "))
    return sentence[0] if sentence else ""


def main() -> None:
    for area, names in AREAS.items():
        print(f"{area}\n")
        for name in names:
            print(textwrap.fill(question(name), 100, initial_indent=f"  bench.{name:18}",
                                subsequent_indent=" " * 26))
        print()


if __name__ == "__main__":
    main()
