"""gemm's iterations on their way into a systolic array."""

from typing import Any

from amaranth.hdl import *
from amaranth.lib import data

from accel.datapath.array import SystolicArray
from accel.hw.compute.systolic import OutputStationary, WeightStationary
from accel.hw.compute.weights import WeightLoader
from accel.hw.issue import Issue
from accel.hw.loops import COMPUTE_OPERANDS, Ahead, LoopNest
from accel.hw.parts import delayed
from accel.machine.config import AccelConfig, BufferGeometry

HANDED = ("dst", "a")
"""Addresses of an iteration that are handed on beside weights."""



class Iterations:
    """Iterations, as `LoopNest` shows its own."""

    def __init__(self, out: Any, out_tag: Any, first: Value, last: Value, valid: Value):
        self.out, self.out_tag, self.first, self.last, self.valid = (
            out, out_tag, first, last, valid)


class Feed:
    """An array of gemm, with what it takes and what then meets acc.

    Parameters
    ----------
    array : its hardware.
    reads : the iterations whose operands are read.
    right : what reads the weights instead; None where iterations do.
    elements, assigns : the iterations that meet acc, and whether they assign, where that is known.
    """

    def __init__(self, array: WeightStationary | OutputStationary, reads: Any,
                 right: WeightLoader | None, elements: Any, assigns: Value | None):
        self.array, self.reads, self.right = array, reads, right
        self.elements, self.assigns = elements, assigns


def keep_weights(m: Module, array: SystolicArray, config: AccelConfig, columns: BufferGeometry,
                 nest: LoopNest, issue: Issue, tag: data.StructLayout) -> Feed:
    """Makes iterations wait for the weights of their tiles, which are in the buffer `columns`.

    Other weights are needed by the first iteration of an instruction, since load may have written
    the buffer in between, and by one with another `b` than the one before.
    """
    m.submodules.array = datapath = WeightStationary(
        array, config.dsp_multipliers)
    m.submodules.loader = loader = WeightLoader(array, columns, config.timing)
    m.submodules.ahead = ahead = Ahead(data.StructLayout({
        "places": data.StructLayout({name: COMPUTE_OPERANDS[name] for name in HANDED}),
        "first": 1, "last": 1, "fresh": 1, "out_tag": tag}), config.timing, array.ahead)
    tile, begins, fresh = Signal.like(nest.out.b, reset_less=True), Signal(init=1), Signal()
    with m.If(nest.valid):
        m.d.sync += [tile.eq(nest.out.b), begins.eq(nest.last)]
    coming, go, valid = ahead.o.p, Signal(), Signal()
    m.d.comb += [
        fresh.eq(begins | (nest.out.b != tile)),
        loader.valid.eq(nest.valid & fresh), loader.tile.eq(nest.out.b),
        nest.step.eq(ahead.step), ahead.made.eq(nest.made), ahead.valid.eq(nest.valid),
        *(ahead.i.places[name].eq(nest.out[name]) for name in HANDED),
        *(ahead.i[name].eq(getattr(nest, name))
          for name in ("first", "last", "out_tag")),
        ahead.i.fresh.eq(fresh),
        go.eq(~coming.fresh | loader.full), ahead.o.ready.eq(go), valid.eq(ahead.o.valid & go),
        loader.taken.eq(valid & coming.fresh),
        datapath.shift.eq(loader.shift), datapath.switch.eq(loader.switch),
        issue.working.eq(nest.busy | ahead.some), issue.standing.eq(ahead.o.valid & ~go),
    ]
    issued = Iterations(coming.places, coming.out_tag, coming.first, coming.last, valid)
    return Feed(datapath, issued, loader, issued, None)


def keep_sums(m: Module, array: SystolicArray, config: AccelConfig, nest: LoopNest, assigns: Value,
              tag: data.StructLayout) -> Feed:
    """Makes one of iterations of an instruction that follow each other into one destination: the
    last of them meets acc, a cycle later than the loops show it, and assigns if the first, or a
    later one, did (`assigns`)."""
    m.submodules.array = datapath = OutputStationary(array, config.dsp_multipliers)
    seen = Signal(data.StructLayout({"dst": COMPUTE_OPERANDS["dst"], "tag": tag}),
                  name="seen", reset_less=True)
    there, last, first = Signal(), Signal(init=1), Const(0)
    begins, ends, assigned = Signal(), Signal(), Signal(reset_less=True)
    differs = nest.out.dst != seen.dst
    m.d.sync += there.eq(nest.valid)
    with m.If(nest.valid):
        m.d.sync += [seen.dst.eq(nest.out.dst), seen.tag.eq(nest.out_tag), last.eq(nest.last),
                     assigned.eq(assigns | ~begins & assigned)]
    m.d.comb += [
        begins.eq(last | differs), ends.eq(there & (last | differs)),
        datapath.restart.eq(delayed(m, begins | assigns, config.timing.read_cycles, "restart",
                                    reset_less=True))]
    return Feed(datapath, nest, None, Iterations(seen, seen.tag, first, last, ends), assigned)
