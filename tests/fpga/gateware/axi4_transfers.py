"""Runs inside the simulator (cocotb): random requests at the core's side of the AXI4 master, a
memory of cocotbext-axi with random pauses at the other side.

Environment: ``TRANSFERS``, ``BUS_BYTES``, ``SEED``.
"""

import os
import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer
from cocotbext.axi import AxiBus, AxiRam

PAGE = 4096
SPACE = 4 * PAGE
CHANNELS = {"aw": ("addr", "len", "size", "burst"), "w": ("data", "strb", "last"),
            "ar": ("addr", "len", "size", "burst")}


class Watch:
    """The rules of the specification that a master may break."""

    def __init__(self, dut, bus_bytes: int, prefix: str = "axi__"):
        self.dut, self.bus_bytes, self.prefix = dut, bus_bytes, prefix
        self.held: dict[str, tuple] = {}
        self.bursts: deque[int] = deque()
        self.beats, self.split = 0, 0

    def cycle(self) -> None:
        for name, fields in CHANNELS.items():
            valid, ready = (int(self._signal(name + end).value) for end in ("valid", "ready"))
            offered = tuple(int(self._signal(name + one).value) for one in fields)
            held = self.held.pop(name, None)
            assert held is None or (valid and offered == held), f"{name} must stay"     # A3.2.1
            if valid and not ready:
                self.held[name] = offered
            if valid and held is None and name != "w":
                getattr(self, name)(*offered)
            if valid and ready and name == "w":
                self.w(*offered)

    def _signal(self, name: str):
        return getattr(self.dut, self.prefix + name)

    def ar(self, addr: int, length: int, size: int, burst: int) -> None:
        assert (1 << size, burst) == (self.bus_bytes, 1)
        last = addr + (length + 1) * self.bus_bytes - 1
        assert addr // PAGE == last // PAGE, "a burst crosses a boundary of 4 KiB"      # A3.4.1

    def aw(self, addr: int, length: int, size: int, burst: int) -> None:
        self.ar(addr, length, size, burst)
        self.bursts.append(length)

    def w(self, data: int, strb: int, last: int) -> None:
        assert self.bursts, "data of no burst that was asked for"
        assert last == (self.beats == self.bursts[0]), "the last beat must be marked, no other"
        self.beats = 0 if last else self.beats + 1
        if last:
            self.bursts.popleft()


class Core:
    """The core's side: `left` requests to make, of ranges that no other one under way meets."""

    def __init__(self, dut, bus_bytes: int, left: int, random_: random.Random):
        self.dut, self.bus_bytes, self.left, self.random = dut, bus_bytes, left, random_
        self.memory = bytearray(SPACE)
        self.asked: tuple | None = None
        self.data: deque[tuple[int, int]] = deque()     # beats of writes to offer
        self.reads: deque[tuple[range, deque]] = deque()
        self.writes: deque[range] = deque()
        self.crossed = self.wrong = 0
        self.offering = False                           # a beat that stays until it is taken

    @property
    def over(self) -> bool:
        return not (self.left or self.asked or self.reads or self.writes)

    def _choose(self) -> None:
        beats = self.random.randint(1, 32)
        begin = self.random.randrange(SPACE // self.bus_bytes - beats) * self.bus_bytes
        if self.random.random() < 0.3:                  # near a boundary
            begin = max(PAGE * self.random.randint(1, 3) - self.random.randint(1, beats)
                        * self.bus_bytes, 0)
        where, write = range(begin, begin + beats * self.bus_bytes), self.random.random() < 0.5
        others = [*self.writes, *(one for one, _ in self.reads if write)]
        if any(where.start < one.stop and one.start < where.stop for one in others):
            return
        self.left -= 1
        self.crossed += where.start // PAGE != (where.stop - 1) // PAGE
        self.asked = (where, write)
        if not write:
            self.reads.append((where, deque(
                bytes(self.memory[at:at + self.bus_bytes]) for at in where[::self.bus_bytes])))
            return
        self.writes.append(where)
        for at in where[::self.bus_bytes]:
            word, mask = self.random.randbytes(self.bus_bytes), self.random.getrandbits(
                self.bus_bytes)
            self.data.append((int.from_bytes(word, "little"), mask))
            for lane in range(self.bus_bytes):
                if mask >> lane & 1:
                    self.memory[at + lane] = word[lane]

    def drive(self) -> None:
        """What the core offers in this cycle; what was offered and not taken stays."""
        dut, maybe = self.dut, self.random.random
        if self.asked is None and self.left and maybe() < 0.7:
            self._choose()
        offered = self.asked is not None
        dut.mem__request__valid.value = offered
        if self.asked:
            where, write = self.asked
            last = len(where) // self.bus_bytes - 1
            dut.mem__request__payload.value = where.start | last << 32 | write << 37
        self.offering = self.offering or (bool(self.data) and maybe() < 0.7)
        dut.mem__wdata__valid.value = self.offering
        if self.data:
            word, mask = self.data[0]
            dut.mem__wdata__payload.value = word | mask << 8 * self.bus_bytes
        dut.mem__rdata__ready.value = maybe() < 0.7
        dut.mem__ack__ready.value = 1

    def sample(self) -> None:
        """What is taken at the end of this cycle."""
        dut = self.dut

        def passes(name: str) -> bool:
            stream = f"mem__{name}__"
            return bool(int(getattr(dut, stream + "valid").value)
                        and int(getattr(dut, stream + "ready").value))

        taken = {name: passes(name) for name in ("request", "wdata", "rdata", "ack")}
        if taken["request"]:
            self.asked = None
        if taken["wdata"]:
            self.data.popleft()
            self.offering = False
        if taken["rdata"]:
            payload = int(dut.mem__rdata__payload.value)
            _, words = self.reads[0]
            got = (payload & (1 << 8 * self.bus_bytes) - 1).to_bytes(self.bus_bytes, "little")
            self.wrong += got != words.popleft() or payload >> 8 * self.bus_bytes
            if not words:
                self.reads.popleft()
        if taken["ack"]:
            self.wrong += int(dut.mem__ack__payload.value)
            self.writes.popleft()


@cocotb.test()
async def transfers(dut):
    bus_bytes, count = int(os.environ["BUS_BYTES"]), int(os.environ["TRANSFERS"])
    rng = random.Random(int(os.environ["SEED"]))
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    dut.rst.value = 1
    ram = AxiRam(AxiBus.from_prefix(dut, "axi_"), dut.clk, dut.rst, size=SPACE)
    core, watch = Core(dut, bus_bytes, count, rng), Watch(dut, bus_bytes)
    for name in ("request__valid", "wdata__valid", "rdata__ready", "ack__ready"):
        getattr(dut, f"mem__{name}").value = 0
    for _ in range(4):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    await FallingEdge(dut.clk)

    def pauses():
        while True:
            yield rng.random() < 0.4

    for side, channels in ((ram.write_if, ("aw", "w", "b")), (ram.read_if, ("ar", "r"))):
        for channel in channels:
            getattr(side, f"{channel}_channel").set_pause_generator(pauses())
    quiet = 0
    while not core.over:
        await FallingEdge(dut.clk)
        core.drive()
        await Timer(2, "ns")
        before = core.left, len(core.reads), len(core.writes), len(core.data)
        core.sample()
        watch.cycle()
        quiet = quiet + 1 if before == (core.left, len(core.reads), len(core.writes),
                                        len(core.data)) else 0
        assert quiet < 5000, "nothing moves any more"
    found = ram.read(0, SPACE)
    assert core.wrong == 0, f"{core.wrong} wrong beats or acknowledgements"
    assert bytes(found) == bytes(core.memory), "the memory differs"
    assert count < 100 or core.crossed > count // 10, "boundaries of 4 KiB must be crossed"
    dut._log.info("transfers %d, over a boundary of 4 KiB %d", count, core.crossed)
