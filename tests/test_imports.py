"""Imports run one way. The source is parsed, never run, so a lazy import counts like any other.

::

    compiler <- accel <- runtime;  accel, runtime <- fpga <- asic;  all <- lockstep, which nobody
                  imports
    compiler:  te <- ir <- ops, schedule, tensorize, latency_hiding, exports <- tune <- graph
                  <- frontend | cpu_gpu_backends <- gradients, quantize
    cpu_gpu_backends:   llvm, simt <- intrinsics <- cpu | gpu;  cpu <- c
    accel:     machine <- datapath | proof <- figures <- mapping | hw | sim | estimates
                  <- answers, formal
    mapping:   lowering <- selecting <- operators <- memory, schedules <- builders <- plans
                  <- bounds <- texts
               accel/sim/rtl/verilated.py and accel/sim/slice/simulator.py alone build from hw;
               accel/machine/timing.py has numbers

``a | b`` do not import each other. Inside a room, neither modules nor folders import in a circle;
a folder's own files count as one, so they lie all above its subfolders, or all below. No folder is
crowded.
"""

import ast
import collections
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("tests", "bench", "examples")

MAY_IMPORT = {
    "compiler": {"compiler"},
    "accel":    {"accel", "compiler"},
    "runtime":  {"runtime", "accel", "compiler"},
    "fpga":     {"fpga", "accel", "runtime"},
    "asic":     {"asic", "fpga", "runtime", "accel", "compiler"},
    "lockstep": {"lockstep", "asic", "fpga", "runtime", "accel", "compiler"},
}
# A module imports from its own layer of a folder and those before it. One that no layer names, such
# as compiler/errors.py, lies under all of them.
LAYERS = {
    "compiler": (
        {"te"},
        {"ir"},
        {"ops", "schedule", "tensorize", "latency_hiding", "exports"},
        {"tune"},
        {"graph"},
        {"frontend", "cpu_gpu_backends"},
        {"gradients", "quantize"},
    ),
    "compiler.cpu_gpu_backends": ({"llvm", "simt"}, {"intrinsics"}, {"cpu", "gpu"}, {"c"}),
    "accel": ({"machine"}, {"datapath", "proof"}, {"figures"},
              {"mapping", "hw", "sim", "estimates"}, {"answers", "formal"}),
    "accel.mapping": ({"lowering"}, {"selecting"}, {"operators"}, {"memory", "schedules"},
                      {"builders"}, {"plans"}, {"bounds", "positions"}, {"texts"},
                      {"assembling", "compiled", "joining", "layers", "loads", "memory_map",
                       "programs", "quantizing", "segment", "target"}),
}
APART = (
    {"compiler.frontend", "compiler.cpu_gpu_backends"},
    {"compiler.cpu_gpu_backends.cpu", "compiler.cpu_gpu_backends.gpu"},
    {"accel.datapath", "accel.proof"},
    {"accel.mapping", "accel.hw"}, {"accel.mapping", "accel.sim"}, {"accel.hw", "accel.sim"},
)
# What every house uses: errors, files, attributes that are computed once, and the one module that
# runs tools and keeps their results.
UNDER_ALL = ("compiler.errors", "compiler.files", "compiler.lazy", "compiler.native")
HOUSES = ("accel", "asic", "compiler", "fpga", "lockstep", "runtime", "bench")
MOST_FILES = 20
BUILD_FROM_HW = ("accel.sim.rtl.verilated", "accel.sim.slice.simulator")


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


@functools.cache
def imported(path: Path, root: Path) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of everything that the file imports, names of packages included."""
    return tuple(_imported(path, root))


def _imported(path: Path, root: Path) -> Iterator[tuple[int, str]]:
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


def room(name: str, folder: str) -> str:
    """The part of a dotted name below `folder`: ``te`` of ``compiler.te.expr`` in ``compiler``."""
    return name.removeprefix(f"{folder}.").split(".")[0] if name.startswith(f"{folder}.") else ""


def layer(name: str, folder: str) -> int:
    return next((place for place, names in enumerate(LAYERS[folder])
                 if room(name, folder) in names), -1)


def lies_above(importer: str, target: str) -> bool:
    return any(room(importer, folder) and room(target, folder)
               and layer(importer, folder) < layer(target, folder) for folder in LAYERS)


def are_apart(importer: str, target: str) -> set[str]:
    """The two rooms that do not import each other, where the two modules lie in such rooms."""
    for pair in APART:
        homes = {home for home in pair for name in (importer, target)
                 if name == home or name.startswith(f"{home}.")}
        if homes == pair:
            return pair
    return set()


def forbidden(importer: str, target: str) -> str | None:
    """Why `importer` must not import `target`, or None if it may."""
    house, other = importer.split(".")[0], target.split(".")[0]
    if house == "fpga" and target.startswith(tuple(f"{name}." for name in UNDER_ALL)):
        return None
    if other in OUTSIDE or other in MAY_IMPORT and other not in MAY_IMPORT[house]:
        return f"{house} must not import {other}"
    apart = are_apart(importer, target)
    if apart and not (importer in BUILD_FROM_HW and target.startswith("accel.hw")):
        own, = (home for home in apart if importer.startswith(home))
        return f"{own} must not import {(apart - {own}).pop()}"
    if lies_above(importer, target):
        return f"{importer} must not import what lies above it"
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


def modules(root: Path) -> dict[str, Path]:
    return {module_name(path, root): path
            for house in MAY_IMPORT for path in sorted((root / house).rglob("*.py"))}


@functools.cache
def module_imports(root: Path) -> set[tuple[str, str]]:
    """Pairs of a module and one that it imports, and the packages around that, which run first.

    A name that a package hands on counts as an import of the package.
    """
    paths = modules(root)
    return {(importer, module) for importer, path in paths.items()
            for _, target in imported(path, root)
            for module in imported_modules(importer, target, paths) if module != importer}


def imported_modules(importer: str, target: str, names: Iterable[str]) -> Iterator[str]:
    parts = target.split(".")
    prefixes = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    known = [name for name in prefixes if name in names]
    yield from known[-1:]
    yield from (package for package in known[:-1] if not importer.startswith(f"{package}."))


def circles(pairs: Iterable[tuple[str, str]]) -> list[set[str]]:
    return [names for names in nx.strongly_connected_components(nx.DiGraph(list(pairs)))
            if len(names) > 1]


def folder_imports(pairs: Iterable[tuple[str, str]], folder: str) -> set[tuple[str, str]]:
    """The pairs between the folders and modules directly in `folder`; "" is the root."""
    def child(name: str) -> str:
        return f"{folder}.{room(name, folder)}" if folder else name.split(".")[0]

    return {(child(importer), child(target)) for importer, target in pairs
            if not folder or (room(importer, folder) and room(target, folder))
            if child(importer) != child(target)}


def all_circles(root: Path) -> list[str]:
    """Circles between modules, and between what lies directly in each folder; one a line."""
    pairs = module_imports(root)
    folders = {"", *(name[:end] for name in modules(root)
                     for end, letter in enumerate(name) if letter == ".")}
    found = [*circles(pairs),
             *(names for folder in folders for names in circles(folder_imports(pairs, folder)))]
    return sorted({" <-> ".join(sorted(names)) for names in found})


def circles_with_files(root: Path) -> list[str]:
    """Circles between the files of a folder, as one, and its subfolders; one a line."""
    paths, pairs = modules(root), module_imports(root)
    packages = {name for name, path in paths.items() if path.name == "__init__.py"}

    def child(name: str, folder: str) -> str:
        below = name.removeprefix(f"{folder}.")
        inside = "." in below or name in packages
        return f"{folder}.{below.split('.')[0]}" if inside else f"files of {folder}"

    found = set[str]()
    for folder in packages:
        inner = [pair for pair in pairs if all(name.startswith(f"{folder}.") for name in pair)]
        joined = {(child(importer, folder), child(target, folder)) for importer, target in inner}
        found |= {" <-> ".join(sorted(names)) for names in circles(
            pair for pair in joined if pair[0] != pair[1])}
    return sorted(found)


def crowded(root: Path) -> list[str]:
    """Folders with more files than `MOST_FILES`."""
    counts = collections.Counter(path.parent for house in HOUSES
                                 for path in (root / house).rglob("*.py"))
    return sorted(f"{folder.relative_to(root)}: {count} files" for folder, count in counts.items()
                  if count > MOST_FILES)


def test_no_folder_is_crowded() -> None:
    assert crowded(ROOT) == []


def test_files_of_a_folder_lie_above_its_subfolders_or_below() -> None:
    assert circles_with_files(ROOT) == []


def test_imports_run_one_way() -> None:
    assert violations(ROOT) == []


def test_no_import_closes_a_circle() -> None:
    assert all_circles(ROOT) == []


def test_the_house_is_read() -> None:
    names = {target for house in MAY_IMPORT for path in (ROOT / house).rglob("*.py")
             for _, target in imported(path, ROOT)}
    assert "compiler.te.Expr" in names
    assert "lockstep.options.paths.input_file" in names


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
    ("compiler/graph/a.py", "import importlib\nimportlib.import_module('runtime.devices.device')",
     "imports runtime.devices.device: compiler must not import runtime"),
    ("compiler/frontend/a.py", "from compiler.cpu_gpu_backends.cpu import target",
     "imports compiler.cpu_gpu_backends.cpu.target: compiler.frontend must not import "
     "compiler.cpu_gpu_backends"),
    ("compiler/graph/a.py", "from compiler.frontend import building",
     "imports compiler.frontend.building: compiler.graph.a must not import what lies above it"),
    ("compiler/cpu_gpu_backends/simt/a.py", "from ..intrinsics import gpu",
     "imports compiler.cpu_gpu_backends.intrinsics.gpu: compiler.cpu_gpu_backends.simt.a must not "
     "import what lies above it"),
    ("compiler/cpu_gpu_backends/gpu/a.py", "from ..cpu import steps",
     "imports compiler.cpu_gpu_backends.cpu.steps: compiler.cpu_gpu_backends.gpu must not import "
     "compiler.cpu_gpu_backends.cpu"),
    ("accel/machine/a.py", "from accel.proof.access import access",
     "imports accel.proof.access.access: accel.machine.a must not import what lies above it"),
    ("accel/proof/a.py", "from accel.datapath import plan",
     "imports accel.datapath.plan: accel.proof must not import accel.datapath"),
    ("accel/figures/a.py", "from accel.mapping import target",
     "imports accel.mapping.target: accel.figures.a must not import what lies above it"),
    ("accel/mapping/memory/a.py", "from accel.mapping.plans import search",
     "imports accel.mapping.plans.search: accel.mapping.memory.a must not import what lies above "
     "it"),
    ("accel/mapping/a.py", "from accel.sim import dram",
     "imports accel.sim.dram: accel.mapping must not import accel.sim"),
    ("accel/sim/a.py", "from accel.mapping import target",
     "imports accel.mapping.target: accel.sim must not import accel.mapping"),
    ("accel/hw/a.py", "from accel.sim import dram",
     "imports accel.sim.dram: accel.hw must not import accel.sim"),
    ("accel/sim/timed/cycle.py", "from ...hw.core import Core",
     "imports accel.hw.core.Core: accel.sim must not import accel.hw"),
    ("accel/sim/timed/cycle.py", "from accel.hw.moving.load import LOADED",
     "imports accel.hw.moving.load.LOADED: accel.sim must not import accel.hw"),
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
    ("accel/sim/rtl/verilated.py", "from accel.hw.core import Core"),
    ("accel/sim/slice/simulator.py", "from accel.hw.core import Core"),
    ("accel/sim/timed/cycle.py",
     "from . import dram\nfrom accel.datapath.plan import plan\nimport numpy"),
    ("compiler/ir/a.py", "from compiler.te import Expr\nfrom compiler.errors import Refused"),
    ("compiler/cpu_gpu_backends/cpu/a.py", "from compiler.graph.division.protocols import Target"),
    ("compiler/__init__.py", "from compiler.graph import Graph"),
    ("fpga/a.py", "from compiler.native import build_once"),
    ("lockstep/a.py", "import fpga, runtime, accel, compiler"),
])
def test_what_the_design_allows_passes(tmp_path: Path, path: str, text: str) -> None:
    plant(tmp_path, path, text)
    assert violations(tmp_path) == []


@pytest.mark.parametrize(("files", "expected"), [
    ({"accel/proof/a.py": "from .b import f", "accel/proof/b.py": "def f():\n    from . import a"},
     "accel.proof.a <-> accel.proof.b"),
    ({"accel/proof/a.py": "import accel.proof.b", "accel/proof/b.py": "from .c import x",
      "accel/proof/c.py": "import typing\nif typing.TYPE_CHECKING:\n    from .a import y"},
     "accel.proof.a <-> accel.proof.b <-> accel.proof.c"),
    ({"accel/proof/__init__.py": "from .a import x", "accel/proof/a.py": "from . import y"},
     "accel.proof <-> accel.proof.a"),
    ({"accel/proof/__init__.py": "from .a import x", "accel/proof/a.py": "",
      "accel/proof/b.py": "from accel.proof import x"}, None),
    ({"accel/__init__.py": "", "accel/proof/a.py": "from ..machine.c import x",
      "accel/machine/c.py": "", "accel/machine/d.py": "from accel.proof import e",
      "accel/proof/e.py": ""}, "accel.machine <-> accel.proof"),
    ({"runtime/__init__.py": "from .module import Module", "runtime/module.py": "",
      "fpga/a.py": "from runtime import Module", "fpga/__init__.py": ""}, None),
    ({"accel/__init__.py": "from .machine.c import x", "accel/machine/c.py": "import fpga.a",
      "fpga/__init__.py": "", "fpga/a.py": "from accel.machine.d import y",
      "accel/machine/d.py": ""}, "accel <-> accel.machine.c <-> fpga.a\naccel <-> fpga"),
])
def test_a_planted_circle_is_found(tmp_path: Path, files: dict[str, str],
                                   expected: str | None) -> None:
    for path, text in files.items():
        plant(tmp_path, path, text)
    assert "\n".join(all_circles(tmp_path)) == (expected or "")


@pytest.mark.parametrize(("files", "expected"), [
    ({"accel/proof/a.py": "from .deep.b import f", "accel/proof/deep/b.py": "",
      "accel/proof/deep/c.py": "from accel.proof.d import x", "accel/proof/d.py": ""},
     ["accel.proof.deep <-> files of accel.proof"]),
    ({"accel/proof/a.py": "from .deep import f", "accel/proof/deep/c.py": "from ..d import x",
      "accel/proof/d.py": ""}, ["accel.proof.deep <-> files of accel.proof"]),
    ({"accel/proof/a.py": "from .one import b", "accel/proof/one/b.py": "from ..two.c import x",
      "accel/proof/two/c.py": "", "accel/proof/two/__init__.py": "",
      "accel/proof/two/d.py": "from ..one import b"}, ["accel.proof.one <-> accel.proof.two"]),
    ({"accel/proof/__init__.py": "from .a import x", "accel/proof/a.py": "from .deep.b import f",
      "accel/proof/deep/b.py": "", "accel/proof/d.py": ""}, []),
    ({"accel/proof/d.py": "", "accel/proof/deep/b.py": "from ..d import x",
      "accel/proof/deep/c.py": "from . import b"}, []),
])
def test_a_planted_circle_of_files_and_subfolders_is_found(
        tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    for path in ("accel/proof", "accel/proof/deep", "accel/proof/one"):
        plant(tmp_path, f"{path}/__init__.py", "")
    for path, text in files.items():
        plant(tmp_path, path, text)
    assert circles_with_files(tmp_path) == expected


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    for number in range(MOST_FILES):
        plant(tmp_path, f"accel/proof/a{number}.py", "")
    assert crowded(tmp_path) == []
    plant(tmp_path, "accel/proof/__init__.py", "")
    assert crowded(tmp_path) == [f"accel/proof: {MOST_FILES + 1} files"]
