# amaranth: UnusedElaboratable=no
"""Boards: their tops as far as Amaranth goes, their clocks, and refusals."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fpga.gateware import margins
from fpga.boards import BOARDS, BlockRam, BoardError, board
from fpga.gateware.board import BoardTop
from fpga.gateware.pll import search
from fpga.boards.sdram import ULX3S
from tests.support.machines import TINY


def prepared(name: str, mhz: float = 80) -> tuple[str, str]:
    """RTLIL and pin constraints of a board with the smallest machine."""
    one = board(name)
    if isinstance(one.memory, BlockRam):
        one = replace(one, memory=BlockRam(16 << 10))       # quicker
    platform = one.make_platform()
    pll = search(round(platform.default_clk_frequency), mhz * 1e6)
    files = platform.prepare(BoardTop(one, TINY, pll), "top").files
    return files["top.il"], files["top.lpf"]


def cells(text: str, kind: str) -> int:
    return len(re.findall(rf"cell \\{kind} ", text))


@pytest.mark.slow
def test_a_board_with_sdram():
    text, pins = prepared("ulx3s-25f")
    assert cells(text, "EHXPLLL") == cells(text, "ODDRX1F") == 1
    assert cells(text, "IFS1P3DX") == 16
    # Command, bank, address, mask, enable and select, data: each with a register that enables it;
    # and that of the clock.
    assert cells(text, "OFS1P3DX") == 2 * (3 + 2 + 13 + 2 + 2 + 16) + 1
    assert "parameter \\CLKI_DIV 1" in text and "parameter \\CLKOP_DIV 5" in text
    assert cells(text, "MULT18X18D") and cells(text, "DP16KD")      # the core's primitives
    assert 'LOCATE COMP "sdram_0__clk__io" SITE "F19"' in pins
    assert 'LOCATE COMP "uart_0__rx__io" SITE "M1"' in pins
    assert 'FREQUENCY PORT "clk25_0__io" 25000000.0 HZ' in pins


@pytest.mark.slow
def test_a_board_without_a_memory_chip():
    text, pins = prepared("ecpix5-85f")
    assert cells(text, "DP16KD") > 8 and not cells(text, "IFS1P3DX")
    assert "sdram" not in pins and 'SITE "R26"' in pins


def test_every_board_is_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "fpga.md").read_text()
    rows = page.partition("## The boards\n")[2].partition("\n\nA board")[0]
    assert [name for name in BOARDS if f"`{name}`" not in rows] == []


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_has_clock_and_baud_rate(name):
    one = board(name)
    platform = one.make_platform()
    pll = search(round(platform.default_clk_frequency), one.mhz * 1e6)
    assert pll.clock_hz == one.mhz * 1e6
    assert one.baud_rate(pll.clock_hz) in one.baud_rates
    if not isinstance(one.memory, BlockRam):
        assert min(margins.margins(one.memory, pll.clock_hz).values()) > 0.9


def test_baud_rates_follow_the_clock():
    one = board("ulx3s-85f")
    for mhz in range(20, 134):
        rate = one.baud_rate(mhz * 1e6)
        assert abs(mhz * 1e6 / round(mhz * 1e6 / rate) / rate - 1) <= 0.01
    assert one.baud_rate(80e6) == 2_000_000 and one.baud_rate(90e6) == 3_000_000
    assert replace(one, baud=115_200).baud_rate(90e6) == 115_200
    with pytest.raises(BoardError, match="must come within 1% of a baud rate, which 0.5 MHz does"):
        one.baud_rate(500e3)


def test_margins_shrink_with_the_period():
    slow, fast = margins.margins(ULX3S, 50e6), margins.margins(ULX3S, 100e6)
    assert min(slow.values()) > 0.9 and all(fast[name] <= slow[name] for name in slow)
    assert fast["data before the core's edge"] == pytest.approx(10 + 3.5 - 6 - 6 - 1)
    with pytest.raises(ValueError, match=r"^Clock of SDRAM of the ULX3S must be slower than "
                                         r"125 MHz: data before the core's edge there are "
                                         r"-0.9 ns left$"):
        margins.require(ULX3S, 125e6)


def test_the_page_tells_the_margins():
    rows = [f"| {name} | " + " | ".join(
        f"{margins.margins(ULX3S, mhz * 1e6)[name]:.1f}" for mhz in (50, 80, 100)) + " |"
        for name in margins.margins(ULX3S, 50e6)]
    assert "\n".join(rows) in (Path(__file__).parents[2] / "docs" / "fpga.md").read_text()


def test_an_inverted_clock_would_leave_less(monkeypatch):
    """What the text of `fpga.gateware.margins` says of 180 degrees."""
    monkeypatch.setattr(margins, "LEAD", 12.5 / 2)
    assert margins.margins(ULX3S, 80e6)["data after the core's edge"] < 0


def test_a_board_that_does_not_exist():
    with pytest.raises(BoardError, match="^Board must be one of ulx3s-12f, ulx3s-25f, ulx3s-45f, "
                                         "ulx3s-85f, ecpix5-85f, not 'de10'$"):
        board("de10")


def test_without_amaranth_boards(monkeypatch):

    def missing(name, *args, **kwargs):
        raise ModuleNotFoundError(f"No module named {name!r}", name="amaranth_boards")

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(BoardError, match="^amaranth-boards must be there for the pins of boards"):
        board("ulx3s-85f").make_platform()
