"""Several memory channels: every burst goes to that of its address, answers come back in order."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.interface import memory_port
from accel.hw.moving.arbiter import Arbiter, block_bits, read_port, write_port
from accel.hw.queue import Queue
from accel.machine.config import AccelConfig
from accel.machine.structure import FETCH


def channel_of(config: AccelConfig, addr: Value) -> Value:
    """The channel of an address: blocks, which no burst leaves, take turns."""
    low = block_bits(config)
    return addr[low:low + exact_log2(config.channels)]


def route_layout(config: AccelConfig) -> data.StructLayout:
    """A burst that was granted: its channel, and beats − 1."""
    return data.StructLayout({"channel": exact_log2(config.channels), "last": config.last_bits})



class Channels(wiring.Component):
    """An `Arbiter` for each channel; to clients it is as one.

    A client requests one burst a cycle, and moves one beat; different clients do so on different
    channels in the same cycle. It gets its beats and acknowledgements in the order of its requests.

    No client waits for another in a circle: whatever a client's oldest burst waits for on its
    channel was granted before it.

    Members
    -------
    fetch, and the names of the two units : the clients.
    (the names of `AccelConfig.memory_ports`) : the memories.
    open : bursts are under way.
    moved_{client} : the client moves a beat in this cycle.
    """

    def __init__(self, config: AccelConfig):
        self._config, roles = config, config.structure.roles
        self._spreads = {FETCH: ReadSpread, roles.load: ReadSpread, roles.store: WriteSpread}
        super().__init__({
            FETCH: In(read_port(config)), roles.load: In(read_port(config)),
            roles.store: In(write_port(config)), "open": Out(1),
            **{port: Out(memory_port(config)) for port in config.memory_ports},
            **{f"moved_{client}": Out(1) for client in config.structure.clients},
        })

    def elaborate(self, platform):
        m = Module()
        arbiters = [Arbiter(self._config) for _ in self._config.memory_ports]
        for number, arbiter in enumerate(arbiters):
            m.submodules[f"arbiter{number}"] = arbiter
            wiring.connect(m, arbiter.mem, wiring.flipped(
                getattr(self, self._config.memory_ports[number])))
        for client, made in self._spreads.items():
            m.submodules[client] = spread = made(self._config)
            wiring.connect(m, wiring.flipped(getattr(self, client)), spread.client)
            for arbiter, port in zip(arbiters, spread.ports, strict=True):
                wiring.connect(m, port, getattr(arbiter, client))
            m.d.comb += getattr(self, f"moved_{client}").eq(spread.moved)
        m.d.comb += self.open.eq(Cat(arbiter.open for arbiter in arbiters).any())
        return m


class ReadSpread(wiring.Component):
    """Spreads the reads of a client.

    Requests pass combinationally, as long as fewer than `bursts` are under way. Each channel has a
    queue of `AccelConfig.channel_beats` beats, so that one that is early leaves its memory to
    others; a beat reaches the client in the cycle after it came, or when its turn is.

    Members
    -------
    client : who reads.
    ports : the arbiters.
    moved : a beat reaches the client.
    """

    def __init__(self, config: AccelConfig):
        self._config = config
        super().__init__({"client": In(read_port(config)),
                          "ports": Out(read_port(config)).array(config.channels),
                          "moved": Out(1)})

    def elaborate(self, platform):
        m, config = Module(), self._config
        request, rdata = self.client.request, self.client.rdata
        m.submodules.order = order = Queue(route_layout(config), config.timing.bursts)
        pass_requests(m, config, request, order.i, [port.request for port in self.ports])
        beat, head = Signal(config.last_bits), order.o
        for number, port in enumerate(self.ports):
            m.submodules[f"beats{number}"] = beats = Queue(
                rdata.payload.shape(), config.channel_beats)
            wiring.connect(m, wiring.flipped(port.rdata), beats.i)
            with m.If(head.valid & (head.p.channel == number)):
                m.d.comb += [rdata.valid.eq(beats.o.valid), rdata.payload.eq(beats.o.payload),
                             beats.o.ready.eq(rdata.ready)]
        m.d.comb += [self.moved.eq(rdata.valid & rdata.ready),
                     head.ready.eq(self.moved & (beat == head.p.last))]
        with m.If(self.moved):
            m.d.sync += beat.eq(Mux(head.ready, 0, beat + 1))
        return m


class WriteSpread(wiring.Component):
    """Spreads the writes of a client.

    Requests pass combinationally, as long as fewer than `bursts` have no acknowledgement. Each
    channel has a queue of `AccelConfig.channel_beats` beats, so that a slow one leaves the client
    to others; a beat reaches its channel in the next cycle. An acknowledgement reaches the client
    in the cycle after it came, or when its turn is.

    Members
    -------
    client : who writes; it is always ready for `ack`.
    ports : the arbiters.
    moved : a beat leaves the client.
    """

    def __init__(self, config: AccelConfig):
        self._config = config
        super().__init__({"client": In(write_port(config)),
                          "ports": Out(write_port(config)).array(config.channels),
                          "moved": Out(1)})

    def elaborate(self, platform):
        m, config = Module(), self._config
        request, bursts = self.client.request, config.timing.bursts
        # Of bursts whose beats are to come, and of those without an answer, which are no fewer.
        m.submodules.order = order = Queue(route_layout(config), bursts)
        m.submodules.answers = answers = Queue(route_layout(config), bursts)
        pass_requests(m, config, request, answers.i, [port.request for port in self.ports])
        m.d.comb += [order.i.valid.eq(answers.i.valid), order.i.payload.eq(answers.i.payload)]
        self._beats(m, order.o)
        self._answers(m, answers.o)
        return m

    def _beats(self, m: Module, head) -> None:
        wdata, beat = self.client.wdata, Signal(self._config.last_bits)
        for number, port in enumerate(self.ports):
            m.submodules[f"beats{number}"] = beats = Queue(
                wdata.payload.shape(), self._config.channel_beats)
            wiring.connect(m, beats.o, wiring.flipped(port.wdata))
            m.d.comb += beats.i.payload.eq(wdata.payload)
            with m.If(head.valid & (head.p.channel == number)):
                m.d.comb += [beats.i.valid.eq(wdata.valid), wdata.ready.eq(beats.i.ready)]
        m.d.comb += [self.moved.eq(wdata.valid & wdata.ready),
                     head.ready.eq(self.moved & (beat == head.p.last))]
        with m.If(self.moved):
            m.d.sync += beat.eq(Mux(head.ready, 0, beat + 1))

    def _answers(self, m: Module, head) -> None:
        ack = self.client.ack
        for number, port in enumerate(self.ports):
            m.submodules[f"acks{number}"] = acks = Queue(
                ack.payload.shape(), self._config.timing.bursts)
            wiring.connect(m, wiring.flipped(port.ack), acks.i)
            with m.If(head.valid & (head.p.channel == number)):
                m.d.comb += [ack.valid.eq(acks.o.valid), ack.payload.eq(acks.o.payload),
                             acks.o.ready.eq(ack.ready)]
        m.d.comb += head.ready.eq(ack.valid & ack.ready)


def pass_requests(m: Module, config: AccelConfig, request, granted, ports: list) -> None:
    """Hands a client's request to the arbiter of its channel, and writes down that it has gone."""
    channel = channel_of(config, request.p.addr)
    for number, port in enumerate(ports):
        m.d.comb += port.payload.eq(request.payload)
        with m.If(channel == number):
            m.d.comb += [port.valid.eq(request.valid & granted.ready),
                         request.ready.eq(port.ready & granted.ready)]
    m.d.comb += [granted.valid.eq(request.valid & request.ready),
                 granted.p.channel.eq(channel), granted.p.last.eq(request.p.last)]
