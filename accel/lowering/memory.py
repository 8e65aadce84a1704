"""Where buffers live: on-chip addresses of a layer's tiles, and tensors in DRAM segments."""

from dataclasses import dataclass

from accel.config import AccelConfig
from accel.lowering.nest import LoweringError
from compiler.ir import Alloc, For, If, Seq, Stmt, Tensorized
from compiler.te import Buffer

__all__ = ["Placement", "Scratchpads"]


@dataclass(frozen=True, slots=True)
class Placement:
    """A tensor in DRAM: byte `offset` from base register `base`, and its name in the network if it
    has one.
    """

    base: str
    offset: int
    tensor: str = ""


class Scratchpads:
    """Addresses of everything that a loop program allocates on chip, in bytes.

    A buffer that is allocated inside a virtual-thread loop has one copy for each thread of the
    innermost such loop. Copies in acc alternate between its banks, so that gemm fills one while
    vector drains the other.
    """

    def __init__(self, config: AccelConfig, body: Stmt):
        self.config = config
        self._copies: dict[str, tuple[int, ...]] = {}
        self._bank_top = [0, 0]
        self._top = dict.fromkeys(config.buffers, 0)
        self._place(body, 1)

    def address(self, buffer: Buffer, turn: int) -> int:
        """Byte address of the copy whose turn it is."""
        copies = self._copies[buffer.name]
        return copies[turn % len(copies)]

    def used(self) -> dict[str, int]:
        """Bytes taken in each buffer."""
        return self._top | {"acc": sum(self._bank_top)}

    def _place(self, stmt: Stmt, threads: int) -> None:
        match stmt:
            case For(_, extent, body, kind):
                self._place(body, extent if kind == "virtual_thread" else threads)
            case Seq(stmts):
                for one in stmts:
                    self._place(one, threads)
            case If(_, body):
                self._place(body, threads)
            case Alloc(buffer, body):
                self._copies[buffer.name] = tuple(
                    self._take(buffer, copy, threads) for copy in range(threads))
                self._place(body, threads)
            case Tensorized():
                return

    def _take(self, buffer: Buffer, copy: int, copies: int) -> int:
        geometry = self.config.buffers.get(buffer.scope)
        if geometry is None:
            raise LoweringError(f"Scope of {buffer.name} must be an on-chip buffer, "
                                f"not {buffer.scope!r}")
        size = -(-buffer.size_bytes // geometry.entry_bytes) * geometry.entry_bytes
        if buffer.scope == "acc":
            start, room = self._take_acc(size, copy if copies > 1 else None)
        else:
            start, room = self._top[buffer.scope], geometry.size_bytes
            self._top[buffer.scope] += size
        if start + size > room:
            raise LoweringError(f"{buffer.scope} must hold {buffer.name} in {copies} "
                                f"copies of {size} bytes, but has only {geometry.size_bytes}")
        return start

    def _take_acc(self, size: int, copy: int | None) -> tuple[int, int]:
        """Start and limit. Copies have their banks; one alone may lie in both, where nothing is
        between the end of the first and the start of the second.
        """
        bank, top = self.config.buffers["acc"].size_bytes // 2, self._bank_top
        if copy is None and (top[1] == 0 or top[0] == bank):
            start = sum(top)
            self._bank_top = [min(start + size, bank), max(0, start + size - bank)]
            return start, 2 * bank
        at = top.index(min(top)) if copy is None else copy % 2
        start = at * bank + top[at]
        top[at] += size
        return start, (at + 1) * bank
