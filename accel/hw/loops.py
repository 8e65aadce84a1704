"""Affine loop nests: an instruction's iterations, one a cycle."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["OPERANDS", "LoopNest"]

OPERANDS = ("dst", "a", "b")
ADDRESS_BITS = 16


class LoopNest(wiring.Component):
    """Runs the loops of an instruction, the last innermost.

    An instruction that is loaded in cycle t (`load`, only while `ready`) has its first iteration at
    the outputs in t + 1; with `step`, the next one follows in the next cycle. Throughput: one
    iteration a cycle; the next instruction can be loaded with the last step, so no cycle is
    lost between instructions.

    For each level and operand a pointer to where the current iteration of that level began is
    kept, so a step is one multiplexer and one addition, modulo 2**16, however many levels end.
    Comparisons with extents are made a step ahead.

    Members
    -------
    base, loops : of the instruction word, in the cycle of `load`.
    empty : with `load`: one iteration only, whatever the loops say.
    load, ready, step : see above.
    valid : an iteration is there.
    dst, a, b : its entry addresses.
    begin, last : it is the instruction's first or last.
    first : all loops with dst stride 0 stand at 0: a reduction begins.
    """

    def __init__(self, layout: data.StructLayout):
        loops = layout["loops"].shape
        self.levels = loops.length
        super().__init__({
            "base": In(layout["base"].shape), "loops": In(loops), "empty": In(1),
            "load": In(1), "ready": Out(1), "step": In(1),
            "valid": Out(1), **{name: Out(ADDRESS_BITS) for name in OPERANDS},
            "begin": Out(1), "first": Out(1), "last": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        levels = [_Level(number) for number in range(self.levels)]
        m.d.comb += [
            self.last.eq(Cat(level.at_end for level in levels).all()),
            self.first.eq(Cat(level.neutral for level in levels).all()),
            self.ready.eq(~self.valid | (self.step & self.last)),
        ]
        with m.If(self.load):
            m.d.sync += self.valid.eq(1)
        with m.Elif(self.step & self.last):
            m.d.sync += self.valid.eq(0)

        for level in levels:
            level.inner_ended = Cat(one.at_end for one in levels[level.number + 1:]).all()
            m.d.comb += level.counts.eq(level.inner_ended & ~level.at_end)
        # Loading does not wait for `load`, which comes late: one that is ready has nothing to lose.
        with m.If(self.ready):
            m.d.sync += self.begin.eq(1)
            m.d.sync += [assignment for level in levels
                         for assignment in level.load(self.loops[level.number], self.empty)]
        with m.Elif(self.step):
            m.d.sync += self.begin.eq(0)
            for level in levels:
                with m.If(level.counts):
                    m.d.sync += level.count()
                with m.Elif(level.inner_ended):
                    m.d.sync += level.restart()
        for name in OPERANDS:
            self._pointers(m, levels, name)
        return m

    def _pointers(self, m: Module, levels: list["_Level"], name: str):
        starts = [level.start[name] for level in levels]
        after = Signal(ADDRESS_BITS, name=f"{name}_after")
        m.d.comb += [
            after.eq(_chosen(levels, starts)
                     + _chosen(levels, [level.stride[name] for level in levels])),
            getattr(self, name).eq(starts[-1]),
        ]
        for level in levels:
            with m.If(self.ready):
                m.d.sync += level.start[name].eq(self.base[name])
            with m.Elif(self.step & level.inner_ended):
                m.d.sync += level.start[name].eq(after)


def _chosen(levels: list["_Level"], values: list[Signal]) -> Value:
    """The value of the level that counts."""
    result: Value = Const(0, ADDRESS_BITS)
    for level, value in zip(levels, values, strict=True):
        result = result | Mux(level.counts, value, 0)
    return result


class _Level:
    """Registers of one loop, and how they change."""

    def __init__(self, number: int):
        def register(name, width):
            return Signal(width, name=f"{name}{number}", reset_less=True)

        self.number = number
        self.extent = register("extent", ADDRESS_BITS)      # minus one, as in the word
        self.left = register("left", ADDRESS_BITS)          # iterations after this one
        self.single = register("single", 1)                 # extent is 1
        self.double = register("double", 1)                 # extent is 2
        self.at_end = register("at_end", 1)                 # left is 0
        self.one_left = register("one_left", 1)             # left is 1
        self.moves_dst = register("moves_dst", 1)
        self.neutral = register("neutral", 1)               # stands at 0, or moves dst
        self.stride = {name: register(f"{name}_stride", ADDRESS_BITS) for name in OPERANDS}
        self.start = {name: register(f"{name}_start", ADDRESS_BITS) for name in OPERANDS}
        self.counts = Signal(name=f"counts{number}")
        self.inner_ended: Value = Const(1, 1)

    def load(self, fields, empty: Value):
        single = empty | (fields.extent == 0)
        double = ~empty & (fields.extent == 1)
        return [self.extent.eq(fields.extent), self.left.eq(fields.extent),
                self.single.eq(single), self.at_end.eq(single),
                self.double.eq(double), self.one_left.eq(double),
                self.moves_dst.eq(fields.dst != 0), self.neutral.eq(1),
                *(self.stride[name].eq(fields[name]) for name in OPERANDS)]

    def count(self):
        return [self.left.eq(self.left - 1), self.at_end.eq(self.one_left),
                self.one_left.eq(self.left == 2), self.neutral.eq(self.moves_dst)]

    def restart(self):
        return [self.left.eq(self.extent), self.at_end.eq(self.single),
                self.one_left.eq(self.double), self.neutral.eq(1)]
