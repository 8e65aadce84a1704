"""The legality of streams: each rule broken once, and the speed that long streams need."""

import numpy as np
import pytest

from compiler.latency_hiding import AddressSet, Event, Tokens, check, insert_tokens
from tests.support.effort import tries

LOAD = Event("load", (AddressSet("inp", (0, 8), True),), "x tile 0")
GEMM = Event("gemm", (AddressSet("inp", np.array([6, 2, 4])),), "conv tile 0")
INITIAL = {"inp": ((0, 8),)}


def messages(events, tokens, initial=INITIAL):
    return [str(violation) for violation in check(events, tokens, initial)]


def test_a_legal_stream():
    assert messages([LOAD, GEMM], [Tokens(signals=("gemm",)), Tokens(("load",))], {}) == []


def test_wait_on_an_empty_counter():
    assert messages([GEMM], [Tokens(("load",))]) == [
        "event 0 (gemm conv tile 0) waits for a token load to gemm, of which there is none"]


def test_tokens_left():
    assert messages([LOAD], [Tokens((), ("gemm", "store"))]) == [
        "event 0 (load x tile 0) signals load to gemm, for which nothing waits",
        "event 0 (load x tile 0) signals load to store, for which nothing waits"]


@pytest.mark.parametrize("count", [255, 256])
def test_signal_to_a_full_counter(count):
    events = [Event("load")] * count + [Event("gemm")] * count
    tokens = [Tokens((), ("gemm",))] * count + [Tokens(("load",))] * count
    expected = ["event 255 (load) signals load to gemm, whose counter is full"]
    assert messages(events, tokens) == expected * (count == 256)


def test_read_after_write_in_no_order():
    assert messages([LOAD, GEMM], [Tokens(), Tokens()]) == [
        "event 0 (load x tile 0) and event 1 (gemm conv tile 0) touch inp[2:3],[4:5],[6:7] in no "
        "fixed order"]


def test_write_after_read_in_no_order():
    assert messages([GEMM, LOAD], [Tokens(), Tokens()]) == [
        "event 0 (gemm conv tile 0) and event 1 (load x tile 0) touch inp[2:3],[4:5],[6:7] in no "
        "fixed order"]


def test_write_after_write_in_no_order():
    other = Event("store", (AddressSet("inp", (7, 12), True),))
    assert messages([LOAD, other], [Tokens(), Tokens()]) == [
        "event 0 (load x tile 0) and event 1 (store) touch inp[7:8] in no fixed order"]


def test_a_token_of_an_earlier_event_does_not_order_a_later_one():
    events = [Event("load"), LOAD, GEMM]
    assert [v.kind for v in check(events, [Tokens((), ("gemm",)), Tokens(), Tokens(("load",))],
                                  INITIAL)] == ["unordered"]


def test_the_kth_signal_matches_the_kth_wait():
    """gemm's first wait takes the token of the load before the one that it reads."""
    events = [Event("load"), LOAD, GEMM, Event("gemm")]
    tokens = [Tokens((), ("gemm",))] * 2 + [Tokens(("load",))] * 2
    assert [(v.kind, v.later.index) for v in check(events, tokens, INITIAL)] == [("unordered", 2)]


def test_order_through_a_third_unit():
    events = [LOAD, Event("store"), GEMM]
    tokens = [Tokens((), ("store",)), Tokens(("load",), ("gemm",)), Tokens(("store",))]
    assert messages(events, tokens) == []


def test_a_signal_does_not_order_what_its_sender_does_later():
    events = [Event("load"), LOAD, Event("store"), GEMM]
    tokens = [Tokens((), ("store",)), Tokens(), Tokens(("load",), ("gemm",)), Tokens(("store",))]
    assert [v.kind for v in check(events, tokens, INITIAL)] == ["unordered"]


def test_read_of_what_was_never_written():
    events = [Event("load", (AddressSet("inp", (0, 3), True),)),
              Event("load", (AddressSet("inp", (1, 8)),), "x")]
    assert messages(events, [Tokens()] * 2, {"inp": ((6, 7),)}) == [
        "event 1 (load x) reads inp[3:6],[7:8], which nothing wrote"]


def test_a_memory_that_nothing_writes_holds_what_it_held_at_the_start():
    events = [Event("load", (AddressSet("rom", (4, 8)),)),
              Event("gemm", (AddressSet("rom", (6, 12)),)),
              Event("gemm", (AddressSet("rom", np.array([9, 2, 5])),))]
    assert messages(events, [Tokens()] * 3, {"rom": ((4, 10), (10, 11))}) == [
        "event 1 (gemm) reads rom[11:12], which nothing wrote",
        "event 2 (gemm) reads rom[2:3], which nothing wrote"]


def test_one_finding_for_two_events_and_a_memory():
    """The later one reads and writes what the earlier one wrote and read."""
    events = [Event("gemm", (AddressSet("acc", (0, 4)), AddressSet("acc", (0, 4), True))),
              Event("vector", (AddressSet("acc", (2, 4)), AddressSet("acc", (3, 6), True)))]
    found, = check(events, [Tokens()] * 2, {"acc": ((0, 8),)})
    assert (found.ranges, found.hazard) == (((2, 4),), ("write", "read"))


def test_the_latest_event_of_each_unit_is_found():
    """What orders that one orders those before it."""
    events = [Event("load", (AddressSet("x", (0, 8)),)), Event("load", (AddressSet("x", (0, 4)),)),
              Event("store", (AddressSet("x", (4, 8)),)),
              Event("gemm", (AddressSet("x", (0, 8), True),))]
    found = check(events, [Tokens()] * 4, {"x": ((0, 8),)})
    assert [(v.earlier.index, v.ranges) for v in found if v.earlier] == [
        (1, ((0, 4),)), (2, ((4, 8),))]


def test_a_limit_ends_the_scan():
    events = [Event("load"), Event("gemm"), Event("gemm")]
    tokens = [Tokens(), *[Tokens(("load",))] * 2]
    assert len(check(events, tokens, {})) == 2
    assert [v.later.index for v in check(events, tokens, {}, limit=1)] == [1]


def test_an_event_reads_before_it_writes():
    event = Event("gemm", (AddressSet("acc", (0, 2), True), AddressSet("acc", (0, 2))))
    assert messages([event], [Tokens()], {}) == [
        "event 0 (gemm) reads acc[0:2], which nothing wrote"]


def test_a_stream_of_the_size_of_a_network():
    """Up to 2,000 events of about 2,000 addresses each, scattered."""
    events, rng = [], np.random.default_rng(0)
    scattered = [np.sort(rng.permutation(16384)[:2048]) for _ in range(8)]
    for tile in range(tries(500)):
        part = scattered[tile % 8]
        dram = AddressSet("dram", (tile * 2048, tile * 2048 + 2048))
        events += [Event("load", (dram, AddressSet("inp", part, True))),
                   Event("gemm", (AddressSet("inp", part), AddressSet("acc", part, True))),
                   Event("vector", (AddressSet("acc", part), AddressSet("out", part, True))),
                   Event("store", (AddressSet("out", part),
                                   AddressSet("dram", (tile * 512, tile * 512 + 512), True)))]
    tokens = insert_tokens(events, ("load", "gemm", "vector", "store"))
    assert check(events, tokens, {"dram": ((0, 1 << 24),)}) == []
