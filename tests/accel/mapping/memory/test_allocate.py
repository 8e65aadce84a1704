"""Static allocation: values that live at the same time have memory of their own."""

from hypothesis import given
from hypothesis import strategies as st

from accel.mapping.memory.allocate import allocate
from tests.support.lifetimes import assert_apart

lives = st.tuples(st.integers(0, 9), st.integers(0, 4)).map(lambda p: (p[0], p[0] + p[1]))
values = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2),
                         st.tuples(st.integers(1, 400), lives), max_size=12)


@given(values)
def test_no_two_live_values_overlap(wanted) -> None:
    sizes = {name: size for name, (size, _) in wanted.items()}
    lives = {name: life for name, (_, life) in wanted.items()}
    offsets, total = allocate(sizes, lives)
    assert_apart(offsets, sizes, lives, total)
    assert total <= sum(-(-size // 64) * 64 for size in sizes.values())


def test_memory_is_used_again() -> None:
    sizes = dict.fromkeys("abcd", 100)
    lives = {"a": (0, 1), "b": (1, 2), "c": (2, 3), "d": (3, 4)}
    offsets, total = allocate(sizes, lives)
    assert offsets == {"a": 0, "b": 128, "c": 0, "d": 128} and total == 256


def test_a_gap_between_values_is_used() -> None:
    sizes = {"wide": 640, "long": 320, "small": 64, "late": 128}
    lives = {"wide": (0, 0), "long": (0, 9), "small": (1, 1), "late": (1, 1)}
    offsets, total = allocate(sizes, lives)
    assert offsets == {"wide": 0, "long": 640, "late": 0, "small": 128} and total == 960


def test_nothing_takes_nothing() -> None:
    assert allocate({}, {}) == ({}, 0)
