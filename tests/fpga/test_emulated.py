"""The unmodified driver on a whole board in Verilator, with faults and without."""

import os
import time
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from accel.machine.program import AccelProgram, finish
from accel.sim.timed import cycle
from fpga.boards import BlockRam
from fpga.device import BoardDevice, BoardRefused
from fpga.emulation import emulated
from fpga.emulation.emulated import EmulatedBoard
from fpga.link.frames import READ, Frame, framed
from fpga.link.host import HostLink, LinkError
from fpga.link.serial_port import SerialLine
from fpga.boards.sdram import ULX3S
from runtime import SimulatedDevice, compile_for
from tests.support.machines import TINY, machine

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"


def opened(board: EmulatedBoard, one=TINY) -> BoardDevice:
    return BoardDevice(one, HostLink(SerialLine(board.port, board.baud)))


@pytest.mark.slow
@pytest.mark.parametrize("spoil, tireless", [(0.0, True), (1e-3, False)])
def test_digits(spoil, tireless):
    """Outputs are those of the simulator, whatever the line loses, and no rule of the memory chip
    is broken.
    """
    images = np.random.default_rng(0).random((1 if spoil else 3, 1, 1, 8, 8), np.float32)
    here = compile_for(DIGITS, SimulatedDevice(TINY, cycle.simulate))
    with EmulatedBoard(TINY, spoil=spoil, seed=1, tireless=tireless) as board:
        device = opened(board)
        there = compile_for(DIGITS, device)
        for image in images:
            got, wanted = there({"image": image}), here({"image": image})
            assert np.array_equal(got["logits"], wanted["logits"])
        assert not board.broken_rules
        assert bool(board.spoiled) == bool(device.link.repeated) == bool(spoil)


@pytest.mark.parametrize("tireless", [pytest.param(False, marks=pytest.mark.slow), True])
def test_counters_add_up(tireless):
    """Whether the core is simulated all the time, or while it has something to do."""
    program = AccelProgram.assemble(TINY, [finish()])
    with EmulatedBoard(TINY, tireless=tireless) as board:
        device = opened(board)
        device.copy_in(device.allocate(program.memory_bytes), program.image())
        device.launch(program, 0)
        run = device.wait()
    assert run.ok and run.counters.bytes == {"fetch": 64, "load": 0, "store": 0}
    assert all(sum(unit.values()) == run.cycles > 0 for unit in run.counters.activity.values())


@pytest.mark.slow
def test_a_host_that_does_not_read():
    """What it was sent waits, as long as it likes; the board can be left all the same."""
    board = EmulatedBoard(TINY).__enter__()
    line = os.open(board.port, os.O_RDWR | os.O_NOCTTY)
    for number in range(100):                   # 26 kB of answers
        os.write(line, framed(Frame(number, READ, bytes(4) + b"\xff")))
        time.sleep(0.02)
    begun = board.cycles
    time.sleep(0.2)
    goes_on = board.cycles > begun
    leaving = Thread(target=board.__exit__, args=(None, None, None), daemon=True)
    leaving.start()
    leaving.join(20)
    os.close(line)
    assert goes_on and not leaving.is_alive()


@pytest.mark.slow
def test_a_reset_in_the_middle_of_a_run():
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    with EmulatedBoard(TINY, reset_within=5000) as board:
        device = opened(board)
        module = compile_for(DIGITS, device)
        with pytest.raises(LinkError, match="was reset in the middle of a run"):
            module({"image": image})
        again = compile_for(DIGITS, device)
        wanted = compile_for(DIGITS, SimulatedDevice(TINY, cycle.simulate))({"image": image})
        assert np.array_equal(again({"image": image})["logits"], wanted["logits"])


def test_a_memory_that_is_stuck_is_noticed():
    with EmulatedBoard(TINY) as board:
        device = opened(board)
        device.copy_in(0, np.arange(128, dtype=np.uint8))
        board.stick()
        assert not np.array_equal(device.copy_out(0, 128), np.arange(128))
        board.stick(False)
        assert np.array_equal(device.copy_out(0, 128), np.arange(128))


def test_a_board_of_another_machine():
    with EmulatedBoard(TINY) as board, pytest.raises(BoardRefused, match="holds machine"):
        opened(board, machine("2x8x8"))


def test_a_port_that_is_not_there():
    with pytest.raises(LinkError, match="cannot be opened"):
        SerialLine("/dev/no-such-port", 115_200)


def test_verilog_is_emitted_once(monkeypatch, tmp_path):
    """Each machine, memory and clock has a text of its own, which is kept."""
    calls = []
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))
    monkeypatch.setattr(emulated, "EmulatedGateware", lambda *_: None)
    monkeypatch.setattr(emulated.verilog, "convert",
                        lambda *_, **options: calls.append(options) or f"text {len(calls)}\n")
    first = emulated._emitted(TINY, ULX3S, 80_000_000)
    assert emulated._emitted(TINY, ULX3S, 80_000_000) == first
    others = [(TINY, ULX3S, 40_000_000), (TINY, BlockRam(65536), 80_000_000),
              (machine("2x8x8"), ULX3S, 80_000_000)]
    assert len({first, *(emulated._emitted(*other) for other in others)}) == len(calls) == 4
