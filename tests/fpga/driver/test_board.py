"""The driver that all networks share: registers, layouts, refusals."""

import ctypes
import re
import subprocess
from collections.abc import Iterator
from math import prod

import numpy as np
import pytest

from accel.machine.program import TensorSlot
from accel.machine.status import Status
from accel.mapping.memory.layout import (BLOCKED, BLOCKED_LAST, BLOCKED_ROWS, PLAIN, PLAIN_ROWS,
                                         from_memory, to_memory)
from fpga.driver.board import board_files
from fpga.driver.tables import tensor_table
from fpga.link.registers import ADDRESSES, MAGIC, VERSION, WORDS
from tests.support.axi_board import WARNINGS
from tests.support.c_driver import LINE, PythonBoard, Tensor, shared_library
from tests.support.machines import TINY, machine

HASH = (ctypes.c_uint32 * 8)(*(int(TINY.hash, 16) >> 32 * word & 0xFFFFFFFF for word in range(8)))
STATUS = {name: int(number) for name, number in re.findall(
    r"LOCKSTEP_(\w+) = (\d+),? +/\*", board_files()["lockstep_board.h"])
    if not name.startswith("REGISTER")}


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> ctypes.CDLL:
    return shared_library(tmp_path_factory.mktemp("driver"))


def opened(driver: ctypes.CDLL, board: PythonBoard, size_bytes: int = 4 * LINE) -> int:
    return driver.lockstep_board_open(ctypes.byref(board.struct), HASH,
                                      ctypes.c_uint64(size_bytes))


def test_registers_of_the_header():
    header = board_files()["lockstep_board.h"]
    found = {name.lower(): int(at) for name, at in re.findall(r"LOCKSTEP_REGISTER_(\w+) = (\d+)",
                                                               header)}
    assert found.pop("words") == WORDS and found == ADDRESSES
    assert f"LOCKSTEP_MAGIC {MAGIC:#x}u" in header and f"VERSION {VERSION}\n" in header
    ends = {name: int(code) for name, code in re.findall(r"LOCKSTEP_RUN_(\w+) = (\d+)", header)}
    assert ends == {status.name: status for status in Status if status.name in ends}
    assert Status.DONE in ends.values() and Status.DEADLOCK in ends.values()


def test_code_needs_memcpy_alone_and_the_header_serves_cpp(tmp_path):
    for name, text in board_files().items():
        (tmp_path / name).write_text(text)
    subprocess.run(["gcc", *WARNINGS, "-Wcast-qual", "-Wshadow", "-Wconversion",
                    "-Wno-sign-conversion", "-ffreestanding", "-O2", "-c", "lockstep_board.c"],
                   cwd=tmp_path, check=True)
    missing = subprocess.run(["nm", "-u", "lockstep_board.o"], cwd=tmp_path, text=True, check=True,
                             capture_output=True).stdout.split()
    assert set(missing) <= {"U", "memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_"}
    (tmp_path / "use.cpp").write_text('#include "lockstep_board.h"\nlockstep_board board;\n')
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "use.cpp"],
                   cwd=tmp_path, check=True)


def slots(rng: np.random.Generator) -> Iterator[TensorSlot]:
    """A slot of random extents in each layout, of elements of one byte and of two."""
    for layout in (PLAIN, PLAIN_ROWS, BLOCKED, BLOCKED_LAST, BLOCKED_ROWS):
        for dtype in ("int8", "int16"):
            n, c, h, w, batch = rng.integers(1, 6, 5).tolist()
            padded, groups = c + int(rng.integers(0, 5)), -(-n // batch)
            rows = -(-n * h // batch)
            yield {
                PLAIN: TensorSlot("x", "io", 0, (n, h, w, c), dtype, layout, (n, c, h, w)),
                PLAIN_ROWS: TensorSlot("x", "io", 0, (n * h, 1, 1, c), dtype, layout, (n, h, c)),
                BLOCKED: TensorSlot("x", "io", 0, (groups, h, w, batch, padded), dtype, layout,
                                    (n, c, h, w)),
                BLOCKED_LAST: TensorSlot("x", "io", 0, (groups, h, w, batch, padded), dtype, layout,
                                         (n, h, w, c)),
                BLOCKED_ROWS: TensorSlot("x", "io", 0, (rows, 1, 1, batch, padded), dtype, layout,
                                         (n, h, c))}[layout]
    yield TensorSlot("x", "io", 0, (2, 3, 2, 2, 5), "int8", BLOCKED, (3, 24))      # flattened
    yield TensorSlot("x", "io", 0, (1, 1, 1, 7), "int8", PLAIN, (1, 7))
    yield TensorSlot("x", "io", 0, (1, 1, 1, 7), "int8", PLAIN_ROWS)


@pytest.mark.parametrize("seed", range(8))
def test_layouts_are_those_of_the_compiler(driver, seed):
    """What is copied in and out is what `to_memory` and `from_memory` make; no other byte of the
    network, and none of the memory but the tensor's, is written.
    """
    rng = np.random.default_rng(seed)
    for slot in slots(rng):
        board, offset = PythonBoard(TINY, 1 << 14), int(rng.integers(0, 200))
        table = tensor_table(slot, offset)
        tensor = Tensor(*(int(getattr(table, name)) for name in table.__slots__))
        logical = slot.logical or slot.shape
        item = slot.numpy_dtype.itemsize
        end = offset + slot.size_bytes
        board.behind[:] = rng.integers(0, 256, board.behind.size)
        stored = board.behind[offset:end].copy().view(slot.numpy_dtype).reshape(slot.shape)
        values = np.zeros(prod(logical) * item + 1, np.uint8)
        values[-1] = 0xA5
        driver.lockstep_board_get(ctypes.byref(board.struct), ctypes.byref(tensor),
                                  values.ctypes.data_as(ctypes.c_void_p))
        made = values[:-1].view(slot.numpy_dtype).reshape(logical)
        np.testing.assert_array_equal(made, from_memory(stored, slot.layout, logical), str(slot))
        assert values[-1] == 0xA5
        if slot.layout not in (PLAIN, PLAIN_ROWS):
            continue
        given, before = made[..., ::-1].copy(), board.seen.copy()
        driver.lockstep_board_put(ctypes.byref(board.struct), ctypes.byref(tensor),
                                  given.ctypes.data_as(ctypes.c_void_p))
        wanted = to_memory(given, slot.layout).reshape(-1).view(np.uint8)
        np.testing.assert_array_equal(board.behind[offset:end], wanted, str(slot))
        before[offset:end] = wanted
        np.testing.assert_array_equal(board.seen, before)
        first, last = offset // LINE * LINE, -(-end // LINE) * LINE
        assert board.calls == [("invalidate", first, last - first), ("clean", first, last - first)]
        assert not board.errors


def test_a_board_of_the_machine_is_opened(driver):
    board = PythonBoard(TINY, 4 * LINE)
    assert opened(driver, board) == 0 and not board.calls


@pytest.mark.parametrize("member, value, status", [
    ("registers", None, "BAD_BOARD"), ("memory", None, "BAD_BOARD"), ("polls", 0, "BAD_BOARD"),
    ("address", (1 << 16) + 32, "BAD_MEMORY"), ("address", (1 << 32) - 3 * LINE, "BAD_MEMORY"),
    ("address", 1 << 32, "BAD_MEMORY"), ("address", (1 << 64) - 4 * LINE, "BAD_MEMORY")])
def test_a_wrong_description(driver, member, value, status):
    board = PythonBoard(TINY, 4 * LINE)
    setattr(board.struct, member, value)
    assert opened(driver, board) == STATUS[status]


def test_memory_up_to_the_end(driver):
    board = PythonBoard(TINY, 4 * LINE)
    board.struct.address = (1 << 32) - 4 * LINE
    assert opened(driver, board) == 0
    board.struct.memory += 1
    assert opened(driver, board) == STATUS["BAD_MEMORY"]


@pytest.mark.parametrize("register, status", [
    ("magic", "NO_ACCELERATOR"), ("version", "OTHER_REGISTERS"), ("machine", "OTHER_MACHINE"),
    ("run", "BUSY")])
def test_a_wrong_board(driver, register, status):
    board = PythonBoard(TINY, 4 * LINE)
    board.registers[ADDRESSES[register]] += 1
    assert opened(driver, board) == STATUS[status]


def test_every_word_of_the_hash_counts(driver):
    for word in range(8):
        board = PythonBoard(TINY, 4 * LINE)
        board.registers[ADDRESSES["machine"] + word] ^= 1 << 31
        assert opened(driver, board) == STATUS["OTHER_MACHINE"]
    assert opened(driver, PythonBoard(machine("2x8x8"), 4 * LINE)) == STATUS["OTHER_MACHINE"]
