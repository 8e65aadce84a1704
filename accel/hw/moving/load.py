"""The load unit: runs of bytes from DRAM, or padding, into the buffers that it has ports at."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.moving.arbiter import block_bits, burst_layout, read_port
from accel.hw.moving.beats import Beats, Overlap, fetched_layout
from accel.hw.moving.dma import BASE_REGISTERS, Front, Stepper, connect_unit, rotate
from accel.hw.interface import chunk_write, unit_signature
from accel.hw.parts import delayed, trail
from accel.hw.queue import Queue, relay
from accel.hw.moving.unpack import Unpack
from accel.machine.config import AccelConfig
from accel.machine.declare import unit_of
from accel.machine.structure import UnitKind

class Bursts(wiring.Component):
    """Cuts runs into requests to the memory, and hands the runs on to whoever takes the data.

    A run that is accepted in cycle t offers its first request in t + 1; one request a cycle,
    without a gap between runs. A run goes to `o` with its first request. Padding, and a run whose
    beats were all read before, makes no request and takes one cycle. When `o` is full, requests
    wait.

    Members
    -------
    i, o : runs.
    request : bursts.
    busy : a run is inside.
    """

    def __init__(self, config: AccelConfig):
        self._offset_bits, self._block_bits = exact_log2(config.bus_bytes), block_bits(config)
        self._run = fetched_layout(config)
        runs = stream.Signature(self._run)
        super().__init__({"i": In(runs), "o": Out(runs),
                          "request": Out(stream.Signature(burst_layout(config))), "busy": Out(1)})

    def elaborate(self, platform):
        m = Module()
        n, whole = self._offset_bits, self._block_bits
        within = whole - n
        run, fresh = Signal(self._run, reset_less=True), Signal()
        block = Signal(32 - whole, reset_less=True)
        beat, end = Signal(within, reset_less=True), Signal(17 - n, reset_less=True)
        # Beats count from the start of the block; `end` is the run's last one.
        begin, first_end = Signal(within + 1), Signal(17 - n)
        in_block, quiet = Signal(), Signal()
        requested, moves = Signal(), Signal()
        done = self.busy & in_block & moves
        started = self.i.p

        m.d.comb += [
            self.request.p.addr.eq(Cat(Const(0, n), beat, block)),
            self.request.p.last.eq(Mux(in_block, end[:within], (1 << within) - 1) - beat),
            self.request.valid.eq(self.busy & ~quiet & (~fresh | self.o.ready)),
            self.o.payload.eq(run),
            self.o.valid.eq(self.busy & fresh & (quiet | self.request.ready)),
            requested.eq(self.request.valid & self.request.ready),
            moves.eq((quiet | self.request.ready) & (~fresh | self.o.ready)),
            self.i.ready.eq(~self.busy | done),
            begin.eq(started.dram[n:whole] + started.again),
            first_end.eq((started.dram[:whole] + started.run)[n:]),
        ]
        with m.If(requested):
            m.d.sync += [fresh.eq(0), block.eq(block + 1), beat.eq(0),
                         end.eq(end - (1 << within)), in_block.eq(end[within:] == 1)]
        with m.If(self.i.ready):
            m.d.sync += [
                self.busy.eq(self.i.valid), run.eq(self.i.payload), fresh.eq(1),
                block.eq(started.dram[whole:] + begin[within]), beat.eq(begin),
                end.eq(first_end - (begin[within] << within)),
                quiet.eq(started.pad | ~first_end[within + 1:].any()
                         & (first_end[:within + 1] < begin)),
                in_block.eq(started.pad | (first_end[within:] <= begin[within])),
            ]
        return m


class Load(wiring.Component):
    """The load unit.

    An instruction taken in cycle t offers its first request to the arbiter in t + `load_cycles`,
    then one burst a cycle, up to `bursts` runs ahead of the data and across instructions. Data is
    at the buffer's port `chunk_cycles` after its step (`Stepper`), one a cycle, and completes its
    instruction there. What overlapping runs have in common is read once (`Overlap`).

    Members
    -------
    (those of `unit_signature`)
    bases : base registers.
    mem : read port at the arbiter.
    (the name of each buffer that it writes) : write ports.
    """

    def __init__(self, config: AccelConfig, unit: str = UnitKind.LOAD):
        self._config, self._unit = config, unit_of(config.structure, unit)
        super().__init__(unit_signature(config.structure) | {
            "bases": In(BASE_REGISTERS), "mem": Out(read_port(config)),
            **{name: Out(chunk_write(config, name)) for name in self._unit.writes},
        })

    def elaborate(self, platform):
        m = Module()
        config, timing = self._config, self._config.timing
        m.submodules.front = front = Front(config, self._unit.name)
        layout = fetched_layout(config)
        m.submodules.overlap = overlap = Overlap(config)
        m.submodules.incoming = incoming = relay(layout, timing.relay_cycles)
        m.submodules.bursts = bursts = Bursts(config)
        m.submodules.requests = requests = relay(burst_layout(config), timing.relay_cycles)
        m.submodules.beats = beats = Beats(config, self.mem.rdata.payload.shape())
        m.submodules.runs = runs = Queue(layout, timing.bursts, timing.queue_cycles)
        members = dict(layout.members)
        tag = data.StructLayout({name: members[name] for name in (
            "buffer", "pad_value", "pad_high", "bits", "last") if name in members})
        m.submodules.stepper = stepper = Stepper(
            config, exact_log2(timing.beats * config.bus_bytes), 24, tag, config.kept_beats)

        connect_unit(m, self, front)
        wiring.connect(m, front.run, overlap.i)
        wiring.connect(m, overlap.o, incoming.i)
        wiring.connect(m, incoming.o, bursts.i)
        wiring.connect(m, bursts.request, requests.i)
        wiring.connect(m, requests.o, wiring.flipped(self.mem.request))
        wiring.connect(m, wiring.flipped(self.mem.rdata), beats.i)
        wiring.connect(m, bursts.o, runs.i)
        run, step = runs.o.p, stepper.o.p
        m.d.comb += [
            front.bases.eq(self.bases),
            stepper.i.valid.eq(runs.o.valid), runs.o.ready.eq(stepper.i.ready),
            stepper.i.p.source.eq(Cat(run.dram[:exact_log2(config.bus_bytes)],
                                      stepper.next_beat - run.again)),
            stepper.i.p.again.eq(run.again), stepper.i.p.target.eq(run.address),
            stepper.i.p.run.eq(run.run), stepper.i.p.fill.eq(run.pad),
            *(stepper.i.p.tag[name].eq(run[name]) for name in tag.members),
            stepper.o.ready.eq(~step.take | beats.valid), beats.at.eq(step.beat),
            beats.late.eq(step.late),
            beats.take.eq(stepper.o.valid & step.take & beats.valid),
        ]
        written = self._write(m, stepper, beats, front)
        m.d.comb += front.drained.eq(
            ~(incoming.some | bursts.busy | runs.some | stepper.busy | written))
        return m

    def _write(self, m: Module, stepper: Stepper, beats: Beats, front: Front) -> Value:
        """The registers before the rotation and at the write ports; whether they hold a step."""
        step, fire = stepper.o.p, Signal()
        width = self._config.bus_bytes * 8
        pads = [step.tag[name] for name in ("pad_value", "pad_high")
                if name in dict(step.tag.shape())]
        padding = (Cat(pads).replicate(width // (8 * len(pads))) if width >= 8 * len(pads)
                   else Mux(step.chunk[0], pads[1], pads[0]))       # a chunk is one byte
        valid, failed = Signal(), Signal()
        done = Signal.like(step, reset_less=True)
        beat = Signal(width, reset_less=True)
        m.d.comb += [fire.eq(stepper.o.valid & stepper.o.ready), front.moving.eq(fire),
                     self.watched.steps.eq(fire), self.watched.ends.eq(step.end & step.tag.last)]
        m.d.sync += valid.eq(fire)
        completed = valid & done.end & done.tag.last
        with m.If(fire):
            m.d.sync += [
                done.eq(step),
                beat.eq(Mux(step.fill, padding, beats.data)),
                failed.eq(failed & ~completed | step.take & beats.error),
            ]
        with m.Elif(completed):
            m.d.sync += failed.eq(0)
        extra = self._config.timing.extra("chunk_cycles")
        held = trail(m, valid, extra, "held")
        completed, failed = (delayed(m, value, extra, name) for value, name in
                             ((completed, "completed"), (failed, "failed")))
        done, rotated = (delayed(m, value, extra, name, reset_less=True) for value, name in
                         ((done, "done"), (rotate(m, beat, done.rotate), "rotated")))
        valid, chunk, writing = held[-1], Signal(width, reset_less=True), Signal()
        address = Signal.like(done.chunk, reset_less=True)
        m.d.sync += [chunk.eq(rotated), address.eq(done.chunk),
                     writing.eq(valid), front.completed.eq(completed),
                     front.completed_error.eq(failed)]
        structure = self._config.structure
        for name in self._unit.writes:
            port, code = getattr(self, name), structure.buffer_names.index(name)
            if structure.buffer(name).packed and "bits" in dict(done.tag.shape()):
                m.submodules.unpack = unpack = Unpack(self._config, name)
                wiring.connect(m, unpack.write, wiring.flipped(port))
                m.d.comb += [
                    unpack.data.eq(rotated), unpack.addr.eq(done.chunk),
                    unpack.bits.eq(done.tag.bits),
                    unpack.mask.eq(Mux(valid & (done.tag.buffer == code),
                                       done.mask, 0))]
                continue
            mask = Signal.like(port.mask, name=f"{name}_mask", reset_less=True)
            m.d.sync += mask.eq(
                Mux(valid & (done.tag.buffer == code), done.mask, 0))
            m.d.comb += [port.addr.eq(address), port.data.eq(chunk), port.mask.eq(mask)]
        return Cat(held).any() | writing
