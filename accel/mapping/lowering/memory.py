"""Addresses of buffers: of a layer's tiles on chip, and of tensors in DRAM segments."""

from collections.abc import Mapping
from dataclasses import dataclass

from accel.machine.config import AccelConfig
from accel.mapping.lowering.nest import LoweringError
from compiler.ir import Alloc, For, If, Seq, Stmt, Tensorized
from compiler.te import Buffer

Room = Mapping[str, tuple[int, int]]
"""The entries that a layer may use of some buffers, from the first to before the second, both even
numbers; a buffer that is not named is all its own. Half of the entries of acc are in either bank.
"""


def room_of(config: AccelConfig, room: Room, buffer: str) -> tuple[int, int]:
    return room.get(buffer, (0, config.buffers[buffer].depth))


@dataclass(frozen=True, slots=True)
class TensorPlacement:
    """A tensor in DRAM: byte `offset` from base register `base`, and its name in the network if it
    has one. A tensor that lies within another has `pitches`: the distance of neighbours, in
    elements, in each dimension. `bounds` say which elements are stored of a result that ends within
    a block: those for which the index of the first dimension, times the extent of the second, plus
    the index of the second is less than the third number. Elements have `bits` bits in memory, each
    byte as many as it holds.
    """

    base: str
    offset: int
    tensor: str = ""
    pitches: tuple[int, ...] = ()
    bounds: tuple[tuple[int, int, int], ...] = ()
    bits: int = 8


class Scratchpads:
    """Addresses of everything that a loop program allocates on chip, in bytes.

    A buffer that is allocated inside a virtual-thread loop has one copy for each thread of the
    innermost such loop. Copies in acc alternate between its banks, so that gemm fills one while
    vector drains the other.

    Buffers are filled from below, or `from_above`, acc from its second bank: a layer that follows
    one from below then finds room for what it loads first while the other still computes.
    """

    def __init__(self, config: AccelConfig, body: Stmt, room: Room | None = None,
                 from_above: bool = False):
        self.config, self.room, self.from_above = config, room or {}, from_above
        self._copies: dict[str, tuple[int, ...]] = {}
        begin = {name: room_of(config, self.room, name)[0] * buffer.entry_bytes
                 for name, buffer in config.buffers.items()}
        self._bank_top = [begin["acc"] // 2] * 2
        self._top = begin
        self._begin = dict(begin)
        self._place(body, 1)

    def addresses(self, buffer: Buffer) -> tuple[int, ...]:
        """Byte addresses of the copies, which take turns."""
        return self._copies[buffer.name]

    def used(self) -> dict[str, int]:
        """Bytes taken in each buffer."""
        top = self._top | {"acc": sum(self._bank_top)}
        return {name: top[name] - begin for name, begin in self._begin.items()}

    def _place(self, stmt: Stmt, threads: int) -> None:
        match stmt:
            case For(_, extent, body, kind):
                self._place(body, extent if kind == "virtual_thread" else threads)
            case Seq(stmts):
                for part in stmts:
                    self._place(part, threads)
            case If(_, body):
                self._place(body, threads)
            case Alloc(buffer, body):
                taken = [self._take(buffer, copy, threads) for copy in range(threads)]
                self._copies[buffer.name] = tuple(
                    self._mirrored(buffer, start) if self.from_above else start for start in taken)
                self._place(body, threads)
            case Tensorized():
                return

    def _size(self, buffer: Buffer) -> int:
        entry = self.config.buffers[buffer.scope].entry_bytes
        return -(-buffer.size_bytes // entry) * entry

    def _mirrored(self, buffer: Buffer, start: int) -> int:
        """The start of a buffer where all is filled from the other end of its room."""
        begin, end = (entry * self.config.buffers[buffer.scope].entry_bytes
                      for entry in room_of(self.config, self.room, buffer.scope))
        if buffer.scope != "acc" or (begin, end) == (0, self.config.buffers["acc"].size_bytes):
            return begin + end - start - self._size(buffer)
        bank = self.config.buffers["acc"].size_bytes // 2       # a half of the room in either
        at, inside = 1 - start // bank, start % bank
        return at * bank + begin // 2 + end // 2 - inside - self._size(buffer)

    def _take(self, buffer: Buffer, copy: int, copies: int) -> int:
        geometry = self.config.buffers.get(buffer.scope)
        if geometry is None:
            raise LoweringError(f"Scope of {buffer.name} must be an on-chip buffer, "
                                f"not {buffer.scope!r}")
        size = self._size(buffer)
        begin, end = (entry * geometry.entry_bytes
                      for entry in room_of(self.config, self.room, buffer.scope))
        room = end - begin
        if buffer.scope == "acc":
            start, end = self._take_acc(size, copy if copies > 1 else None, end // 2)
        else:
            start = self._top[buffer.scope]
            self._top[buffer.scope] += size
        if start + size > end:
            raise LoweringError(f"{buffer.scope} must hold {buffer.name} in {copies} "
                                f"copies of {size} bytes, but has only {room}")
        return start

    def _take_acc(self, size: int, copy: int | None, end: int) -> tuple[int, int]:
        """Takes room in acc and gives its start and limit. Each copy has its bank, of which `end`
        bytes may be used. A single copy may lie in both, where nothing is between the end of the
        first and the start of the second.
        """
        bank, top = self.config.buffers["acc"].size_bytes // 2, self._bank_top
        if copy is None and end == bank and (top[1] == 0 or top[0] == bank):
            start = sum(top)
            self._bank_top = [min(start + size, bank), max(0, start + size - bank)]
            return start, 2 * bank
        at = top.index(min(top)) if copy is None else copy % 2
        start = at * bank + top[at]
        top[at] += size
        return start, at * bank + end
