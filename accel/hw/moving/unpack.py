"""From packed weights to entries of a buffer: elements of few bits become bytes."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.interface import chunk_write
from accel.machine.config import WEIGHT_BITS, AccelConfig


def unpacked(byte: int, bits: int) -> list[int]:
    """The elements of a byte as bytes: the lowest bits first, each extended by its sign."""
    sign = 1 << bits - 1
    return [((byte >> low & 2 * sign - 1) ^ sign) - sign & 0xFF for low in range(0, 8, bits)]


class Unpack(wiring.Component):
    """Turns a chunk of bus_bytes from memory into a write of `AccelConfig.written_bytes` to a
    buffer.

    A byte becomes 1, 2 or 4 of the buffer (`unpacked`), which fill the whole width of the port, or
    an aligned part of it where the machine also has fewer bits. Latency 1, one chunk a cycle.

    Members
    -------
    data, mask : the chunk, and which of its bytes count.
    addr : its address in the buffer, in chunks after unpacking.
    bits : index of `WEIGHT_BITS`.
    write : write port of the buffer.
    """

    def __init__(self, config: AccelConfig, buffer: str | None = None):
        self.weight_bits = config.weight_bits
        buffer = buffer or config.structure.roles.wgt
        write = chunk_write(config, buffer)
        self._widest = exact_log2(config.written_bytes(buffer) // config.bus_bytes)
        super().__init__({
            "data": In(config.bus_bytes * 8), "mask": In(config.bus_bytes),
            "addr": In(24 - exact_log2(config.bus_bytes)), "bits": In(2), "write": Out(write)})

    def elaborate(self, platform):
        m = Module()
        data, mask = (Signal.like(port, name=f"{name}_next") for name, port in
                      (("data", self.write.data), ("mask", self.write.mask)))
        addr = Signal.like(self.write.addr, name="addr_next")
        with m.Switch(self.bits):
            for bits in self.weight_bits:
                code = WEIGHT_BITS.index(bits)
                free = self._widest - code              # bits of the address within the port
                elements = [self.data[low:low + bits].as_signed()
                            for low in range(0, len(self.data), bits)]
                with m.Case(code):
                    counts = Cat(bit.replicate(1 << code) for bit in self.mask)
                    m.d.comb += [
                        data.eq(Cat(Cat(e, e[-1].replicate(8 - bits)) for e in elements)
                                .replicate(1 << free)),
                        mask.eq(Cat(Mux(self.addr[:free] == part, counts, 0)
                                    for part in range(1 << free))),
                        addr.eq(self.addr[free:]),
                    ]
        m.d.sync += [self.write.data.eq(data), self.write.mask.eq(mask), self.write.addr.eq(addr)]
        return m
