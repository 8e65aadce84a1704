"""The store unit: runs of bytes from buffers into DRAM."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.moving.arbiter import block_bits, burst_layout, write_port
from accel.hw.moving.dma import BASE_REGISTERS, Front, Stepper, connect_unit, merge, rotate
from accel.hw.interface import unit_signature
from accel.hw.queue import Queue, tally
from accel.hw.moving.scratchpad import chunk_read
from accel.machine.config import AccelConfig
from accel.machine.declare import unit_of
from accel.machine.structure import UnitKind


class BurstWriter(wiring.Component):
    """Collects beats into bursts, requests each when its last beat is there, and counts answers.

    A burst ends where its run ends and at boundaries of 64 bytes. The last beat accepted in cycle
    t offers its request in t + `queue_cycles`. There is room for `CoreTiming.write_room` beats.

    Members
    -------
    beat : pulse: a beat to accept; `addr` is its address in beats, `end` that of a run, `last`
        that of an instruction.
    spent : pulse: a beat has left; the sender counts so as never to exceed `depth`.
    mem : write port at the arbiter.
    completed, completed_error : pulse: all writes of an instruction are acknowledged.
    open : beats or acknowledgements are outstanding.
    """

    def __init__(self, config: AccelConfig):
        self._config = config
        self._offset_bits = offset = exact_log2(config.bus_bytes)
        self.depth = config.timing.write_room(config.bus_bytes)
        wdata = data.StructLayout({"data": config.bus_bytes * 8, "mask": config.bus_bytes})
        super().__init__({
            "beat": In(data.StructLayout({"valid": 1, "addr": 32 - offset, "end": 1, "last": 1,
                                          "wdata": wdata})),
            "spent": Out(1), "mem": Out(write_port(config)),
            "completed": Out(1), "completed_error": Out(1), "open": Out(1),
        })

    def elaborate(self, platform):
        m, timing = Module(), self._config.timing
        beat, mem = self.beat, self.mem
        m.submodules.beats = beats = Queue(beat.wdata.shape(), self.depth, timing.queue_cycles)
        m.submodules.bursts = bursts = Queue(
            data.StructLayout({"burst": burst_layout(self._config), "last": 1}), self.depth,
            timing.queue_cycles)
        # For each request, whether it is the last of its instruction: there before its answer.
        m.submodules.answers = answers = Queue(1, timing.bursts, 2)

        in_block = beat.addr[:block_bits(self._config) - self._offset_bits]
        before = Signal(range(self.depth))                      # beats of this burst so far
        burst_ends = beat.end | in_block.all()
        with m.If(beat.valid):
            m.d.sync += before.eq(Mux(burst_ends, 0, before + 1))
        m.d.comb += [
            beats.i.valid.eq(beat.valid), beats.i.payload.eq(beat.wdata),
            bursts.i.valid.eq(beat.valid & burst_ends), bursts.i.p.last.eq(beat.last),
            bursts.i.p.burst.last.eq(before),
            bursts.i.p.burst.addr.eq(Cat(Const(0, self._offset_bits), beat.addr - before)),
        ]
        wiring.connect(m, beats.o, wiring.flipped(mem.wdata))
        requested, last, bad = Signal(), Signal(), Signal()
        m.d.sync += [requested.eq(mem.request.valid & mem.request.ready),
                     last.eq(bursts.o.p.last)]
        m.d.comb += [
            mem.request.payload.eq(bursts.o.p.burst), mem.request.valid.eq(bursts.o.valid),
            bursts.o.ready.eq(mem.request.ready),
            answers.i.valid.eq(requested), answers.i.payload.eq(last),
            mem.ack.ready.eq(1), answers.o.ready.eq(mem.ack.valid),
            self.spent.eq(mem.wdata.valid & mem.wdata.ready),
            self.completed.eq(mem.ack.valid & answers.o.payload),
            self.completed_error.eq(bad | mem.ack.p.error),
            self.open.eq(beats.some | requested | answers.some),
        ]
        with m.If(mem.ack.valid):
            m.d.sync += bad.eq(~self.completed & self.completed_error)
        return m


class Store(wiring.Component):
    """The store unit.

    An instruction taken in cycle t reads its first chunk in t + `store_cycles`; a beat is formed
    `form_cycles` after its last chunk is addressed, one step (`Stepper`) a cycle. A burst is
    requested from the arbiter `queue_cycles` after its last beat is formed; two bursts fit on the
    way, so that long runs write one beat a cycle. Consecutive instructions overlap. An instruction
    asks for its signals `queue_cycles` after its last acknowledgement.

    Members
    -------
    (those of `unit_signature`)
    bases : base registers.
    mem : write port at the arbiter.
    (the name of each buffer that it reads) : read ports.
    """

    def __init__(self, config: AccelConfig, unit: str = UnitKind.STORE):
        self._config, self._unit = config, unit_of(config.structure, unit)
        super().__init__(unit_signature(config.structure) | {
            "bases": In(BASE_REGISTERS), "mem": Out(write_port(config)),
            **{name: Out(chunk_read(config, name)) for name in self._unit.reads},
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.front = front = Front(config, self._unit.name)
        # Which buffer a step reads, where there are several.
        several = {"buffer": len(front.run.p.buffer)} if len(self._unit.reads) > 1 else {}
        m.submodules.stepper = stepper = Stepper(config, 24, 32, data.StructLayout(
            {"last": 1, **several}))
        m.submodules.writer = writer = BurstWriter(config)

        connect_unit(m, self, front)
        wiring.connect(m, writer.mem, wiring.flipped(self.mem))
        run, step, fire = front.run.p, stepper.o.p, Signal(name="fire")
        # Beats on the way from here to the memory.
        _, some, full = tally(m, "used", writer.depth, fire & step.write, writer.spent)
        m.d.comb += [
            front.bases.eq(self.bases),
            stepper.i.valid.eq(front.run.valid), front.run.ready.eq(stepper.i.ready),
            stepper.i.p.source.eq(run.address), stepper.i.p.target.eq(run.dram),
            stepper.i.p.run.eq(run.run),
            *(stepper.i.p.tag[name].eq(run[name]) for name in ("last", *several)),
            stepper.o.ready.eq(~full),
            fire.eq(stepper.o.valid & stepper.o.ready),
            front.completed.eq(writer.completed), front.completed_error.eq(writer.completed_error),
            front.moving.eq(fire | writer.spent),
            self.watched.steps.eq(fire), self.watched.forms.eq(step.write),
            self.watched.ends.eq(step.end & step.tag.last), self.watched.leaves.eq(writer.spent),
            front.drained.eq(~(stepper.busy | writer.open | some)),
        ]
        for port, code in self._ports():
            takes = fire & step.take
            m.d.comb += [port.addr.eq(step.beat), port.en.eq(
                takes & (step.tag.buffer == code) if several else takes)]
        self._form(m, step, fire, writer)
        return m

    def _ports(self) -> list[tuple]:
        """The read ports, with the codes of their buffers."""
        codes = self._config.structure.buffer_names
        return [(getattr(self, name), codes.index(name)) for name in self._unit.reads]

    def _form(self, m: Module, step, fire: Signal, writer: BurstWriter):
        """A step waits for its chunk, then passes the rotation and its register."""
        width = self._config.bus_bytes * 8
        stages = [(step, fire)]
        for index in range(self._config.timing.form_cycles):
            valid = Signal(name=f"valid{index}")
            stage = Signal.like(step, name=f"stage{index}", reset_less=True)
            m.d.sync += [valid.eq(stages[-1][1]), stage.eq(stages[-1][0])]
            stages.append((stage, valid))
        (read, read_valid), (done, done_valid) = stages[-2:]
        beat, previous = Signal(width, reset_less=True), Signal(width, reset_less=True)
        (first, _), *others = self._ports()
        chunk = first.data
        for port, code in others:
            chunk = Mux(read.tag.buffer == code, port.data, chunk)
        with m.If(read_valid):
            m.d.sync += [beat.eq(merge(chunk, previous, read.late)),
                         previous.eq(chunk)]
        m.d.comb += [
            writer.beat.valid.eq(done_valid & done.write),
            writer.beat.addr.eq(done.chunk), writer.beat.end.eq(done.end),
            writer.beat.last.eq(done.end & done.tag.last),
            writer.beat.wdata.data.eq(rotate(m, beat, done.rotate)),
            writer.beat.wdata.mask.eq(done.mask),
        ]
