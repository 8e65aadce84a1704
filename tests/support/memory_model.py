"""DRAM for tests: the memory port of docs/machine.md, in Python, with checks on the core's side."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Memory"]


@dataclass
class Memory:
    """Serves a memory port; `serve` is a background testbench.

    Parameters
    ----------
    data : contents.
    bus_bytes, latency : of the port.
    stall : true in cycles in which a side of a stream holds back.
    log : accepted requests, as (cycle, write, addr, beats).
    moved : cycles in which a beat was read or written, as (cycle, write).
    """

    data: bytearray
    bus_bytes: int
    latency: int = 4
    stall: Callable[[], bool] = lambda: False
    log: list[tuple[int, bool, int, int]] = field(default_factory=list)
    moved: list[tuple[int, bool]] = field(default_factory=list)
    most_open: int = 0
    _reads: deque = field(default_factory=deque)        # beats: (first cycle, data, error, last)
    _writes: deque = field(default_factory=deque)       # accepted: [addr, beats left, error]
    _acks: deque = field(default_factory=deque)         # (first cycle, error)
    _open: int = 0

    @property
    def outstanding(self) -> int:
        """Bursts that are accepted and not answered."""
        return self._open

    def serve(self, port):
        async def testbench(ctx):
            cycle = 0
            offered = False
            while True:
                ctx.set(port.request.ready, not self.stall())
                ctx.set(port.wdata.ready, not self.stall())
                offered = bool(self._reads) and self._reads[0][0] <= cycle and (
                    offered or not self.stall())
                ctx.set(port.rdata.valid, offered)
                if offered:
                    _, beat, error, _ = self._reads[0]
                    ctx.set(port.rdata.payload, {"data": beat, "error": error})
                acked = bool(self._acks) and self._acks[0][0] <= cycle and not self.stall()
                ctx.set(port.ack.valid, acked)
                if acked:
                    ctx.set(port.ack.payload, {"error": self._acks.popleft()[1]})
                    self._open -= 1
                *_, request, accepted, write, written, taken = await ctx.tick().sample(
                    port.request.payload, port.request.valid & port.request.ready,
                    port.wdata.payload, port.wdata.valid & port.wdata.ready,
                    port.rdata.valid & port.rdata.ready)
                if taken:
                    self.moved.append((cycle, False))
                    self._open -= self._reads.popleft()[3]
                    offered = False
                if written:
                    self._write(cycle, write.data, write.mask)
                if accepted:
                    self._accept(cycle, request.addr, request.last + 1, bool(request.write))
                cycle += 1
        return testbench

    def _accept(self, cycle: int, addr: int, beats: int, write: bool):
        size = beats * self.bus_bytes
        assert addr % self.bus_bytes == 0, f"address {addr:#x} must be a multiple of a beat"
        assert addr // 64 == (addr + size - 1) // 64, f"burst {addr:#x}+{size} must not cross"
        self.log.append((cycle, write, addr, beats))
        self._open += 1
        self.most_open = max(self.most_open, self._open)
        assert self._open <= 64, "at most 64 bursts must be open"
        error = addr + size > len(self.data)
        if write:
            self._writes.append([addr, beats, error])
            return
        for beat in range(beats):
            raw = self.data[addr + beat * self.bus_bytes:addr + (beat + 1) * self.bus_bytes]
            self._reads.append((cycle + 1 + self.latency, 0 if error
                                else int.from_bytes(raw, "little"), error, beat == beats - 1))

    def _write(self, cycle: int, beat: int, mask: int):
        assert self._writes, "a beat must follow its request"
        self.moved.append((cycle, True))
        burst = self._writes[0]
        addr, _, error = burst
        for lane in range(self.bus_bytes):
            if mask >> lane & 1 and not error:
                self.data[addr + lane] = beat >> 8 * lane & 0xFF
        burst[0] += self.bus_bytes
        burst[1] -= 1
        if not burst[1]:
            self._writes.popleft()
            self._acks.append((cycle + 1 + self.latency, error))
