"""Waveforms of a layer, written by the RTL and read by others."""

import zlib
from ctypes import CDLL, c_char_p, c_int, create_string_buffer
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel.sim.rtl import verilated
from accel.sim.rtl.waves import Waves
from compiler.native import compile_shared
from fpga.verilog.bench import program
from tests.support.machines import TINY

HEADERS = Path(verilated.__file__).parent / "fst"

LAYERS = (("first", 20), ("middle", 30), ("last", 40))


def test_the_instructions_of_a_layer():
    whole = replace(program(TINY).program, layers=(*LAYERS, ("nothing", 40)))
    found = [Waves(name, Path("w")).instructions(whole)
             for name in ("first", "middle", "last", "nothing", "other")]
    assert found == [(0, 20), (20, 30), (30, 40), None, None]


@pytest.fixture(scope="module")
def packers(tmp_path_factory):
    """The two functions of our headers, by name; each gives the packed bytes."""
    folder = tmp_path_factory.mktemp("packers")
    (folder / "packers.cpp").write_text("""
        #include "lz4.h"
        #include "zlib.h"
        extern "C" int lz4(const char *from, int size, char *to) {
            return LZ4_compress_default(from, to, size, LZ4_compressBound(size));
        }
        extern "C" int zlib(const char *from, int size, char *to) {
            uLongf room = compressBound(size);
            compress2((Bytef *)to, &room, (const Bytef *)from, size, 9);
            return int(room);
        }
        extern "C" int room(int size) {
            return std::max<int>(LZ4_compressBound(size), compressBound(size));
        }
    """)
    compile_shared({folder / "packers.cpp": ("-O0",)}, folder / "packers.so", [f"-I{HEADERS}"], [])
    library = CDLL(str(folder / "packers.so"))

    def packed(name: str, data: bytes) -> bytes:
        function = library[name]
        function.restype, function.argtypes = c_int, [c_char_p, c_int, c_char_p]
        out = create_string_buffer(library.room(len(data)) + 1)
        out[-1] = b"\x55"
        size = function(data, len(data), out)
        assert size < len(out) and out[-1] == b"\x55"
        return out.raw[:size]

    return packed


def unpacked(block: bytes) -> bytes:
    """An LZ4 block, by its format: a token, literals, a distance, a match."""
    out, at = bytearray(), 0

    def length(start: int) -> int:
        nonlocal at
        if start == 15:
            while (more := block[at]) == 255:
                start, at = start + 255, at + 1
            start, at = start + more, at + 1
        return start

    while True:
        token, at = block[at], at + 1
        literals = length(token >> 4)
        out += block[at:at + literals]
        at += literals
        if at == len(block):
            return bytes(out)
        distance, at = block[at] | block[at + 1] << 8, at + 2
        assert 0 < distance <= len(out)
        for _ in range(length(token & 15) + 4):
            out.append(out[-distance])


RANDOM = np.random.default_rng(0)
DATA = [b"", b"x", b"abcd" * 3, b"a" * 12, b"a" * 13, b"a" * 1000, RANDOM.bytes(5000),
        bytes(70_000) + RANDOM.bytes(300) + bytes(300),
        RANDOM.integers(0, 3, 100_000, np.uint8).tobytes()]


@pytest.mark.parametrize("number", range(len(DATA)))
def test_packed_bytes_are_what_others_unpack(packers, number):
    data = DATA[number]
    assert unpacked(packers("lz4", data)) == data
    assert zlib.decompress(packers("zlib", data)) == data


def test_what_repeats_is_packed(packers):
    assert len(packers("lz4", b"abcdefgh" * 1000)) < 100


@pytest.mark.slow
def test_all_signals_while_a_layer_runs(tmp_path):
    pylibfst = pytest.importorskip("pylibfst")
    case, file = program(TINY), tmp_path / "w.fst"
    whole = replace(case.program, layers=LAYERS)
    plain = verilated.simulate(TINY, whole, case.memory)
    run = verilated.simulate(TINY, whole, case.memory, waves=Waves("middle", file))
    assert run.cycles == plain.cycles and np.array_equal(run.memory, plain.memory)
    assert np.array_equal([run.start, run.retire], [plain.start, plain.retire])
    reader = pylibfst.lib.fstReaderOpen(str(file).encode())
    begin, end = run.start[20:30].min(), run.retire[20:30].max()
    assert pylibfst.lib.fstReaderGetStartTime(reader) == 10 * begin
    assert pylibfst.lib.fstReaderGetEndTime(reader) == 10 * end + 5
    _, signals = pylibfst.get_scopes_signals2(reader)
    assert len(signals.by_name) > 1000
    index = signals.by_name["core.vector_retired_index [25:0]"]
    buffer = pylibfst.ffi.new("char[256]")
    for number in range(20, 30):
        if whole.instruction(TINY, number).unit == "vector":
            value = pylibfst.lib.fstReaderGetValueFromHandleAtTime(
                reader, 10 * int(run.retire[number]), index.handle, buffer)
            assert int(pylibfst.ffi.string(value), 2) == number
    pylibfst.lib.fstReaderClose(reader)
