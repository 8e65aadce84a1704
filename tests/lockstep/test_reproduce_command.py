"""``lockstep reproduce``: results are made again to the bit, and what has changed is noticed."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.digits.data import held_out
from lockstep.cli import main
from lockstep.provenance import differences, unmeasured
from lockstep.provenance.made import CLONE, commit_of
from runtime.driver import calibrated
from tests.support.whole import write_case

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "run": ("run", "d.onnx", "--machine", "m.toml", "--no-values", "--technology", "t.toml"),
    "explore": ("explore", "d.onnx", "--base", "m.toml", "--vary", "clock_mhz=50", "--processes",
                "0", "--no-check"),
    "diff": ("diff", "m.toml", "ecp5-1x2x2", "--network", "d.onnx", "--host", "h.toml"),
    "quantize": ("quantize", "f.onnx", "--calibration", "x.npz", "-o", "q.onnx"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    for name, file in (("d.onnx", "digits-int8.onnx"), ("f.onnx", "digits-float.onnx")):
        shutil.copy(ROOT / "examples" / "digits" / file, folder / name)
    np.savez(folder / "x.npz", image=held_out()[0][:2])
    for name, file in (("t.toml", "accel/estimates/data/technology-45nm.toml"),
                       ("h.toml", "runtime/pricing/host.toml")):
        shutil.copy(ROOT / file, folder / name)
    text = (ROOT / "accel" / "presets" / "tiny-1x4x4.toml").read_text()
    (folder / "m.toml").write_text(text)
    return folder


@pytest.mark.one_in(2)
@pytest.mark.parametrize("command", COMMANDS)
def test_one_figure_that_was_changed_is_all_that_differs(files: Path, monkeypatch, capsys,
                                                         command: str) -> None:
    monkeypatch.chdir(files)
    words = [*COMMANDS[command], "--json", "r.json"]
    assert main(words) == 0
    (files / "q.onnx").unlink(missing_ok=True)
    told = json.loads(Path("r.json").read_text())
    assert told["provenance"]["command"] == words
    assert {word for word in words if word in told["provenance"]["files"]} == {
        word for word in words[:-1] if word.endswith((".onnx", ".npz", ".toml"))} - {"q.onnx"}
    place = "/".join(map(str, _first_number(told)))
    _change(told, place)
    Path("r.json").write_text(json.dumps(told))
    capsys.readouterr()
    assert main(["reproduce", "r.json"]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{place}: ") and last.startswith("r.json: 1 difference; made by ")
    assert not (files / "q.onnx").exists()          # what is written goes elsewhere


def test_the_same_to_the_bit(files: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(files)
    assert main(["diff", "m.toml", "ecp5-1x2x2", "--json", "r.json"]) == 0
    capsys.readouterr()
    assert main(["reproduce", "r.json"]) == 0
    assert re.fullmatch(r"r\.json: the same to the bit; made by lockstep \S+( at [0-9a-f]{12})?"
                        r"(, changed)?; not compared, since measured: provenance/made\n",
                        capsys.readouterr().out)
    memory = json.loads(Path("r.json").read_text())["provenance"]["machines"]["m.toml"]["memory"]
    assert memory["latency"] == 64 and memory["stall_seed"] == 0


QUANTIZED = {
    "run": ("run", "net.onnx", "--machine", "addrelu.py", "--no-values", "--host", "this"),
    "explore": ("explore", "net.onnx", "--base", "tiny-1x4x4", "--vary", "clock_mhz=50",
                "--processes", "0", "--no-check", "--objective", "ms,accuracy", "--host", "this"),
    "diff": ("diff", "tiny-1x4x4", "addrelu.py", "--network", "net.onnx"),
    "bench": ("intrinsic", "bench", "net.onnx", "--machine", "tiny-1x4x4", "--base", "addrelu.py")}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("command", QUANTIZED)
def test_a_float_network_is_quantized_again(tmp_path: Path, monkeypatch, capsys, command: str
                                            ) -> None:
    write_case(tmp_path)
    monkeypatch.chdir(tmp_path)
    made, quantize = [], calibrated.Calibration.quantize
    monkeypatch.setattr(calibrated.Calibration, "quantize", lambda self, path, machine, **more: (
        made.append(path) or quantize(self, path, machine, **more)))
    words = [*QUANTIZED[command], "--calibration", "x.npz", "--json", "r.json"]
    assert main(words) == 0
    made.clear()
    assert main(["reproduce", "r.json"]) == 0
    assert made, "nothing was quantized: results of the cache were taken"
    data = bytearray(Path("net.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    Path("net.onnx").write_bytes(data)
    assert main(["reproduce", "r.json"]) == 2
    assert "'net.onnx' must have the SHA-256 " in capsys.readouterr().err


def _first_number(value: Any, path: tuple = ()) -> tuple:
    """The path of a figure that is not measured."""
    if isinstance(value, float):
        return path
    pairs = (value.items() if isinstance(value, dict)
             else enumerate(value) if isinstance(value, list) else ())
    found = (_first_number(part, (*path, key)) for key, part in pairs
             if key not in ("wall_seconds", "provenance"))
    return next(filter(None, found), ())


def _change(figures: Any, place: str) -> None:
    *path, last = place.split("/")
    for key in path:
        figures = _of(figures, key)
    figures[int(last) if isinstance(figures, list) else last] = np.nextafter(
        _of(figures, last), np.inf)


def _of(value: Any, key: str) -> Any:
    return value[int(key)] if isinstance(value, list) else value[key]


def test_one_byte_of_the_model(files: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(files)
    assert main(["quantize", "f.onnx", "--calibration", "x.npz", "-o", "q.onnx", "--json",
                 "r.json"]) == 0
    then = json.loads(Path("r.json").read_text())["provenance"]["files"]["f.onnx"]
    data = bytearray(Path("f.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    Path("f.onnx").write_bytes(data)
    capsys.readouterr()
    assert main(["reproduce", "r.json"]) == 2
    assert (f"error: 'f.onnx' must have the SHA-256 {then}, as when the results were made, not "
            in capsys.readouterr().err)


PARTS = {"command": ["run"], "measured": [], "files": {}, "made": {}}


@pytest.mark.parametrize("text", ["{", "[]", "{}", *(
    json.dumps({"provenance": PARTS | part}) for part in (
        {"command": []}, {"command": ["check"]}, {"command": ["run", 1]}, {"files": []}, {}))])
def test_what_has_no_provenance(tmp_path: Path, capsys, text: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    assert main(["reproduce", str(path)]) == 2
    assert (f"error: {str(path)!r} must be results with their provenance, as --json of run, "
            f"explore, diff and quantize writes them\n" in capsys.readouterr().err)


def test_what_is_measured_is_left_out() -> None:
    figures = {"seconds": 1.5, "layers": [{"host": 1, "cycles": 2}, {"cycles": 3}], "a": [4],
               "provenance": {"measured": ["seconds", "layers/*/host", "a/*", "absent/x"]}}
    rest = unmeasured(figures)
    assert rest == {"layers": [{"cycles": 2}, {"cycles": 3}], "a": [None],
                    "provenance": figures["provenance"]}
    assert figures["seconds"] == 1.5


def test_differences() -> None:
    nan = float("nan")
    assert [*differences({"a": [1, {"b": nan}], "c": 1}, {"a": [1, {"b": nan}], "c": 1})] == []
    assert [*differences({"a": [1.0, 2], "c": 0}, {"a": [1, 2], "d": [0]})] == [
        ("a/0", "1.0", "1"), ("c", "0", '"absent"'), ("d", '"absent"', "[0]")]
    assert [*differences({"a": [1]}, {"a": [1, 2]})] == [("a", "[1]", "[1, 2]")]


def test_a_folder_without_git_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == {"commit": None, "changed": None}
    found = commit_of(CLONE)
    assert found["commit"] is None or len(found["commit"]) == 40


def test_a_clone_is_only_read(tmp_path: Path) -> None:
    """A commit of somebody at the same time meets no lock, and the index stays as it is."""
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c",
                        *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "a.txt").write_text("a")
    git("add", "a.txt")
    git("commit", "-qm", "a")
    os.utime(tmp_path / "a.txt", (1, 1))        # which the index would be told
    before = (tmp_path / ".git" / "index").read_bytes()
    commit_of.cache_clear()
    assert commit_of(tmp_path)["changed"] is False
    assert (tmp_path / ".git" / "index").read_bytes() == before
