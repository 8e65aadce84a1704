"""The driver against a board in Python, over lines with and without faults."""

import os
from pathlib import Path

import numpy as np
import pytest

from accel.machine.program import AccelProgram, Instruction, ProgramError, finish
from accel.machine.status import Status
from accel.sim.timed import cycle
from fpga.device import BoardDevice, BoardRefused, held_machine
from fpga.link.host import HostLink, LinkError
from fpga.link.registers import ADDRESSES, VERSION
from runtime import SimulatedDevice, compile_for
from tests.support.board_model import BoardModel, faulty
from tests.support.machines import TINY, machine

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"


def opened(board: BoardModel, **options) -> BoardDevice:
    return BoardDevice(board.machine, HostLink(board, clock=board.clock), **options)


def loaded() -> tuple[BoardModel, BoardDevice, AccelProgram]:
    """A board with a program at address 0."""
    board = BoardModel(TINY, 4096)
    device = opened(board)
    program = AccelProgram.assemble(TINY, [finish()])
    device.copy_in(device.allocate(program.memory_bytes), program.image())
    return board, device, program


@pytest.mark.parametrize("share", [0.0, 1e-3, 1e-2])
def test_digits(share):
    """All outputs, cycles and counters as simulated, whatever the line loses."""
    board = BoardModel(TINY, 1 << 20, faulty(1, share) if share else lambda data: data)
    device = opened(board)
    images = np.random.default_rng(0).random((3, 1, 1, 8, 8), np.float32)
    there = compile_for(DIGITS, device)
    here = compile_for(DIGITS, SimulatedDevice(TINY, cycle.simulate))
    for image in images:
        got, wanted = there({"image": image}), here({"image": image})
        assert np.array_equal(got["logits"], wanted["logits"])
    assert (device.link.repeated > 0) == (share > 0)


def test_a_run_is_told_as_a_simulator_does():
    program = AccelProgram.assemble(TINY, [finish()])
    device = opened(BoardModel(TINY, 4096))
    address = device.allocate(program.memory_bytes)
    device.copy_in(address, program.image())
    device.launch(program, address)
    run, wanted = device.wait(), cycle.simulate(TINY, program)
    assert (run.status, run.unit, run.index, run.cycles, run.counters) == (
        wanted.status, wanted.unit, wanted.index, wanted.cycles, wanted.counters)


def test_a_deadlock_names_who_waits():
    program = AccelProgram.assemble(TINY, [Instruction("gemm", "gemm", {"waits": 1}), finish()])
    device = opened(BoardModel(TINY, 4096))
    device.copy_in(device.allocate(program.memory_bytes), program.image())
    device.launch(program, 0)
    run, wanted = device.wait(), cycle.simulate(TINY, program)
    assert run.status == wanted.status == Status.DEADLOCK
    assert run.waiting == wanted.waiting == {"gemm": 0}


def test_bytes_beside_others_are_left_alone():
    board = BoardModel(TINY, 4096)
    device = opened(board)
    rng, model = np.random.default_rng(0), np.zeros(1024, np.uint8)
    for _ in range(50):
        begin = int(rng.integers(1024))
        data = rng.integers(0, 256, int(rng.integers(0, 1025 - begin)), np.uint8)
        model[begin:begin + data.size] = data
        device.copy_in(begin, data)
        at = int(rng.integers(1024))
        size = int(rng.integers(0, 1025 - at))
        assert np.array_equal(device.copy_out(at, size), model[at:at + size])
    assert np.array_equal(board.memory[:1024], model)


@pytest.mark.parametrize("register, value, text", [
    ("magic", 5, "is no accelerator: magic number 0x00000005"),
    ("version", 9, f"registers of version 9, not {VERSION}"),
    ("machine", 1 << 255, "holds machine 800000000000 and no record of it; build its bitstream"),
])
def test_a_board_that_is_something_else(register, value, text):
    board = BoardModel(TINY, 4096)
    board.set(register, value)
    with pytest.raises(BoardRefused, match=text):
        opened(board)


def test_a_board_without_a_record():
    board = BoardModel(TINY, 4096)
    assert held_machine(HostLink(board)) == TINY.record
    board.set("record", 1 << 255)
    with pytest.raises(BoardRefused, match=f"holds machine {TINY.hash[:12]} and no record of it"):
        held_machine(HostLink(board))


def test_a_program_of_another_machine():
    with pytest.raises(ProgramError, match=r"compiled for machine \w{12} \(2x8x8\), not .*: "
                                           "batch is 2, not 1, block_in is 8, not 4"):
        opened(BoardModel(TINY, 4096)).launch(
            AccelProgram.assemble(machine("2x8x8"), [finish()]), 0)


def test_too_little_memory():
    with pytest.raises(BoardRefused, match="has 4096 bytes of memory, not the 4160"):
        opened(BoardModel(TINY, 4096)).allocate(4097)


def test_a_board_that_says_nothing():
    board = BoardModel(TINY, 4096, lambda data: b"")
    with pytest.raises(LinkError, match="Board at a model does not answer"):
        opened(board)
    assert 3 <= board.now < 3.1


def test_a_reset_in_the_middle_of_a_run():
    board, device, program = loaded()
    device.launch(program, 0)
    board.reset()
    with pytest.raises(LinkError, match="was reset in the middle of a run"):
        device.wait()
    device.launch(program, 0)
    assert device.wait().ok


def test_a_reset_before_a_run():
    """A reset leaves nothing of what was loaded, so the run is refused."""
    board, device, program = loaded()
    device.launch(program, 0)
    assert device.wait().ok
    board.reset()
    with pytest.raises(LinkError, match="was reset before a run; load the network again"):
        device.launch(program, 0)
    device.launch(program, 0)
    assert device.wait().ok


@pytest.mark.parametrize("register, when", [("base_io", "before a run"),
                                            ("run", "in the middle of a run")])
def test_a_reset_between_the_registers_of_a_run(monkeypatch, register, when):
    """The first run, too, whose number says nothing."""
    board, device, program = loaded()
    link, write = device.link, device.link.set_register

    def set_register(address, value):
        if address == ADDRESSES[register]:
            board.reset()
        write(address, value)

    monkeypatch.setattr(link, "set_register", set_register)
    with pytest.raises(LinkError, match=f"was reset {when}; load the network again"):
        device.launch(program, 0)
        device.wait()


def test_a_run_that_does_not_end():
    board = BoardModel(TINY, 4096)
    device = opened(board, run_seconds=0.02)
    program = AccelProgram.assemble(TINY, [finish()])
    device.launch(program, 0)
    board.set("done", 0)
    with pytest.raises(LinkError, match="has not ended its run"):
        device.wait()


def test_a_start_that_arrives_twice_is_one_run():
    board, device, program = loaded()
    device.launch(program, 0)
    board.set("done", 0)
    device.link.set_register(ADDRESSES["run"], board.words[ADDRESSES["run"]])
    assert board.words[ADDRESSES["done"]] == 0


def test_the_board_of_a_parent_wrong(monkeypatch):
    _, device, _ = loaded()
    mine = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: mine + 1)
    with pytest.raises(BoardRefused, match=f"^Board at .* is in use by process {mine}, from which "
                                           "this one was forked; open it after the fork$"):
        _ = device.exclusive
