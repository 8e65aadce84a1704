"""Emitted Verilog and C++ that drives it, as a shared object."""

import importlib.metadata
import os
import shutil
from pathlib import Path

from accel.sim.rtl.verilated import verilator_objects, verilator_root
from compiler.native import build_once, call, compile_shared, compiler, digest, processor

OPTIMIZATION = ("-Og", "-march=native")
"""Compiler flags. Most models run for seconds, so more optimization would cost more than it saves.
"""


def build_library(top: str, text: str, source: str, what: str,
                  optimization: tuple[str, ...] = OPTIMIZATION) -> Path:
    """A shared object of the Verilog module `top` and of C++ that includes ``V{top}.h``.

    `what` names it in messages; `optimization` holds C++ compiler flags for code that runs
    every cycle.
    """
    flags = ("--cc", "--prefix", f"V{top}", "--top-module", top, "-O3", "--x-assign", "fast",
             "--x-initial", "fast", "--output-split", "0", "-Wno-fatal", "-Wno-lint", "--no-timing")
    key = digest([text, source, *flags, *optimization, compiler()[1], processor(),
                  importlib.metadata.version("verilator")])

    def make(folder: Path) -> None:
        root, generated = verilator_root(), folder / "generated"
        (folder / f"{top}.v").write_text(text)
        call([str(root / "bin" / "verilator_bin"), *flags, "--Mdir", str(generated),
              str(folder / f"{top}.v")], folder, os.environ | {"VERILATOR_ROOT": str(root)})
        names = sorted(path.name for path in generated.glob("*.cpp"))
        slow = [name for name in names if name.endswith("__Slow.cpp")]
        parts = {"often": [name for name in names if name not in slow], "once": slow}
        for part, included in parts.items():
            (folder / f"{part}.cpp").write_text("".join(
                f'#include "{name}"\n' for name in included) + (source if part == "often" else ""))
        include = root / "include"
        common = ("-w", "-DVL_TIME_CONTEXT")
        paths = [f"-I{path}" for path in (generated, include, include / "vltstd")]
        compile_shared({folder / "often.cpp": optimization, folder / "once.cpp": ("-O0",)},
                       folder / f"{top}.so", [*common, *paths],
                       verilator_objects(("verilated.cpp", "verilated_threads.cpp"), common))
        shutil.rmtree(generated)

    return build_once(top, key, what, make) / f"{top}.so"
