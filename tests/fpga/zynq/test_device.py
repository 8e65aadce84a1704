"""The driver under PYNQ, whose package is played here: registers, and a buffer that processor and
core see alike only when caches are flushed and invalidated.
"""

import sys
from pathlib import Path
from struct import pack
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from accel.sim.timed import cycle
from fpga.device import BoardRefused
from fpga.inference import infer
from fpga.link.frames import WRITE_REGISTER, Frame
from fpga.link.host import LinkError
from fpga.selftest import selftest
from fpga.zynq.device import open_board
from runtime import SimulatedDevice, compile_for
from tests.support.board_model import BoardModel
from tests.support.machines import TINY, machine

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits-int8.onnx"
PLACE, SIZE = 3 << 16, 1 << 20      # of the buffer in the processor's memory


class Buffer(np.ndarray):
    """What the processor sees: its caches. `board` holds the memory behind them."""

    physical_address = PLACE
    board: BoardModel

    def flush(self) -> None:
        self.board.memory[PLACE:PLACE + self.size] = self

    def invalidate(self) -> None:
        self[:] = self.board.memory[PLACE:PLACE + self.size]


@pytest.fixture
def bitstream(tmp_path) -> Path:
    for name in ("lockstep.bit", "lockstep.hwh"):
        (tmp_path / name).touch()
    return tmp_path / "lockstep.bit"


@pytest.fixture
def board(monkeypatch) -> BoardModel:
    """The core behind the package."""
    board = BoardModel(TINY, PLACE + SIZE)
    board.set("memory_bytes", SIZE)

    def write(offset: int, value: int) -> None:
        board._answer(Frame(0, WRITE_REGISTER, pack("<II", offset // 4, value)))

    def allocate(shape, dtype):
        if shape[0] > SIZE:
            raise RuntimeError("Failed to allocate Memory!")
        buffer = np.full(shape, 0xEE, dtype).view(Buffer)
        buffer.board = board
        return buffer

    mmio = SimpleNamespace(read=lambda offset: board.words[offset // 4], write=write)
    pynq = ModuleType("pynq")
    pynq.Overlay = lambda path: SimpleNamespace(
        ip_dict={"lockstep_0": {}}, lockstep_0=SimpleNamespace(mmio=mmio))
    pynq.allocate = allocate
    monkeypatch.setitem(sys.modules, "pynq", pynq)
    return board


def test_digits(board, bitstream):
    """Logits are those of the simulator; nothing outside the buffer is touched."""
    board.memory[:PLACE] = 0xC3
    images = np.random.default_rng(0).random((3, 1, 1, 8, 8), np.float32)
    there = compile_for(DIGITS, open_board(TINY, bitstream))
    here = compile_for(DIGITS, SimulatedDevice(TINY, cycle.simulate))
    for image in images:
        assert np.array_equal(there({"image": image})["logits"], here({"image": image})["logits"])
    assert np.all(board.memory[:PLACE] == 0xC3)


@pytest.mark.slow
def test_figures_and_selftest_as_behind_a_line(board, bitstream, monkeypatch):
    """Nothing is repeated or dropped here, and that is said."""
    monkeypatch.setattr("fpga.selftest.LINK_ROUNDS", 2)
    device = open_board(TINY, bitstream)
    module = compile_for(DIGITS, device)
    _, figures = infer(module, device, [{"image": np.zeros((1, 1, 8, 8), np.float32)}])
    assert figures["link"] == {"repeated": 0, "dropped": 0, "faults": ""}
    assert figures["cycles"] > 1000
    report = selftest(device, 1)
    assert report.ok and report.programs and (report.repeated, report.dropped) == (0, 0)


def test_a_board_of_another_machine(board, bitstream):
    with pytest.raises(BoardRefused, match="holds machine"):
        open_board(machine("2x8x8"), bitstream)


def test_memory_that_is_not_there(board, bitstream):
    board.set("memory_bytes", 2 * SIZE)
    device = open_board(TINY, bitstream)
    with pytest.raises(LinkError, match=f"has no {2 * SIZE} bytes of memory in one piece"):
        device.copy_in(0, np.zeros(64, np.uint8))


def test_a_bitstream_that_is_not_there(board, tmp_path):
    with pytest.raises(LinkError, match=r"x\.bit is not there; make it as docs/fpga\.md says"):
        open_board(TINY, tmp_path / "x.bit")


def test_a_bitstream_of_something_else(board, bitstream, monkeypatch):
    monkeypatch.setattr(sys.modules["pynq"], "Overlay", lambda path: SimpleNamespace(ip_dict={}))
    with pytest.raises(LinkError, match="has no lockstep_0; make it"):
        open_board(TINY, bitstream)


def test_without_pynq(bitstream, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynq", None)
    with pytest.raises(LinkError, match="^Package pynq must be there: run this on a board"):
        open_board(TINY, bitstream)
