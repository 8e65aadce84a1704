"""Where the buffers of a loop program lie on chip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.machine.config import BUFFERS
from accel.mapping.lowering import LoweringError
from accel.mapping.lowering.memory import Scratchpads
from compiler.ir import Alloc, For, If, Seq, Stmt
from compiler.te import INDEX, Buffer, Const, Var
from tests.support.machines import TINY

CONFIG = TINY.config
LEAF = Seq(())


def nested(buffers: list[Buffer], inside: Stmt = LEAF) -> Stmt:
    for buffer in reversed(buffers):
        inside = Alloc(buffer, inside)
    return inside


def entries(scope: str, name: str, count: int) -> Buffer:
    size = CONFIG.buffers[scope].entry_bytes
    return Buffer(name, (count, size), "int8", scope)


def address(pads: Scratchpads, buffer: Buffer, turn: int) -> int:
    copies = pads.addresses(buffer)
    return copies[turn % len(copies)]


def test_buffers_follow_each_other() -> None:
    one, two, other = (Buffer("one", (3, 1, 4), "int8", "res"), entries("res", "two", 2),
                       entries("inp", "other", 5))
    pads = Scratchpads(CONFIG, nested([one, two, other]))
    assert [address(pads, b, 0) for b in (one, two, other)] == [0, 12, 0]
    assert pads.used() == {"inp": 20, "wgt": 0, "res": 20, "par": 0, "tab": 0, "acc": 0, "out": 0}


def test_a_buffer_takes_whole_entries() -> None:
    odd, next_ = Buffer("odd", (7,), "int8", "inp"), entries("inp", "next", 1)
    pads = Scratchpads(CONFIG, nested([odd, next_]))
    assert address(pads, next_, 0) == 8


def test_each_thread_has_its_copy() -> None:
    outer, inner = entries("res", "outer", 1), entries("res", "inner", 3)
    body = nested([outer], For(Var("t"), 2, nested([inner]), "virtual_thread"))
    pads = Scratchpads(CONFIG, body)
    assert [address(pads, outer, turn) for turn in range(3)] == [0, 0, 0]
    assert [address(pads, inner, turn) for turn in range(5)] == [4, 16, 4, 16, 4]


def test_copies_in_acc_alternate_between_its_banks() -> None:
    first, second = entries("acc", "first", 3), entries("acc", "second", 2)
    body = For(Var("t"), 2, If(Const(True, "bool"), nested([first, second])), "virtual_thread")
    pads, bank = Scratchpads(CONFIG, body), CONFIG.buffers["acc"].size_bytes // 2
    assert [address(pads, first, turn) for turn in range(3)] == [0, bank, 0]
    assert [address(pads, second, turn) for turn in range(2)] == [48, bank + 48]
    assert pads.used()["acc"] == 2 * 5 * 16


def test_from_above_the_other_bank_comes_first() -> None:
    """In half of acc, too, of which a half is in either bank."""
    first, depth = entries("acc", "first", 3), CONFIG.buffers["acc"].depth
    body, bank = For(Var("t"), 2, nested([first]), "virtual_thread"), depth // 2 * 16
    for room in ({}, {"acc": (0, depth // 2)}, {"acc": (depth // 2, depth)}):
        below, above = (Scratchpads(CONFIG, body, room, from_above).addresses(first)
                        for from_above in (False, True))
        assert [start // bank for start in below] == [0, 1]
        assert [start // bank for start in above] == [1, 0]
        assert not set(below) & set(above)


def test_one_copy_may_lie_in_both_banks() -> None:
    large = entries("acc", "large", CONFIG.buffers["acc"].depth - 1)
    last = entries("acc", "last", 1)
    pads = Scratchpads(CONFIG, nested([large, last]))
    assert address(pads, last, 0) == CONFIG.buffers["acc"].size_bytes - 16
    assert pads.used()["acc"] == CONFIG.buffers["acc"].size_bytes


@pytest.mark.parametrize("scope", BUFFERS)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_whole_of_a_buffer_and_no_more(scope: str, threads: int) -> None:
    geometry = CONFIG.buffers[scope]

    def placed(count: int) -> Scratchpads:
        body = nested([entries(scope, "x", count)])
        kind = "virtual_thread" if threads > 1 else "serial"
        return Scratchpads(CONFIG, For(Var("t"), 2, body, kind))

    fits = geometry.depth // threads
    assert placed(fits).used()[scope] == geometry.size_bytes
    size = (fits + 1) * geometry.entry_bytes
    with pytest.raises(LoweringError) as refusal:
        placed(fits + 1)
    assert str(refusal.value) == (f"{scope} must hold x in {threads} copies of {size} bytes, but "
                                  f"has only {geometry.size_bytes}")


def test_another_scope_is_refused() -> None:
    with pytest.raises(LoweringError, match=r"^Scope of x must be an on-chip buffer, "
                                            r"not 'global'$"):
        Scratchpads(CONFIG, nested([Buffer("x", (4,), "int8")]))


PLACES = ("outside", "thread", "within")
"""Around the virtual threads; one for each; inside a loop of one thread inside them."""


@given(st.lists(st.tuples(st.sampled_from(("inp", "acc", "res")), st.integers(1, 40),
                          st.sampled_from(PLACES)), max_size=6), st.booleans())
def test_no_two_buffers_overlap(wanted: list[tuple[str, int, str]], from_above: bool) -> None:
    buffers = {place: [entries(scope, f"b{at}", count) for at, (scope, count, where)
                       in enumerate(wanted) if where == place] for place in PLACES}
    inner = For(Var("u", INDEX), 1, nested(buffers["within"]), "virtual_thread")
    local = For(Var("t", INDEX), 2, nested(buffers["thread"], inner), "virtual_thread")
    pads = Scratchpads(CONFIG, nested(buffers["outside"], local), from_above=from_above)
    taken = [(buffer.scope, address(pads, buffer, turn), buffer.size_bytes)
             for place in PLACES for buffer in buffers[place]
             for turn in range(2 if place == "thread" else 1)]
    for at, (scope, start, size) in enumerate(taken):
        assert start + size <= CONFIG.buffers[scope].size_bytes
        assert all(scope != other or start + size <= begin or begin + length <= start
                   for other, begin, length in taken[:at])
