"""Networks on boards without a system, in QEMU, with the C library of each."""

from pathlib import Path

import pytest

import lockstep
from bench.exports.boards import measured
from bench.support.boards import BOARDS, run_on
from runtime.exporting.export import export
from tests.support.float_graphs import FloatNet

MOST = {"cortex-m7": 40_000, "riscv32": 40_000, "riscv64": 80_000}
"""Bytes of code."""


def board_of(machine: str):
    if missing := BOARDS[machine].missing:
        pytest.skip(f"needs {missing[0]}")
    return BOARDS[machine]


@pytest.mark.cross
@pytest.mark.slow
@pytest.mark.parametrize("machine", BOARDS)
def test_all_held_out_digits_are_right_to_the_bit(tmp_path, machine: str) -> None:
    board_of(machine)
    figures = measured("digits_int8", machine, tmp_path)
    assert figures["right"] == figures["samples"] == 360
    assert figures["code_bytes"] < MOST[machine]
    assert 0 < figures["stack_bytes"] < (1 << 13 if machine == "riscv64" else 1 << 11)
    assert 1 << 18 < figures["instructions"] < 1 << 24


def floats():
    """A network that takes what boards do without instructions: functions, maxima, roundings."""
    net = FloatNet(4, 6)
    y = net.op("tanh", net.op("add", "x", net.constant(6)))
    y = net.op("maximum", net.op("sqrt", net.op("exp", y)), net.op("rint", "x"))
    y = net.op("div", y, net.op("reduce_max", y, axes=(1,), keepdims=1))
    return lockstep.compile(net.finish((y,)), "cpu", cache=False)


@pytest.mark.cross
@pytest.mark.slow
@pytest.mark.parametrize("machine", BOARDS)
def test_the_test_program_runs_as_it_is_and_finds_what_differs(tmp_path, machine: str) -> None:
    board = board_of(machine)
    files = export(floats(), tmp_path, "net", machine=machine, apart=False).files
    assert [file.name for file in files] == ["net.h", "net.o", "net_test.c"]
    done = run_on(board, tmp_path, "net_test.c", "net.o")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "net: 0 of 1 samples are wrong")
    spoil(tmp_path / "net_test.c")
    done = run_on(board, tmp_path, "net_test.c", "net.o")
    assert done.returncode == 1
    assert "1 of 24 elements differ" in done.stdout


def spoil(program: Path) -> None:
    """Makes the first stored output another one."""
    text = program.read_text()
    at = text.index("output_0_0[24] = {") + len("output_0_0[24] = {\n    ")
    end = text.index(",", at)
    program.write_text(f"{text[:at]}{text[at:end]} + 1.0f{text[end:]}")
