"""Affine loop nests: an instruction's iterations, one a cycle."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.hw.parts import delayed, registered
from accel.hw.queue import Queue, tally
from accel.machine.timing import CoreTiming

COMPUTE_OPERANDS = {"dst": 16, "a": 16, "b": 16}
"""Operands of gemm and vector, and the bits of their addresses."""


class LoopNest(wiring.Component):
    """Runs the loops of an instruction, the last innermost.

    An instruction that is loaded in cycle t (`load`, only while `ready`) can make its first
    iteration in t + 1. One that is made in cycle s, with `step`, is at the outputs in
    s + `nest_cycles`, for one cycle. Throughput: one iteration a cycle; the next instruction can be
    loaded with the last step, so no cycle is lost between instructions.

    ::

        s        the loops count: which level moves, which begin again (from registers)
        s + 1    each level's offset of each operand: kept, moved by its stride, or zero
        s + 2    offsets summed up, half of them in either sum
        s + 3    addresses; further `nest_cycles` only hand them on

    Offsets never feed back into each other, so that all additions are short. Addresses are modulo
    two to the power of their width.

    Parameters
    ----------
    loops : layout of the loops: an array of structures with `extent` and a stride for each operand;
        with `before` and `after`, iterations near the ends are padding.
    operands : their names and widths.
    tag : shape of what is handed on with every iteration of an instruction.
    timing : the machine's.

    Members
    -------
    base, loops, tag : of the instruction, in the cycle of `load`.
    empty : with `load`: one iteration only, whatever the loops say.
    load, ready, step : see above.
    busy : there are iterations to make. made : one is made in this cycle.
    valid : an iteration is at the outputs; those above are its addresses.
    last : it is the instruction's last.
    first : all loops with dst stride 0 stand at 0: a reduction begins.
    pad : it is padding.
    out_tag : that of its instruction.
    """

    def __init__(self, loops: data.ArrayLayout, operands: dict[str, int], tag,
                 timing: CoreTiming):
        self.cycles, self._extra = timing.nest_cycles, timing.extra("nest_cycles")
        self.levels, self._operands = loops.length, operands
        self._padded = "before" in dict(loops.elem_shape)
        super().__init__({
            "base": In(data.StructLayout(operands)), "loops": In(loops), "tag": In(tag),
            "empty": In(1), "load": In(1), "ready": Out(1), "step": In(1),
            "busy": Out(1), "made": Out(1), "valid": Out(1), "first": Out(1),
            "last": Out(1), "pad": Out(1), "out_tag": Out(tag),
            "out": Out(data.StructLayout(operands)),
        })

    def elaborate(self, platform):
        m = Module()
        levels = [_Level(number, self._operands, self._padded) for number in range(self.levels)]
        last, begin = Signal(reset_less=True), Signal(reset_less=True)
        # What is seen from outside has a register of its own, as that inside has many ends.
        last_next = Signal()
        last_seen = registered(m, platform, last_next, "last_seen")
        base, tag = Signal.like(self.base, reset_less=True), Signal.like(self.tag, reset_less=True)
        ready = ~self.busy | (self.step & last)
        m.d.sync += last.eq(last_next)
        m.d.comb += [
            last_next.eq(last_seen),
            self.ready.eq(~self.busy | (self.step & last_seen)),
            self.made.eq(self.busy & self.step),
        ]
        with m.If(self.load):
            m.d.sync += self.busy.eq(1)
        with m.Elif(self.step & last_seen):
            m.d.sync += self.busy.eq(0)

        # Loading does not wait for `load`, which comes late: one that is ready has nothing to lose.
        with m.If(ready):
            m.d.sync += [begin.eq(1), base.eq(self.base), tag.eq(self.tag)]
            m.d.comb += last_next.eq(
                Cat(self.empty | (loop.extent == 0) for loop in self.loops).all())
            m.d.sync += [assignment for level in levels
                         for assignment in level.load(self.loops[level.number], self.empty)]
        with m.Elif(self.step):
            m.d.sync += begin.eq(0)
            ends = []
            for level in levels:
                inner_ended = Cat(inner.at_end for inner in levels[level.number + 1:]).all()
                moves = inner_ended & ~level.at_end
                m.d.sync += [level.moves.eq(moves), level.restarts.eq(inner_ended & level.at_end)]
                ends.append(Mux(moves, level.one_left,
                                Mux(inner_ended, level.single, level.at_end)))
                with m.If(moves):
                    m.d.sync += level.count()
                with m.Elif(inner_ended):
                    m.d.sync += level.restart()
            m.d.comb += last_next.eq(Cat(ends).all())

        for name, width in self._operands.items():
            offsets = [self._offset(m, level, name, width, begin, base[name]) for level in levels]
            halves = [Signal(width, name=f"{name}_half{half}", reset_less=True)
                      for half in range(2)]
            middle = len(levels) // 2
            m.d.sync += [half.eq(sum(some[1:], some[0])) for half, some in
                         zip(halves, (offsets[:middle], offsets[middle:]), strict=True)]
            address = Signal(width, name=f"{name}_address", reset_less=True)
            m.d.sync += address.eq(halves[0] + halves[1])
            m.d.comb += self.out[name].eq(
                delayed(m, address, self._extra, f"{name}_address", reset_less=True))
        flags = {"last": last, "tag": tag,
                 "first": Cat(level.neutral for level in levels).all()}
        self._hand_on(m, flags, [level.pads() for level in levels] if self._padded else [])
        return m

    def _offset(self, m: Module, level: "_Level", name: str, width: int, begin: Value,
                base: Value) -> Signal:
        """The offset that a level adds to an address; the outermost includes the base."""
        offset = Signal(width, name=f"{name}_offset{level.number}", reset_less=True)
        with m.If(self.step):
            with m.If(begin):
                m.d.sync += offset.eq(base if level.number == 0 else 0)
            with m.Elif(level.moves):
                m.d.sync += offset.eq(offset + level.stride[name])
            if level.number > 0:        # the outermost never begins again
                with m.Elif(level.restarts):
                    m.d.sync += offset.eq(0)
        return offset

    def _hand_on(self, m: Module, flags: dict[str, Value], pads: list[Value]):
        """Passes an iteration's tag and flags through the stages of its addresses."""
        valid = self.made
        for number in range(self.cycles):
            later = {name: Signal.like(value, name=f"{name}_{number}", reset_less=True)
                     for name, value in flags.items()}
            m.d.sync += [later[name].eq(value) for name, value in flags.items()]
            valid_later = Signal(name=f"valid_{number}")
            m.d.sync += valid_later.eq(valid)
            flags, valid = later, valid_later
            if pads:
                pad = [Signal(name=f"pad{number}_{level}", reset_less=True)
                       for level in range(len(pads))]
                m.d.sync += [register.eq(value) for register, value in zip(pad, pads, strict=True)]
                pads = pad
        m.d.comb += [self.valid.eq(valid), self.out_tag.eq(flags["tag"]),
                     self.pad.eq(Cat(pads).any()),
                     *(getattr(self, name).eq(flags[name]) for name in ("last", "first"))]


class _Level:
    """Registers of one loop, and how they change."""

    def __init__(self, number: int, operands: dict[str, int], padded: bool):
        def register(name, width):
            return Signal(width, name=f"{name}{number}", reset_less=True)

        self.number, self.padded = number, padded
        self.extent = register("extent", 16)                # minus one, as in the word
        self.left = register("left", 16)                    # iterations after this one
        self.single = register("single", 1)                 # extent is 1
        self.double = register("double", 1)                 # extent is 2
        self.at_end = register("at_end", 1)                 # left is 0
        self.one_left = register("one_left", 1)             # left is 1
        self.moves_dst = register("moves_dst", 1)
        self.neutral = register("neutral", 1)               # stands at 0, or moves dst
        self.moves = register("moves", 1)                   # moved to this iteration
        self.restarts = register("restarts", 1)             # began again with this iteration
        self.stride = {name: register(f"{name}_stride", width)
                       for name, width in operands.items()}
        if padded:
            self.at = register("at", 16)
            self.before, self.after = register("before", 12), register("after", 12)

    def load(self, fields, empty: Value):
        single = empty | (fields.extent == 0)
        double = ~empty & (fields.extent == 1)
        moves_dst = fields.dst != 0 if "dst" in self.stride else Const(0)
        pads = [self.at.eq(0), self.before.eq(fields.before), self.after.eq(fields.after)] \
            if self.padded else []
        return [self.extent.eq(fields.extent), self.left.eq(fields.extent),
                self.single.eq(single), self.at_end.eq(single),
                self.double.eq(double), self.one_left.eq(double),
                self.moves_dst.eq(moves_dst), self.neutral.eq(1), *pads,
                *(register.eq(fields[name]) for name, register in self.stride.items())]

    def count(self):
        pads = [self.at.eq(self.at + 1)] if self.padded else []
        return [self.left.eq(self.left - 1), self.at_end.eq(self.one_left),
                self.one_left.eq(self.left == 2), self.neutral.eq(self.moves_dst), *pads]

    def restart(self):
        pads = [self.at.eq(0)] if self.padded else []
        return [self.left.eq(self.extent), self.at_end.eq(self.single),
                self.one_left.eq(self.double), self.neutral.eq(1), *pads]

    def pads(self) -> Value:
        return (self.at < self.before) | (self.left < self.after)


class Ahead(wiring.Component):
    """Iterations between the loops, which have made them, and what takes them when it can.

    The loops may make one (`step`) while fewer than `depth` (by default `ahead`) were made and not
    taken. Latency from `i` to `o` `queue_cycles`, one a cycle.

    Members
    -------
    made : the loops make an iteration. step : they may.
    valid, i : an iteration.
    o : iterations.
    some : iterations are made and not taken.
    """

    def __init__(self, shape, timing: CoreTiming, depth: int | None = None):
        self._shape, self._timing, self._depth = shape, timing, depth or timing.ahead
        super().__init__({"made": In(1), "step": Out(1), "valid": In(1), "i": In(shape),
                          "o": Out(stream.Signature(shape)), "some": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(
            self._shape, self._depth, self._timing.queue_cycles)
        _, some, full = tally(m, "made", self._depth, self.made, self.o.valid & self.o.ready)
        m.d.comb += [self.step.eq(~full), self.some.eq(some),
                     queue.i.valid.eq(self.valid), queue.i.payload.eq(self.i)]
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        return m
