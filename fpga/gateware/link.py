"""The board's side of the host link: bytes in, bytes out; memory and registers behind it.

Frames, requests and answers are those of `fpga.link.frames`. Each frame is kept until its CRC is
verified, then performed, then answered; meanwhile up to `WAITING` following bytes wait. Memory and
registers may be far away on the chip: all signals to and from them are registered, so that no path
of this logic continues elsewhere.
"""

from amaranth.hdl import *
from amaranth.lib import crc, data, memory, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.interface import memory_port
from accel.hw.queue import Relay
from accel.machine.config import AccelConfig
from fpga.gateware.registers import READ_CYCLES
from fpga.link import frames
from fpga.link.registers import WORDS

WAITING = 64

HEAD = 6        # bytes before the data: sequence, kind, address
_SIZES = range(frames.LONGEST + 2)

frame_byte = data.StructLayout({"byte": 8, "last": 1})


def _crc32(m: Module, name: str) -> crc.Processor:
    processor = crc.Processor(crc.catalog.CRC32_ETHERNET(8))
    m.submodules[name] = processor
    return processor


class Unframer(wiring.Component):
    """Turns bytes of the line into those of frames.

    Members
    -------
    i : bytes; `ready` is always high.
    byte, valid, number : a byte of a frame, escapes undone, and its number; the CRC's come too.
    good, bad : pulses: a frame of `size` bytes without its CRC ends; bytes that are no frame have
      ended.
    """

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(8, always_ready=True)),
            "byte": Out(8), "valid": Out(1), "number": Out(_SIZES),
            "good": Out(1), "bad": Out(1), "size": Out(_SIZES),
        })

    def elaborate(self, platform):
        m = Module()
        check = _crc32(m, "check")
        flip, long = Signal(), Signal()
        byte, arrives = self.i.payload, self.i.valid
        flag, escape = byte == frames.FLAG, (byte == frames.ESCAPE) & ~flip
        m.d.comb += [
            self.byte.eq(byte ^ Mux(flip, frames.FLIP, 0)),
            self.valid.eq(arrives & ~flag & ~escape & ~long),
            check.data.eq(self.byte), check.valid.eq(self.valid),
            check.start.eq(arrives & flag),
        ]
        whole = check.match_detected & (self.number >= frames.OVERHEAD) & ~flip & ~long
        m.d.comb += [self.good.eq(arrives & flag & whole),
                     self.bad.eq(arrives & flag & ~whole & (self.number != 0)),
                     self.size.eq(self.number - 4)]
        with m.If(arrives):
            with m.If(flag):
                m.d.sync += [self.number.eq(0), flip.eq(0), long.eq(0)]
            with m.Else():
                m.d.sync += flip.eq(escape)
            with m.If(self.valid):
                m.d.sync += self.number.eq(self.number + 1)
                with m.If(self.number == frames.LONGEST):
                    m.d.sync += long.eq(1)
        return m


class Framer(wiring.Component):
    """Turns bytes of frames into those of the line.

    Members
    -------
    i : bytes of frames, without CRCs; `last` marks the last one of each.
    o : bytes for the line.
    """

    def __init__(self):
        super().__init__({"i": In(stream.Signature(frame_byte)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        check = _crc32(m, "check")
        open_, escaped, closing = Signal(), Signal(), Signal(range(6))
        taken = self.o.valid & self.o.ready
        plain = Mux(closing == 0, self.i.payload.byte, check.crc.word_select((closing - 1)[:2], 8))
        special = (plain == frames.FLAG) | (plain == frames.ESCAPE)
        moves = Signal()                        # a byte of the frame has passed
        with m.If(~open_ | (closing == 5)):
            m.d.comb += [self.o.payload.eq(frames.FLAG),
                         self.o.valid.eq((closing == 5) | self.i.valid)]
            with m.If(taken):
                m.d.sync += [open_.eq(~open_), closing.eq(0)]
        with m.Else():
            m.d.comb += self.o.valid.eq(self.i.valid | (closing != 0))
            with m.If(special & ~escaped):
                m.d.comb += self.o.payload.eq(frames.ESCAPE)
                m.d.sync += escaped.eq(taken | escaped)
            with m.Else():
                m.d.comb += [self.o.payload.eq(plain ^ Mux(escaped, frames.FLIP, 0)),
                             moves.eq(taken)]
        with m.If(moves):
            m.d.sync += escaped.eq(0)
            with m.If(closing != 0):
                m.d.sync += closing.eq(closing + 1)
            with m.Elif(self.i.payload.last):
                m.d.sync += closing.eq(1)
        m.d.comb += [
            self.i.ready.eq(moves & (closing == 0)),
            check.data.eq(self.i.payload.byte), check.valid.eq(self.i.ready),
            check.start.eq(~open_),
        ]
        return m


class LinkServer(wiring.Component):
    """Performs requests.

    Memory is refused while a run is on (`busy`): the core has its port to itself.

    Members
    -------
    received, sent : bytes of the line; `ready` of `received` is ignored.
    mem : a memory port, as the core has one; never more than one beat is under way.
    addr, r_data, w_en, w_data : those of `fpga.gateware.registers.Registers`.
    busy : a run is on.
    dropped : a pulse for every frame that was dropped.
    """

    def __init__(self, config: AccelConfig):
        self._bus_bytes = config.bus_bytes
        super().__init__({
            "received": In(stream.Signature(8, always_ready=True)),
            "sent": Out(stream.Signature(8)), "mem": Out(memory_port(config)),
            "addr": Out(range(WORDS)), "r_data": In(32), "w_en": Out(1), "w_data": Out(32),
            "busy": In(1), "dropped": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.waiting = waiting = SyncFIFOBuffered(width=8, depth=WAITING)
        m.submodules.unframer = self._unframer = Unframer()
        m.submodules.framer = framer = Framer()
        m.submodules.leaving = self._leaving = Relay(frame_byte)
        wiring.connect(m, self._leaving.o, framer.i)
        m.submodules.kept = kept = memory.Memory(shape=8, depth=frames.LARGEST, init=[])
        self._write, read = kept.write_port(), kept.read_port()
        self._held = Signal(8)                  # a block RAM's output is late
        m.d.sync += self._held.eq(read.data)
        wiring.connect(m, framer.o, wiring.flipped(self.sent))
        self._sequence, self._kind = Signal(8), Signal(8)
        self._address, self._value, self._size = Signal(32), Signal(32), Signal(_SIZES)
        self._place, self._count = Signal(range(frames.LARGEST + 1)), Signal(
            range(frames.LARGEST + 1))
        self._refused = Signal()
        self._beat = Cat(Const(0, exact_log2(self._bus_bytes)),     # where the current beat begins
                         self._place[exact_log2(self._bus_bytes):])
        width = max(self._bus_bytes, 4)
        self._word, self._left = Signal(8 * width), Signal(range(width + 1))
        self._load, self._shift = Signal(), Signal()    # from a register; by a byte
        self._asks, self._came = Signal(), Signal()     # memory was asked, and has answered
        m.d.comb += [
            waiting.w_data.eq(self.received.payload), waiting.w_en.eq(self.received.valid),
            self._unframer.i.payload.eq(waiting.r_data), self.dropped.eq(self._unframer.bad),
            read.addr.eq(self._place), self.w_data.eq(self._value),
        ]
        m.d.sync += [self.addr.eq(self._address + self._place[2:]), self.w_en.eq(0)]
        requests = self._weigh(m)
        self._move(m)
        self._port(m)
        with m.FSM():
            with m.State("LISTEN"):
                m.d.comb += [self._unframer.i.valid.eq(waiting.r_rdy), waiting.r_en.eq(1)]
                self._listen(m)
                with m.If(self._unframer.good):
                    m.d.sync += [self._size.eq(self._unframer.size), self._place.eq(0)]
                    m.next = "WEIGH"
            with m.State("WEIGH"):              # the permissions are registered, a cycle later
                m.next = "JUDGE"
            with m.State("JUDGE"):
                self._judge(m, requests)
            self._perform_reads(m)
            self._perform_writes(m)
            self._answer(m)
        return m

    def _listen(self, m: Module) -> None:
        """Passes bytes of a frame to where they are needed."""
        frame = self._unframer
        with m.If(frame.valid):
            with m.Switch(frame.number):
                with m.Case(0):
                    m.d.sync += self._sequence.eq(frame.byte)
                with m.Case(1):
                    m.d.sync += self._kind.eq(frame.byte)
                for at in range(4):
                    with m.Case(2 + at):
                        m.d.sync += self._address.word_select(at, 8).eq(frame.byte)
            place = Signal(_SIZES)
            m.d.comb += place.eq(frame.number - HEAD)
            with m.If((frame.number >= HEAD) & (place < frames.LARGEST)):
                m.d.sync += [self._write.en.eq(1), self._write.addr.eq(place)]
            for at in range(4):
                with m.If(frame.number == HEAD + at):
                    m.d.sync += self._value.word_select(at, 8).eq(frame.byte)

    def _weigh(self, m: Module) -> dict[str, tuple[int, Value, Value]]:
        """For each state that performs a request: its kind, its number of bytes, and, a cycle after
        the frame has arrived, whether it may be performed.
        """
        size, last = Signal(_SIZES), self._value[:8]
        grain = exact_log2(frames.GRAIN)
        aligned = (self._address[:grain] == 0) & ~self.busy
        whole = (size != 0) & (size[:grain] == 0) & (self._size > HEAD)
        some = (size == 1) & (last < frames.LARGEST // 4)
        m.d.comb += size.eq(self._size - HEAD)
        requests = {
            "READ": (frames.READ, last + 1, aligned & (size == 1) & last[:grain].all()),
            "GATHER": (frames.WRITE, size, aligned & whole),
            "READ REGISTER": (frames.READ_REGISTERS, (last + 1) << 2,
                              some & (self._address + last < WORDS)),
            "WRITE REGISTER": (frames.WRITE_REGISTER, Const(0),
                               (size == 4) & (self._address < WORDS)),
        }
        known = {}
        for number, (state, (kind, count, allowed)) in enumerate(requests.items()):
            known[state] = kind, count, Signal(name=f"allowed{number}")
            m.d.sync += known[state][-1].eq(allowed)
        return known

    def _judge(self, m: Module, requests: dict[str, tuple[int, Value, Value]]) -> None:
        """Decides if a frame is a request that can be performed."""
        m.d.sync += [self._count.eq(0), self._refused.eq(1)]
        m.next = "ANSWER"
        with m.Switch(self._kind):
            for state, (kind, count, allowed) in requests.items():
                with m.Case(kind):
                    with m.If(allowed):
                        m.d.sync += [self._count.eq(count), self._refused.eq(0)]
                        m.next = state

    def _move(self, m: Module) -> None:
        """Moves bytes into the buffer and through the word, each a cycle after its state. The
        buffer takes a frame's byte, or the word's lowest, which leaves the word as a new one
        enters.
        """
        entered = Signal(8)
        m.d.sync += [entered.eq(self._unframer.byte), self._write.en.eq(0),
                     self._write.addr.eq(self._place), self._load.eq(0), self._shift.eq(0)]
        m.d.comb += self._write.data.eq(Mux(self._shift, self._word[:8], entered))
        with m.If(self._load):
            m.d.sync += self._word.eq(self.r_data)
        with m.If(self._shift):
            m.d.sync += self._word.eq(Cat(self._word[8:], self._held))

    def _port(self, m: Module) -> None:
        """Moves the current beat to or from memory once `_asks` is set; then sets `_came`."""
        request, wdata, rdata, ack = self.mem.request, self.mem.wdata, self.mem.rdata, self.mem.ack
        gives = Signal()
        m.d.sync += [request.p.write.eq(self._kind == frames.WRITE),
                     request.p.addr.eq(self._address + self._beat)]
        m.d.comb += [request.valid.eq(self._asks), wdata.valid.eq(gives),
                     wdata.p.data.eq(self._word[-8 * self._bus_bytes:]), wdata.p.mask.eq(-1),
                     rdata.ready.eq(1), ack.ready.eq(1)]
        with m.If(self._asks & request.ready):
            m.d.sync += [self._asks.eq(0), gives.eq(request.p.write)]
        with m.If(gives & wdata.ready):
            m.d.sync += gives.eq(0)
        with m.If(rdata.valid):
            m.d.sync += [self._came.eq(1), self._word.eq(rdata.p.data),
                         self._refused.eq(self._refused | rdata.p.error)]
        with m.If(ack.valid):
            m.d.sync += [self._came.eq(1), self._refused.eq(self._refused | ack.p.error)]

    def _perform_reads(self, m: Module) -> None:
        """Moves beats of memory, or registers, into the buffer, byte by byte."""
        with m.State("READ"):
            m.d.sync += self._asks.eq(1)
            m.next = "TAKE"
        with m.State("TAKE"):
            with m.If(self._came):
                m.d.sync += [self._came.eq(0), self._left.eq(self._bus_bytes)]
                m.next = "KEEP"
        with m.State("KEEP"):
            m.d.sync += [self._write.en.eq(1), self._shift.eq(1),
                         self._place.eq(self._place + 1), self._left.eq(self._left - 1)]
            with m.If(self._left == 1):
                memory_, over = self._kind == frames.READ, self._place + 1 == self._count
                with m.If(over):
                    m.next = "ANSWER"
                with m.Elif(memory_):
                    m.next = "READ"
                with m.Else():
                    m.next = "READ REGISTER"
        with m.State("READ REGISTER"):
            m.d.sync += self._left.eq(1 + READ_CYCLES)          # the address is in a register
            m.next = "WAIT REGISTER"
        with m.State("WAIT REGISTER"):
            m.d.sync += self._left.eq(self._left - 1)
            with m.If(self._left == 1):
                m.d.sync += [self._load.eq(1), self._left.eq(4)]
                m.next = "KEEP"

    def _perform_writes(self, m: Module) -> None:
        """Moves beats from the buffer, byte by byte, to memory; or a word to a register."""
        at = self._place[:exact_log2(self._bus_bytes)]
        with m.State("GATHER"):                 # the byte comes two cycles after its address
            m.next = "HOLD"
        with m.State("HOLD"):
            m.next = "SHIFT"
        with m.State("SHIFT"):
            m.d.sync += [self._shift.eq(1), self._place.eq(self._place + 1)]
            m.next = "GATHER"
            with m.If(at.all()):
                m.d.sync += self._place.eq(self._place)
                m.next = "WRITE"
        with m.State("WRITE"):
            m.d.sync += self._asks.eq(1)
            m.next = "WAIT"
        with m.State("WAIT"):
            with m.If(self._came):
                m.d.sync += [self._came.eq(0), self._place.eq(self._beat + self._bus_bytes)]
                m.next = "GATHER"
                with m.If(self._beat + self._bus_bytes == self._count):
                    m.next = "ANSWER"
        with m.State("WRITE REGISTER"):
            m.d.sync += self.w_en.eq(1)
            m.next = "ANSWER"

    def _answer(self, m: Module) -> None:
        """Sends sequence, kind, and the contents of the buffer."""
        out = self._leaving.i
        body, last = Signal.like(self._count), Signal()
        m.d.sync += [
            body.eq(Mux(self._refused | (self._kind == frames.WRITE), 0, self._count)),
            last.eq(self._place + 1 == body),           # known when its byte comes
        ]
        with m.State("ANSWER"):
            m.d.comb += [out.valid.eq(1), out.p.byte.eq(self._sequence)]
            m.d.sync += self._place.eq(0)
            with m.If(out.ready):
                m.next = "KIND"
        with m.State("KIND"):
            m.d.comb += [out.valid.eq(1), out.p.last.eq(body == 0), out.p.byte.eq(
                Mux(self._refused, frames.REFUSED, self._kind | frames.ANSWER))]
            with m.If(out.ready):
                m.next = "BYTE"
                with m.If(body == 0):
                    m.next = "LISTEN"
        with m.State("BYTE"):                   # comes two cycles after its address
            m.next = "COMING"
        with m.State("COMING"):
            m.next = "SEND"
        with m.State("SEND"):
            m.d.comb += [out.valid.eq(1), out.p.byte.eq(self._held),
                         out.p.last.eq(last)]
            with m.If(out.ready):
                m.d.sync += self._place.eq(self._place + 1)
                m.next = "BYTE"
                with m.If(out.p.last):
                    m.next = "LISTEN"
