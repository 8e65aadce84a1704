"""Frames: everything comes back, and nothing that is wrong does."""

import random

from hypothesis import given
from hypothesis import strategies as st

from fpga.link.frames import ESCAPE, FLAG, LARGEST, WRITE, Frame, Unframe, framed

FRAMES = st.builds(Frame, st.integers(0, 255), st.integers(0, 255),
                   st.binary(max_size=LARGEST + 4))


@given(st.lists(FRAMES, max_size=4))
def test_what_is_sent_arrives(sent):
    line = b"".join(map(framed, sent))
    unframe = Unframe()
    assert [frame for byte in line for frame in unframe.feed(bytes((byte,)))] == sent
    assert not unframe.dropped


def test_the_line_has_flags_at_the_ends_alone():
    line = framed(Frame(FLAG, WRITE, bytes((FLAG, ESCAPE, 0x20))))
    assert line[0] == line[-1] == FLAG and FLAG not in line[1:-1]


def test_a_crc_of_the_standard():
    """The CRC of "123456789" is CBF43926 (RFC 3720 lists others; this one is the usual check)."""
    assert framed(Frame(0x31, 0x32, b"3456789"))[1:-1] == b"123456789" + bytes.fromhex("2639f4cb")


def test_what_is_damaged_is_dropped_and_the_next_is_right():
    rng = random.Random(0)
    for _ in range(2000):
        damaged = bytearray(framed(Frame(rng.randrange(256), 2, rng.randbytes(rng.randrange(40)))))
        at = rng.randrange(len(damaged))
        if rng.random() < 0.5:
            damaged[at] ^= 1 << rng.randrange(8)
        else:
            del damaged[at]
        right = Frame(7, 1, b"next")
        found = Unframe().feed(bytes(damaged) + framed(right))
        assert found[-1] == right
        assert len(found) == 1 or framed(found[0])[1:-1] in bytes(damaged)      # a flag at an end


def test_a_line_without_flags_takes_no_memory():
    unframe = Unframe()
    assert unframe.feed(bytes(100_000)) == []
    assert unframe.feed(framed(Frame(1, 1)))[-1:] == [Frame(1, 1)] or unframe.dropped == 1
