"""Imports run one way. The source is parsed, never run, so a lazy import counts like any other.

::

    compiler:  te <- ir <- ops, schedule, tensorize, latency_hiding
                  <- target, graph, frontend, cpu_gpu_backends <- quantize
    compiler <- accel <- runtime;  accel, runtime <- fpga;  all <- lockstep, which nobody imports
    accel:     hw and sim do not import each other; accel/sim/verilated.py alone builds from hw,
               accel/sim/cycle.py takes its numbers from there
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("tests", "bench", "examples")

MAY_IMPORT = {
    "compiler": {"compiler"},
    "accel":    {"accel", "compiler"},
    "runtime":  {"runtime", "accel", "compiler"},
    "fpga":     {"fpga", "accel", "runtime"},
    "lockstep": {"lockstep", "fpga", "runtime", "accel", "compiler"},
}
# A module of the compiler imports from its own layer and those before it. One that no layer
# names, such as compiler/errors.py, lies under all of them.
LAYERS = (
    {"te"},
    {"ir"},
    {"ops", "schedule", "tensorize", "latency_hiding"},
    {"target", "graph", "frontend", "cpu_gpu_backends"},
    {"quantize"},
)
# What every house uses: errors, files, and the one module that runs tools and keeps their results.
UNDER_ALL = ("compiler.errors", "compiler.files", "compiler.native")
BUILDS_FROM_HW, NUMBERS_FROM_HW = "accel.sim.verilated", "accel.sim.cycle"


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def absolute(node: ast.ImportFrom, path: Path, root: Path) -> str:
    """The module that ``from ..x import y`` means."""
    if not node.level:
        return node.module or ""
    package = path.relative_to(root).parent.parts
    base = package[:len(package) - (node.level - 1)]
    return ".".join([*base, *([node.module] if node.module else [])])


def imported(path: Path, root: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that the file imports, names of packages included."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                module = absolute(node, path, root)
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
            case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(
                    id="import_module" | "__import__"), args=[ast.Constant(str(name)), *_]):
                yield node.lineno, name


def room(name: str) -> str:
    """The second part of a dotted name: ``te`` of ``compiler.te.expr``."""
    return name.split(".")[1] if "." in name else ""


def layer(name: str) -> int:
    return next((i for i, names in enumerate(LAYERS) if room(name) in names), -1)


def forbidden(importer: str, target: str) -> str | None:
    """Why `importer` must not import `target`, or None if it may."""
    house, other = importer.split(".")[0], target.split(".")[0]
    if house == "fpga" and target.startswith(tuple(f"{name}." for name in UNDER_ALL)):
        return None
    if other in OUTSIDE or other in MAY_IMPORT and other not in MAY_IMPORT[house]:
        return f"{house} must not import {other}"
    if house == other == "compiler" and importer != "compiler" and layer(importer) < layer(target):
        return f"{importer} must not import what lies above it"
    if house == other == "accel" and {room(importer), room(target)} == {"hw", "sim"}:
        leaf = target.split(".")[-1]
        component = leaf[0].isupper() and not leaf.isupper()
        if importer != BUILDS_FROM_HW and (importer != NUMBERS_FROM_HW or component):
            return f"accel.{room(importer)} must not import accel.{room(target)}"
    return None


def violations(root: Path) -> list[str]:
    found = []
    for house in MAY_IMPORT:
        for path in sorted((root / house).rglob("*.py")):
            for line, target in imported(path, root):
                reason = forbidden(module_name(path, root), target)
                if reason:
                    found.append(f"{path.relative_to(root)}:{line}: imports {target}: {reason}")
    return found


def test_imports_run_one_way() -> None:
    assert violations(ROOT) == []


def test_the_house_is_read() -> None:
    names = {target for house in MAY_IMPORT for path in (ROOT / house).rglob("*.py")
             for _, target in imported(path, ROOT)}
    assert "compiler.te.Expr" in names
    assert "lockstep.paths.input_file" in names


def plant(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(("path", "text", "message"), [
    ("compiler/te/a.py", "import accel.machine.isa",
     "imports accel.machine.isa: compiler must not import accel"),
    ("compiler/te/a.py", "from compiler import ir",
     "imports compiler.ir: compiler.te.a must not import what lies above it"),
    ("compiler/te/a.py", "from ..ir.nodes import For",
     "imports compiler.ir.nodes.For: compiler.te.a must not import what lies above it"),
    ("compiler/ir/__init__.py", "from .. import schedule",
     "imports compiler.schedule: compiler.ir must not import what lies above it"),
    ("compiler/ops/a.py", "def f():\n    from compiler.graph import Graph",
     "imports compiler.graph.Graph: compiler.ops.a must not import what lies above it"),
    ("compiler/errors.py", "from compiler.te import Expr",
     "imports compiler.te.Expr: compiler.errors must not import what lies above it"),
    ("compiler/graph/a.py", "import importlib\nimportlib.import_module('runtime.device')",
     "imports runtime.device: compiler must not import runtime"),
    ("accel/hw/a.py", "from accel.sim import dram",
     "imports accel.sim.dram: accel.hw must not import accel.sim"),
    ("accel/sim/cycle.py", "from ..hw.core import Core",
     "imports accel.hw.core.Core: accel.sim must not import accel.hw"),
    ("accel/sim/a.py", "from accel.hw.fetch import PREFETCH",
     "imports accel.hw.fetch.PREFETCH: accel.sim must not import accel.hw"),
    ("accel/a.py", "import runtime", "imports runtime: accel must not import runtime"),
    ("runtime/a.py", "from fpga import boards",
     "imports fpga.boards: runtime must not import fpga"),
    ("fpga/a.py", "from compiler import te",
     "imports compiler.te: fpga must not import compiler"),
    ("fpga/a.py", "import lockstep", "imports lockstep: fpga must not import lockstep"),
    ("accel/a.py", "from tests import strategies",
     "imports tests.strategies: accel must not import tests"),
])
def test_a_planted_violation_is_found(tmp_path: Path, path: str, text: str, message: str) -> None:
    plant(tmp_path, path, text)
    line = text.count("\n") + 1
    assert violations(tmp_path) == [f"{path}:{line}: {message}"]


@pytest.mark.parametrize(("path", "text"), [
    ("accel/sim/verilated.py", "from accel.hw.core import Core"),
    ("accel/sim/cycle.py", "from accel.hw.fetch import PREFETCH"),
    ("accel/sim/cycle.py",
     "from . import dram\nfrom accel.datapath.plan import plan\nimport numpy"),
    ("compiler/ir/a.py", "from compiler.te import Expr\nfrom compiler.errors import Refused"),
    ("compiler/graph/a.py", "from compiler.target import Target"),
    ("compiler/__init__.py", "from compiler.graph import Graph"),
    ("fpga/a.py", "from compiler.native import build_once"),
    ("lockstep/a.py", "import fpga, runtime, accel, compiler"),
])
def test_what_the_design_allows_passes(tmp_path: Path, path: str, text: str) -> None:
    plant(tmp_path, path, text)
    assert violations(tmp_path) == []
