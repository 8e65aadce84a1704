"""Frames of the host link: the bytes on the serial line, in both directions.

A frame is, before escaping,

    sequence (1 byte)  kind (1 byte)  body  CRC-32 (4 bytes)

numbers little-endian, the CRC that of IEEE 802.3 over all before it. The line carries each frame as
HDLC does on asynchronous lines (RFC 1662, sections 4.2 and C.2): `FLAG` before and after, and
`ESCAPE` with the next byte's bit 5 inverted for each `FLAG` and `ESCAPE` within. A frame that is
wrong in any way is dropped without an answer; the next `FLAG` begins anew, so faults on the line
can only lose frames.

Requests and their answers, which repeat sequence and kind (with `ANSWER` added):

    kind               body                                    body of the answer
    READ               address (4), bytes − 1 (1)              the bytes
    WRITE              address (4), the bytes                  none
    READ_REGISTERS     word address (4), words − 1 (1)         4 bytes for each
    WRITE_REGISTER     word address (4), value (4)             none

READ and WRITE move at most `LARGEST` bytes of memory; address and length are multiples of `GRAIN`.
Requests are performed in order, each once it is complete and correct. All may be repeated without
harm, register writes included, so the host repeats a request without an answer in time. The answer
to anything else, or to an error of the memory, is the kind `REFUSED` alone.
"""

from binascii import crc32
from dataclasses import dataclass
from struct import pack, unpack

FLAG, ESCAPE, FLIP = 0x7E, 0x7D, 0x20

READ, WRITE, READ_REGISTERS, WRITE_REGISTER = 1, 2, 3, 4
ANSWER = 0x80
REFUSED = 0xFF

GRAIN = 64
"""The granularity of memory in bytes: the longest burst of the core's port."""

LARGEST = 256
"""Bytes of memory in a frame. The board keeps a frame until it has checked it."""

OVERHEAD = 6                # sequence, kind, CRC
LONGEST = OVERHEAD + 4 + LARGEST


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; `sequence` is 0 to 255."""

    sequence: int
    kind: int
    body: bytes = b""


def framed(frame: Frame) -> bytes:
    """The bytes of a frame on the line."""
    raw = bytes((frame.sequence, frame.kind)) + frame.body
    raw += pack("<I", crc32(raw))
    escaped = bytearray((FLAG,))
    for byte in raw:
        escaped += bytes((ESCAPE, byte ^ FLIP)) if byte in (FLAG, ESCAPE) else bytes((byte,))
    return bytes(escaped) + bytes((FLAG,))


class Unframe:
    """Takes bytes as they come and returns the correct frames; `dropped` counts the others."""

    def __init__(self) -> None:
        self.dropped = 0
        self._raw = bytearray()

    def feed(self, received: bytes) -> list[Frame]:
        frames = []
        for byte in received:
            if byte != FLAG:
                if len(self._raw) <= 2 * LONGEST:       # a lost flag must not cost memory
                    self._raw.append(byte)
                continue
            if self._raw:
                frame = _unescaped(self._raw)
                if frame is None:
                    self.dropped += 1
                else:
                    frames.append(frame)
            self._raw.clear()
        return frames


def _unescaped(escaped: bytearray) -> Frame | None:
    """The frame between two flags; None if it is wrong."""
    raw, flip = bytearray(), 0
    for byte in escaped:
        if byte == ESCAPE and not flip:
            flip = FLIP
        else:
            raw.append(byte ^ flip)
            flip = 0
    if flip or not OVERHEAD <= len(raw) <= LONGEST:
        return None
    checked, = unpack("<I", raw[-4:])
    return Frame(raw[0], raw[1], bytes(raw[2:-4])) if crc32(raw[:-4]) == checked else None
