"""Machines from names and files."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from accel.machine.config import ConfigError, preset
from accel.machine.loading import load_machine
from accel.machine.machine import Machine

OWN = """
from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from compiler import te

absdiff = vector_op("absdiff", lambda a, b: te.abs(a - b))
machine = Machine(preset("tiny-1x4x4"), (*SHIPPED, absdiff))
"""
KNOWN = "ecp5-1x16x16, ecp5-1x2x2, ecp5-1x8x8, pynq-1x16x16, tiny-1x4x4"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal_of(name: str | Path) -> str:
    with pytest.raises(ConfigError) as refusal:
        load_machine(name)
    return str(refusal.value)


def test_a_preset() -> None:
    assert load_machine("tiny-1x4x4").hash == Machine(preset("tiny-1x4x4")).hash


def test_a_geometry() -> None:
    Path("mine.toml").write_text(preset("tiny-1x4x4").to_toml())
    assert load_machine("mine.toml").hash == Machine(preset("tiny-1x4x4")).hash


@pytest.mark.parametrize("name", ["mine.py", Path("mine.py"), "./mine.py"])
def test_code(name: str | Path) -> None:
    Path("mine.py").write_text(OWN)
    machine = load_machine(name)
    assert machine.opcodes["absdiff"] == max(machine.opcodes.values())


def test_a_package_may_import_its_parts() -> None:
    Path("mine").mkdir()
    Path("mine/ops.py").write_text(OWN)
    Path("mine/__init__.py").write_text("from .ops import machine\n")
    assert "absdiff" in load_machine("mine").forms


def package(folder: str, name: str) -> None:
    Path(folder).mkdir(exist_ok=True)
    Path(folder, "ops.py").write_text(OWN.replace("absdiff", name))
    Path(folder, "__init__.py").write_text("from .ops import machine\n")


def test_packages_keep_their_own_parts() -> None:
    package("one", "first")
    package("two", "second")
    assert "first" in load_machine("one").forms and "second" in load_machine("two").forms


def test_a_part_that_changes_is_run_again() -> None:
    package("mine", "first")
    first = load_machine("mine")
    assert load_machine("mine") is first
    package("mine", "another")
    assert "another" in load_machine("mine").forms


def test_an_interrupt_is_whose_it_is() -> None:
    before = set(sys.modules)
    Path("mine.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_machine("mine.py")
    assert set(sys.modules) == before


def test_what_fails_leaves_no_module() -> None:
    package("mine", "first")
    Path("mine/__init__.py").write_text("from . import ops\nops.nothing\n")
    before = set(sys.modules)
    assert refusal_of("mine").startswith("Machine mine, line 2: AttributeError: module ")
    assert set(sys.modules) == before


def test_a_preset_is_meant_though_a_folder_has_its_name() -> None:
    package("tiny-1x4x4", "first")
    assert "first" not in load_machine("tiny-1x4x4").forms
    assert "first" in load_machine("./tiny-1x4x4").forms


def test_code_runs_once_until_it_changes() -> None:
    Path("mine.py").write_text(OWN)
    first = load_machine("mine.py")
    assert load_machine("mine.py") is first
    Path("mine.py").write_text(OWN.replace("absdiff", "distance"))
    assert "distance" in load_machine("mine.py").forms


def test_an_installed_package(monkeypatch) -> None:
    machine = Machine(preset("tiny-1x4x4"))
    point = SimpleNamespace(name="theirs", value="theirs:machine", load=lambda: machine)
    monkeypatch.setattr("accel.machine.loading.entry_points",
                        lambda group: [point] if group == "lockstep.machines" else [])
    assert load_machine("theirs") is machine
    point.load = lambda: 3
    assert refusal_of("theirs") == ("Machine theirs (theirs:machine) must leave a Machine in the "
                                    "variable machine, not int")
    point.load = lambda: 1 / 0
    assert refusal_of("theirs") == ("Machine theirs (theirs:machine): ZeroDivisionError: division "
                                    "by zero")
    point.load = lambda: sys.exit(3)
    assert refusal_of("theirs") == "Machine theirs (theirs:machine): SystemExit: 3"
    assert refusal_of("nope").startswith(f"Machine must be one of {KNOWN}, theirs, ")


@pytest.mark.parametrize(("text", "message"), [
    ("", 'Machine mine.py must leave a Machine in the variable machine: machine = '
         'Machine(preset("tiny-1x4x4"), (*SHIPPED, ...))'),
    ("machine = 3", "Machine mine.py must leave a Machine in the variable machine, not int"),
    ("x = 1\nx.no", "Machine mine.py, line 2: AttributeError: 'int' object has no attribute 'no'"),
    ("import nothing_like_it",
     "Machine mine.py, line 1: ModuleNotFoundError: No module named 'nothing_like_it'"),
    ("import sys\nsys.exit(0)", "Machine mine.py, line 2: SystemExit: 0"),
    ("def f(:", "Machine mine.py, line 1: SyntaxError: invalid syntax"),
    ("class Stop(BaseException): pass\nraise Stop('no')", "Machine mine.py, line 2: Stop: no"),
    ("raise GeneratorExit", "Machine mine.py, line 1: GeneratorExit: "),
    ("class Mute(Exception):\n    def __str__(self): raise self\nraise Mute",
     "Machine mine.py, line 3: Mute: (its text cannot be had)"),
    (OWN.replace("absdiff = vector_op(\"absdiff\"", "absdiff = vector_op(\"finish\""),
     "Machine mine.py, line 8: "),
    (OWN.replace("lambda a, b", "lambda a, c").replace("a - b", "a - c"),
     "Machine mine.py, line 7: Parameter of vector operation absdiff must be a, b, table, one of "),
    (OWN.replace("tiny-1x4x4", "tiny"), "Machine mine.py, line 8: Preset must be one of "),
])
def test_code_without_a_machine(text: str, message: str) -> None:
    Path("mine.py").write_text(text)
    assert refusal_of("mine.py").startswith(message)


@pytest.mark.parametrize(("name", "message"), [
    ("nope", f"Machine must be one of {KNOWN}, a .toml or .py file or a folder with __init__.py, "
             "not 'nope'"),
    ("nope.toml", "Configuration nope.toml does not exist"),
    ("nope.py", "Machine nope.py cannot be read: No such file or directory"),
    ("empty", "Machine empty is a folder without __init__.py"),
    (3, "Machine must be a preset's name or a path, not 3"),
    (f"{'n' * 600}.py", f"Machine {'n' * 600}.py cannot be read: File name too long"),
])
def test_what_is_none(name, message: str) -> None:
    Path("empty").mkdir()
    assert refusal_of(name) == message
