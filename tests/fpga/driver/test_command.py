"""``lockstep export`` for boards: files, other processors, refusals."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from compiler.exports import ExportError
from fpga.driver.board import board_files
from fpga.driver.export import export_accelerated
from lockstep.cli import main
from runtime import compile_graph
from tests.fpga.driver.test_export import layers, on
from tests.support.axi_board import WARNINGS
from tests.support.machines import TINY

ROOT = Path(__file__).parents[3]
DIGITS = str(ROOT / "examples" / "digits" / "digits-int8.onnx")
SHARED = {*board_files()}
HOSTS = ("digits_host0", "digits_host2")


def export(folder: Path, *options: str) -> set[str]:
    assert main(["export", DIGITS, "--target", "accel:tiny-1x4x4", "--name", "digits",
                 "-o", str(folder), *options]) == 0
    return {path.name for path in folder.iterdir()}


def test_files(tmp_path, capsys):
    """The same ones with the same bytes whenever they are written."""
    assert export(tmp_path / "a") == {"digits.h", "digits.c", *SHARED} | {
        host + end for host in HOSTS for end in (".h", ".c")}
    assert "bytes of the board's memory, arena of 128 bytes" in capsys.readouterr().out
    export(tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_the_program_of_the_page_compiles(tmp_path):
    """As C99 and, the header, as C++17."""
    export(tmp_path)
    page, = re.findall(r"^```c\n(.*?)^```$", (ROOT / "docs" / "driver.md").read_text(),
                       re.DOTALL | re.MULTILINE)
    (tmp_path / "page.c").write_text(page)
    (tmp_path / "page.cpp").write_text('#include "digits.h"\n')
    subprocess.run(["gcc", *WARNINGS, "-fsyntax-only", "page.c"], cwd=tmp_path, check=True)
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                    "page.cpp"], cwd=tmp_path, check=True)


EMPTY = """
#include "digits.h"
static unsigned char memory[DIGITS_DMA_BYTES] __attribute__((aligned(64)));
static uint32_t registers[LOCKSTEP_REGISTER_WORDS];
static uint32_t weights[DIGITS_WEIGHTS_BYTES / 4];
int main(void)
{
    struct digits network;
    lockstep_board board = {0};
    board.registers = registers;
    board.memory = memory;
    board.polls = 1;
    return digits_init(&network, weights, &board);
}
"""


@pytest.mark.cross
@pytest.mark.skipif(not (shutil.which("arm-linux-gnueabihf-gcc") and shutil.which("qemu-arm")),
                    reason="needs arm-linux-gnueabihf-gcc and qemu-arm")
def test_another_processor(tmp_path):
    """For a Zynq-7000's: links, runs, and finds no accelerator."""
    assert export(tmp_path, "--machine", "armv7", "--weights", "apart") == {
        "digits.h", "digits.c", "digits.bin", *SHARED} | {
            host + end for host in HOSTS for end in (".h", ".o")}
    (tmp_path / "main.c").write_text(EMPTY)
    subprocess.run(["arm-linux-gnueabihf-gcc", *WARNINGS, "-static", *sorted(
        path.name for path in tmp_path.glob("*.[co]")), "-lm", "-o", "main"],
        cwd=tmp_path, check=True)
    assert subprocess.run(["qemu-arm", "./main"], cwd=tmp_path).returncode == 66


@pytest.mark.parametrize("options, message", [
    (["--kind", "shared"], "--kind must be left out with an accelerator"),
    (["--machine", "pdp11"], "machine must be one of x86-64, "),
    (["--name", "two words"], "Name of a network must be an identifier of C, not 'two words'"),
    (["--name", "lockstep_net"], "Name of a network on a board must not begin with lockstep, as "
                                 "lockstep_net does")])
def test_wrong_requests(tmp_path, capsys, options, message):
    assert main(["export", DIGITS, "--target", "accel:tiny-1x4x4", "-o", str(tmp_path / "x"),
                 *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "x").exists()


def test_a_module_without_an_accelerator_wrong(tmp_path):
    with pytest.raises(ExportError, match="must have segments of one accelerator, not of none"):
        export_accelerated(compile_graph(layers()[1], None), tmp_path, "net")


def test_constants_of_text_are_few(tmp_path, monkeypatch):
    monkeypatch.setattr("fpga.driver.export.INSIDE", 1000)
    module = on(TINY, layers()[1])
    export_accelerated(module, tmp_path, "net")
    assert (tmp_path / "net.bin").exists()
