# amaranth: UnusedElaboratable=no
"""Block RAM behind the memory port, in both forms of its parts."""

from itertools import product

import pytest
from amaranth.back import rtlil

from accel.hw.parts import ECP5
from fpga.gateware import block_memory
from fpga.gateware.block_memory import BlockMemory
from tests.support.machines import TINY, machine
from tests.support.memory_port import agree, requests_of, transfer

SPACE = 4 << 12


@pytest.mark.one_in(5)
@pytest.mark.parametrize("config, eager, banks", [*product(
    (TINY.config, machine("2x8x8").config), (1.0, 0.4), (1, 4))])
def test_random_requests(config, eager, banks, monkeypatch):
    monkeypatch.setattr(block_memory, "BANK_ROWS", SPACE // config.bus_bytes // banks)
    requests, expected = requests_of(config, 150, seed=2, space=SPACE)
    dut = BlockMemory(config, SPACE)
    read, acks, _ = transfer(dut, dut.mem, requests, eager=eager)
    assert not any(acks)
    agree(read, expected)


def test_a_beat_a_cycle():
    config = TINY.config
    requests = [(False, 64 * number, 16, [], []) for number in range(32)]
    dut, one = BlockMemory(config, SPACE), BlockMemory(config, SPACE)
    cycles = transfer(dut, dut.mem, requests)[2] - transfer(one, one.mem, requests[:1])[2]
    assert cycles == 31 * 16


def test_beyond_the_memory_there_are_errors():
    requests = [(True, 0, 1, [0x01020304], [15]), (False, SPACE, 2, [], []),
                (False, 0, 1, [], []), (True, SPACE, 2, [1, 2], [15, 15]), (False, 0, 1, [], [])]
    dut = BlockMemory(TINY.config, SPACE)
    read, acks, _ = transfer(dut, dut.mem, requests)
    assert acks == [0, 1]
    assert [error for _, error in read] == [1, 1, 0, 0]
    assert read[2][0] == read[3][0] == 0x01020304


@pytest.mark.slow
def test_it_is_made_of_block_rams():
    text = rtlil.convert(BlockMemory(TINY.config, 128 << 10), name="top", platform=ECP5())
    assert text.count("cell \\DP16KD ") == 64       # 16 Kibit each, in two banks
    assert text.count("cell \\top.bank") == 2


@pytest.mark.parametrize("size", [0, 8, 96])
def test_size_wrong(size):
    with pytest.raises(ValueError, match=f"a power of two of at least 16 bytes, not {size}$"):
        BlockMemory(TINY.config, size)
