"""The memory model by itself, driven cycle by cycle through a small C++ wrapper."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from accel.machine.config import preset
from accel.machine.dram import Dram, DramError
from accel.sim import dram
from accel.sim.dram import DramTiming
from compiler.native import compile_shared

WRAPPER = """
#include "dram.h"
using namespace lockstep;
extern "C" {
Dram *make(uint8_t *memory, uint64_t size, const DramTiming *timing) {
    return new Dram(memory, size, *timing);
}
uint64_t next_offer(Dram *dram, uint64_t now) { return dram->next_offer(now, true); }
void offer(Dram *dram, uint64_t now, int wdata, int *flags, uint8_t *data, int bus) {
    DramOffer o = dram->offer(now, wdata);
    int all[] = {o.request_ready, o.wdata_ready, o.read_valid, o.read_error, o.ack_valid,
                 o.ack_error};
    for (int i = 0; i < 6; i++) flags[i] = all[i];
    if (o.read_data) std::memcpy(data, o.read_data, bus);
}
void edge(Dram *dram, uint64_t now, int request, int wdata, int read, uint32_t addr,
          uint32_t beats, int write, const uint8_t *data, uint64_t mask) {
    dram->edge(now, {!!request, !!wdata, !!read, addr, beats, !!write, data, mask});
}
uint32_t in_flight(Dram *dram) { return dram->in_flight(); }
int violated(Dram *dram) { return dram->violated(); }
void drop(Dram *dram) { delete dram; }
}
"""

CONFIG = preset("tiny-1x4x4")
BUS, SIZE = CONFIG.bus_bytes, 256


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("dram")
    (folder / "wrapper.cpp").write_text(WRAPPER)
    compile_shared({folder / "wrapper.cpp": ["-O0"]}, folder / "dram.so",
                   [f"-I{Path(dram.__file__).parent}"])
    loaded = ctypes.CDLL(str(folder / "dram.so"))
    loaded.make.restype = ctypes.c_void_p
    loaded.make.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(DramTiming)]
    loaded.next_offer.restype = ctypes.c_uint64
    loaded.next_offer.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    loaded.offer.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, *[ctypes.c_void_p] * 2,
                             ctypes.c_int]
    loaded.edge.argtypes = [ctypes.c_void_p, ctypes.c_uint64, *[ctypes.c_int] * 3,
                            *[ctypes.c_uint32] * 2, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64]
    for name in ("in_flight", "violated", "drop"):
        getattr(loaded, name).argtypes = [ctypes.c_void_p]
    return loaded


class Bench:
    """A master that offers everything it has as early as it can, and notes when it went."""

    def __init__(self, library, latency=10, outstanding=64, seed=0, **options):
        self.library = library
        self.memory = np.arange(SIZE, dtype=np.uint8)
        timing = dram.timing(Dram(latency, outstanding, seed, **options), CONFIG)
        self.dram = library.make(self.memory.ctypes.data, SIZE, ctypes.byref(timing))
        self.log: list[tuple] = []
        self.now = 0

    def run(self, requests, wdata=(), cycles=100, read_ready=lambda now: True):
        """`requests`: (addr, beats, write); `wdata`: (bytes, mask)."""
        requests, wdata = list(requests), list(wdata)
        flags, data = np.zeros(6, np.int32), np.zeros(BUS, np.uint8)
        for now in range(self.now, self.now + cycles):
            self.library.offer(self.dram, now, bool(wdata), flags.ctypes.data, data.ctypes.data,
                               BUS)
            ready, wready, rvalid, rerror, avalid, aerror = map(bool, flags)
            request = requests.pop(0) if ready and requests else None
            word = wdata.pop(0) if wready and wdata else None
            taken = rvalid and read_ready(now)
            if request:
                self.log.append((now, "request", request[0]))
            if word:
                self.log.append((now, "write", word[0]))
            if taken:
                self.log.append((now, "read", "error" if rerror else bytes(data)))
            elif rvalid:
                self.log.append((now, "held"))
            if avalid:
                self.log.append((now, "ack", aerror))
            addr, beats, write = request or (0, 0, False)
            body, mask = word or (b"", 0)
            self.library.edge(self.dram, now, bool(request), bool(word), taken, addr, beats, write,
                              body, mask)
        self.now += cycles
        return self.log

    @property
    def in_flight(self) -> int:
        return self.library.in_flight(self.dram)

    @property
    def violated(self) -> bool:
        return bool(self.library.violated(self.dram))


@pytest.fixture
def bench(library):
    """A function that makes a `Bench`."""
    made: list[Bench] = []

    def make(**timing):
        made.append(Bench(library, **timing))
        return made[-1]

    yield make
    for one in made:
        library.drop(one.dram)


def read(addr, beats=1):
    return addr, beats, False


def write(addr, beats=1):
    return addr, beats, True


def test_first_beat_comes_after_the_latency(bench):
    log = bench().run([read(8, 3)])
    assert log == [(0, "request", 8), (11, "read", bytes([8, 9, 10, 11])),
                   (12, "read", bytes([12, 13, 14, 15])), (13, "read", bytes([16, 17, 18, 19]))]


def test_bursts_follow_without_a_gap(bench):
    log = bench().run([read(0, 4), read(64, 2), read(128)])
    assert [entry[0] for entry in log if entry[1] == "request"] == [0, 1, 2]
    assert [entry[0] for entry in log if entry[1] == "read"] == list(range(11, 18))


def test_no_latency(bench):
    assert [e[0] for e in bench(latency=0).run([read(0), read(4)])] == [0, 1, 1, 2]


def test_write_is_acknowledged_after_its_last_beat(bench):
    one = bench()
    log = one.run([write(16, 2)], [(b"abcd", 0b1111), (b"efgh", 0b0101)])
    assert log == [(0, "request", 16), (1, "write", b"abcd"), (2, "write", b"efgh"),
                   (13, "ack", False)]
    assert bytes(one.memory[16:24]) == b"abcde" + bytes([21]) + b"g" + bytes([23])


def test_a_write_is_seen_by_a_read_accepted_later(bench):
    one = bench(latency=0)
    one.run([write(16)], [(b"abcd", 15)], cycles=3)
    assert one.run([read(16)])[-1][2] == b"abcd"


def test_only_so_many_bursts_are_in_flight(bench):
    log = bench(outstanding=2).run([read(0), read(4), read(8), read(12)])
    assert [e[0] for e in log if e[1] == "request"] == [0, 1, 12, 13]


def test_reads_and_writes_take_turns_on_the_bus(bench):
    one = bench(latency=0)
    log = one.run([read(0, 4), write(64, 4)], [(b"abcd", 15)] * 4, cycles=20)
    beats = [(e[0], e[1]) for e in log if e[1] in ("read", "write")]
    assert [cycle for cycle, _ in beats] == list(range(1, 9))
    assert [kind for _, kind in beats] == ["read", "write"] * 4


def test_an_offered_beat_stays_until_it_is_taken(bench):
    log = bench(latency=0).run([read(0), write(64)], [(b"abcd", 15)],
                               read_ready=lambda now: now >= 5)
    assert log == [(0, "request", 0), (1, "request", 64), *[(now, "held") for now in range(1, 5)],
                   (5, "read", bytes([0, 1, 2, 3])), (6, "write", b"abcd"), (7, "ack", False)]


@pytest.mark.parametrize("addr", [SIZE - 4, SIZE, 1 << 31])
def test_outside_the_memory_is_an_error_in_every_beat(bench, addr):
    one = bench()
    before = one.memory.copy()
    log = one.run([read(addr, 2), write(addr, 2)], [(b"abcd", 15)] * 2)
    assert [e[2] for e in log if e[1] == "read"] == ["error", "error"]
    assert [e[2] for e in log if e[1] == "ack"] == [True]
    np.testing.assert_array_equal(one.memory, before)


def test_stalls_are_a_function_of_the_seed(bench):
    requests = [read(4 * k) for k in range(30)]
    plain, first, again, other = (bench(seed=seed).run(requests, cycles=600)
                              for seed in (0, 1, 1, 2))
    assert first == again and first != other
    assert first[-1][0] > plain[-1][0]
    assert [e[2] for e in first if e[1] == "read"] == [e[2] for e in plain if e[1] == "read"]


@pytest.mark.parametrize(("request_", "wrong"), [
    (read(60, 1), False), (read(60, 2), True), (read(2), True), (read(0, 16), False),
    (read(0, 17), True)], ids=["end of block", "across", "unaligned", "whole block", "too long"])
def test_requests_that_break_the_rules_are_noticed(bench, request_, wrong):
    one = bench()
    one.run([request_], cycles=5)
    assert one.violated == wrong


def test_nothing_is_in_flight_at_the_end(bench):
    one = bench(seed=9)
    one.run([read(0), write(4), read(8)], [(b"abcd", 15)], cycles=5)
    assert one.in_flight > 0
    one.run([], cycles=300)
    assert one.in_flight == 0


def cycles_of(log, kind):
    return [entry[0] for entry in log if entry[1] == kind]


@pytest.mark.parametrize(("rate", "expected"), [
    (4, list(range(1, 13))), (3, [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15]),
    (2, list(range(1, 25, 2))), (0.5, list(range(1, 90, 8)))])
def test_beats_come_at_the_rate_of_the_bus(bench, rate, expected):
    log = bench(latency=0, bytes_per_cycle=rate).run([read(0, 12)])
    assert cycles_of(log, "read") == expected


def test_time_without_beats_is_no_credit(bench):
    one = bench(latency=0, bytes_per_cycle=1)
    one.run([], cycles=50)
    assert np.diff(cycles_of(one.run([read(0, 4)]), "read")).tolist() == [4, 4, 4]


def test_reads_and_writes_share_the_rate(bench):
    log = bench(latency=0, bytes_per_cycle=2).run([read(0, 4), write(64, 4)], [(b"abcd", 15)] * 4)
    beats = [(e[0], e[1]) for e in log if e[1] in ("read", "write")]
    assert [cycle for cycle, _ in beats] == list(range(1, 17, 2))
    assert [kind for _, kind in beats] == ["read", "write"] * 4


def test_a_row_that_is_not_open_keeps_its_bank_busy(bench):
    rows = {"latency": 0, "row_bytes": 64, "row_miss": 10}
    hit = bench(banks=1, **rows).run([read(0), read(4), read(60)])
    assert cycles_of(hit, "read") == [11, 12, 13]
    miss = bench(banks=1, **rows).run([read(0), read(64), read(0)])
    assert cycles_of(miss, "read") == [11, 21, 31]
    apart = bench(banks=2, **rows).run([read(0), read(64), read(128)])
    assert cycles_of(apart, "read") == [11, 12, 21]


def test_rows_hold_back_writes_too(bench):
    log = bench(latency=3, row_bytes=64, row_miss=10, banks=1).run(
        [write(0), read(64)], [(b"abcd", 15)])
    assert log == [(0, "request", 0), (1, "request", 64), (11, "write", b"abcd"),
                   (15, "ack", False), (24, "read", bytes([64, 65, 66, 67]))]


def test_a_bank_without_an_open_row_has_a_time_of_its_own(bench):
    rows = {"latency": 0, "row_bytes": 64, "row_miss": 10, "row_closed": 4, "banks": 1}
    assert cycles_of(bench(**rows).run([read(0), read(4), read(64)]), "read") == [5, 6, 15]


def test_in_order_a_read_waits_for_the_write_before_it(bench):
    log = bench(latency=3, in_order=True).run([write(0, 2), read(64)], [(b"abcd", 15)] * 2)
    assert log == [(0, "request", 0), (1, "request", 64), (1, "write", b"abcd"),
                   (2, "write", b"abcd"), (3, "ack", False), (6, "read", bytes([64, 65, 66, 67]))]


def test_in_order_latency_holds_up_no_request(bench):
    """One is outstanding until its last beat was on the memory's bus."""
    log = bench(latency=10, outstanding=1, in_order=True).run([read(0, 2), read(64), read(128)])
    assert cycles_of(log, "request") == [0, 3, 5]
    assert cycles_of(log, "read") == [11, 12, 14, 16]


def test_in_order_the_memory_reads_on_while_the_port_waits(bench):
    log = bench(latency=0, in_order=True, bytes_per_cycle=2).run(
        [read(0, 3)], read_ready=lambda now: now >= 5)
    assert cycles_of(log, "read") == [5, 6, 7]


def test_in_order_beats_have_a_least_distance_but_within_a_read(bench):
    options = {"latency": 0, "in_order": True, "beat_cycles": 3}
    log = bench(**options).run([read(0, 2), read(64), read(128)])
    assert cycles_of(log, "read") == [1, 2, 5, 8]
    log = bench(**options).run([write(0), write(64)], [(b"abcd", 15)] * 2)
    assert cycles_of(log, "write") == [1, 4] and cycles_of(log, "ack") == [4, 7]
    log = bench(**options).run([write(0, 2)], [(b"abcd", 15)] * 2)
    assert cycles_of(log, "write") == [1, 4] and cycles_of(log, "ack") == [7]


def test_a_refresh_holds_back_beats(bench):
    refresh = {"latency": 0, "refresh_interval": 10, "refresh_cycles": 4}
    expected = [*range(1, 10), *range(14, 20), 24]
    for in_order in (False, True):
        assert cycles_of(bench(in_order=in_order, **refresh).run([read(0, 16)]), "read") == expected
        log = bench(in_order=in_order, **refresh).run([write(0, 16)], [(b"abcd", 15)] * 16)
        assert cycles_of(log, "write") == expected


def test_a_refresh_closes_all_rows(bench):
    rows = {"latency": 0, "row_bytes": 64, "row_miss": 3, "banks": 2, "refresh_interval": 20}
    for in_order in (False, True):
        one = bench(in_order=in_order, **rows)
        assert cycles_of(one.run([read(0)], cycles=10), "read") == [4]
        assert cycles_of(one.run([read(0)], cycles=15), "read")[1:] == [11]
        assert cycles_of(one.run([read(0)], cycles=20), "read")[2:] == [29]


def test_a_refresh_comes_while_a_write_has_no_data(bench):
    for in_order in (False, True):
        one = bench(latency=0, in_order=in_order, refresh_interval=10, refresh_cycles=4)
        one.run([write(0)], cycles=11)
        assert cycles_of(one.run([], [(b"abcd", 15)], cycles=20), "write") == [14]


def test_an_offered_beat_stays_in_a_refresh(bench):
    for in_order in (False, True):
        log = bench(latency=0, in_order=in_order, refresh_interval=10, refresh_cycles=4).run(
            [read(0, 9), read(64)], read_ready=lambda now: now < 9 or now >= 12)
        assert (9, "held") in log and (11, "held") in log and cycles_of(log, "read")[8] == 12


@pytest.mark.parametrize("options", [
    {}, {"seed": 4}, {"bytes_per_cycle": 1.3}, {"row_bytes": 64, "row_miss": 9, "banks": 2},
    {"in_order": True}, {"in_order": True, "seed": 4, "bytes_per_cycle": 1.3, "beat_cycles": 5},
    {"refresh_interval": 20, "refresh_cycles": 7},
    {"in_order": True, "row_bytes": 64, "row_miss": 3, "refresh_interval": 20,
     "refresh_cycles": 7}],
    ids=["plain", "stalls", "rate", "rows", "in order", "in order, stalls", "refresh",
         "in order, refresh"])
def test_the_next_offer_is_known(bench, library, options):
    """Nothing comes before the cycle that `next_offer` names."""
    one = bench(latency=5, outstanding=3, **options)
    requests = [read(16 * k % 192, 1 + k % 4) for k in range(20)]
    flags, data = np.zeros(6, np.int32), np.zeros(BUS, np.uint8)
    quiet_until = 0
    for now in range(600):
        library.offer(one.dram, now, 0, flags.ctypes.data, data.ctypes.data, BUS)
        ready, _, valid = map(bool, flags[:3])
        request = requests.pop(0) if ready and requests else None
        assert now >= quiet_until or not (request or valid), now
        addr, beats, write_ = request or (0, 0, False)
        library.edge(one.dram, now, bool(request), 0, valid, addr, beats, write_, b"", 0)
        quiet_until = 0 if request or valid else library.next_offer(one.dram, now)
    assert not requests and one.in_flight == 0


@pytest.mark.parametrize(("options", "message"), [
    ({"latency": -1}, "latency of the memory must be an integer from 0 to 1048576, not -1"),
    ({"latency": 1.5}, "latency of the memory must be an integer from 0 to 1048576, not 1.5"),
    ({"outstanding": 0}, "outstanding of the memory must be an integer from 1 to 1048576, not 0"),
    ({"stall_seed": True}, "stall_seed of the memory must be an integer from 0 to "
                           "18446744073709551615, not True"),
    ({"bytes_per_cycle": 0}, "bytes_per_cycle of the memory must be a number of at least 1/65536, "
                             "not 0"),
    ({"bytes_per_cycle": float("nan")}, "bytes_per_cycle of the memory must be a number of at "
                                        "least 1/65536, not nan"),
    ({"row_bytes": 32}, "row_bytes of the memory must be an integer from 64 to 1073741824, not 32"),
    ({"row_bytes": 96}, "row_bytes of the memory must be a power of two, not 96"),
    ({"row_miss": -3}, "row_miss of the memory must be an integer from 0 to 1048576, not -3"),
    ({"banks": 0}, "banks of the memory must be an integer from 1 to 65536, not 0"),
    ({"row_closed": -1}, "row_closed of the memory must be an integer from 0 to 1048576, not -1"),
    ({"in_order": 1}, "in_order of the memory must be true or false, not 1"),
    ({"beat_cycles": 3}, "beat_cycles of the memory must be 1 where requests are not "
                            "performed in order, not 3"),
    ({"beat_cycles": 0}, "beat_cycles of the memory must be an integer from 1 to 1048576, "
                            "not 0"),
    ({"refresh_interval": 0}, "refresh_interval of the memory must be an integer from 1 to "
                              "1073741824, not 0"),
    ({"refresh_interval": 8, "refresh_cycles": 8},
     "refresh_cycles of the memory must be less than its refresh_interval of 8, not 8"),
])
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(DramError) as refusal:
        Dram(**options)
    assert str(refusal.value) == message


def test_a_rate_beyond_the_bus_is_refused():
    with pytest.raises(DramError, match=r"^bytes_per_cycle of the memory must be at most the 4 "
                                        r"bytes of the bus of tiny-1x4x4, not 4.5$"):
        dram.timing(Dram(bytes_per_cycle=4.5), CONFIG)
