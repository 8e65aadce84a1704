"""The rows of a buffer's memory, of which one side moves chunks and the other takes entries.

The bytes of a buffer are numbered through: entry e begins at byte e times its size, and load and
store move chunks, a power of two of bytes, at multiples of their size. Neither need be a multiple
of the other::

    entries of 12 bytes      |     0     |     1     |     2     |     3     |
    chunks of 8 bytes        |   0   |   1   |   2   |   3   |   4   |   5   |
    rows of 12 bytes         |     row 0 |     row 1 |     row 2 |     row 3 |
    slices of 4 bytes        | 0 | 1 | 2 | 0 | 1 | 2 | 0 | 1 | 2 | 0 | 1 | 2 |

A row is a whole entry, or a power of two of them, so whoever takes entries needs the bits of their
address alone. A chunk lies in slices that follow each other, of one row and the next.
"""

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True, slots=True)
class MemoryRows:
    """The rows of a memory; sizes in bytes.

    Parameters
    ----------
    chunk_bytes : what load or store moves at once, a power of two.
    entry_bytes, depth : of an entry; how many entries.
    """

    chunk_bytes: int
    entry_bytes: int
    depth: int

    @property
    def entries(self) -> int:
        """Entries in a row: the fewest, a power of two, that are as long as a chunk."""
        return 1 << (-(-self.chunk_bytes // self.entry_bytes) - 1).bit_length()

    @property
    def row_bytes(self) -> int:
        """A row's size."""
        return self.entries * self.entry_bytes

    @property
    def count(self) -> int:
        """MemoryRows of the memory."""
        return -(-self.depth // self.entries)

    @property
    def chunks(self) -> int:
        """Chunks of the whole buffer, the last of which may be in part beyond it."""
        return -(-self.depth * self.entry_bytes // self.chunk_bytes)

    @property
    def slice_bytes(self) -> int:
        """The largest part of which both a row and a chunk have a whole number."""
        return gcd(self.row_bytes, self.chunk_bytes)

    @property
    def slices(self) -> int:
        """Slices of a row."""
        return self.row_bytes // self.slice_bytes

    @property
    def chunk_slices(self) -> int:
        """Slices of a chunk, at most those of a row; a power of two."""
        return self.chunk_bytes // self.slice_bytes

    @property
    def piece_bytes(self) -> int:
        """The largest part of which both a slice and an entry have a whole number: what a memory
        of entries that are written is made of."""
        return gcd(self.slice_bytes, self.entry_bytes)

    @property
    def divides(self) -> bool:
        """True if the address of a chunk must be divided to find its row; else its bits say it."""
        return bool(self.slices & (self.slices - 1))
