"""C++ of small components does what Amaranth's simulator says, cycle by cycle."""

import ctypes
from collections.abc import Callable
from random import Random

import pytest
from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from accel.sim.slice.chunks import chunks_of
from accel.sim.slice.emit import emit
from accel.sim.slice.graph import graph_of
from accel.sim.slice.netlist import netlist_of
from accel.sim.slice.simplify import simplified
from accel.sim.slice.slicing import live_bits
from compiler.native import library_of

Build = Callable[[Module, "Box"], object]
WORDS = 4           # of 64 bits, of each port in the driver


class Box(wiring.Component):
    """Inputs a, b (70 bits), c, s (signed), outputs x (70 bits), y, z; `build` says what is in."""

    def __init__(self, build: Build):
        self._build = build
        super().__init__({"a": In(70), "b": In(70), "c": In(4), "s": In(signed(12)), "x": Out(70),
                          "y": Out(64), "z": Out(12)})

    def elaborate(self, platform):
        m = Module()
        clocked = Signal()
        m.d.sync += clocked.eq(~clocked)
        self._build(m, self)
        return m


def bitwise(m: Module, box: Box) -> None:
    m.d.comb += [box.x.eq((box.a & ~box.b) | (box.a ^ box.b)),
                 box.y.eq(Mux(box.c[0], box.a, ~box.b)),
                 box.z.eq(Cat(box.a == box.b, box.a != box.b, box.a.any(), box.a.all(), box.c.xor(),
                              box.c.bool(), box.c.matches("1-0-"), box.s < 0, box.c > 7))]


def arithmetic(m: Module, box: Box) -> None:
    a, b = box.a[:30], box.b[:30]
    m.d.comb += [box.x.eq(Cat(a + b, (a - b)[:31])), box.y.eq(a * b),
                 box.z.eq(Mux(box.s > box.c.as_signed(), -box.s, box.s >> box.c))]


def parts(m: Module, box: Box) -> None:
    m.d.comb += [box.x.eq(Cat(box.a.word_select(box.c, 5), box.b.bit_select(box.c, 9),
                              box.s.bit_select(box.c, 8), box.a[:40].bit_select(box.c, 33))),
                 box.y.eq(box.b[:20] << box.c), box.z.eq(Array([1, 5, box.c, 9])[box.c[:2]])]


def processes(m: Module, box: Box) -> None:
    """Registers that a few conditions write, in parts, and a word that depends on itself."""
    kept = Signal(70)
    with m.Switch(box.c):
        with m.Case("1--0", "0011"):
            m.d.sync += kept.eq(Cat(kept[1:], ~kept[0]))
        with m.Case(2):
            m.d.sync += kept[60:].eq(box.a)
        with m.Default():
            with m.If(box.a[0]):
                m.d.sync += box.y.eq(box.y + box.s)
            with m.Elif(box.b[0]):
                m.d.sync += [box.y[8:16].eq(box.b), kept.eq(box.a)]
    with m.If(1):
        m.d.comb += box.x.eq(kept)
    with m.Elif(box.c[1]):
        m.d.comb += box.x.eq(~kept)
    chain = Signal(12)
    m.d.comb += [chain.eq(Cat(box.a[0], (chain ^ box.s)[:11])), box.z.eq(chain)]


def swapped(m: Module, box: Box) -> None:
    """Registers that read each other."""
    p, q = Signal(12, init=5), Signal(12, init=9)
    m.d.sync += [p.eq(q), q.eq(p + box.c)]
    m.d.comb += [box.z.eq(p ^ q), box.y.eq(p)]


def memories(m: Module, box: Box) -> None:
    """Reads with and without a register, transparent or not, and writes of parts of rows."""
    m.submodules.kept = kept = memory.Memory(shape=70, depth=12, init=[3, 1 << 69])
    write = kept.write_port(granularity=10)
    clocked = read, late = kept.read_port(transparent_for=[write]), kept.read_port()
    now = kept.read_port(domain="comb")
    m.d.comb += [write.addr.eq(Mux(box.c < 12, box.c, 0)),
                 write.data.eq(box.a), write.en.eq(box.b[:7]),
                 *(port.addr.eq(Mux(box.s[:4] < 12, box.s[:4], 1)) for port in (*clocked, now)),
                 *(port.en.eq(box.b[8]) for port in clocked),
                 box.x.eq(read.data), box.y.eq(late.data), box.z.eq(now.data[60:])]


def queue(m: Module, box: Box) -> None:
    """A memory whose address moves on where a row is written; one with two writers."""
    m.submodules.rows = rows = memory.Memory(shape=70, depth=16, init=[])
    write, read, other = rows.write_port(), rows.read_port(domain="comb"), Signal(12)
    push = Signal()
    with m.If(push):
        m.d.sync += write.addr.eq(write.addr + 1)
    m.d.comb += [push.eq(box.c[0] & ~box.c[1]), write.data.eq(box.a), write.en.eq(push),
                 read.addr.eq(box.s), box.x.eq(read.data)]
    m.submodules.shared = shared = memory.Memory(shape=12, depth=4, init=[7])
    ports = [shared.write_port(), shared.write_port()]
    last = shared.read_port(domain="comb")
    m.d.sync += other.eq(other + box.s)
    m.d.comb += [ports[0].addr.eq(1), ports[0].data.eq(box.a), ports[0].en.eq(box.b[0]),
                 ports[1].addr.eq(Mux(box.b[0], 2, 1)), ports[1].data.eq(other),
                 ports[1].en.eq(box.b[1]), last.addr.eq(box.c), box.z.eq(last.data)]


def submodules(m: Module, box: Box) -> None:
    """A path that leaves a module and comes back."""
    m.submodules.inner = inner = Module()
    half, back, kept = Signal(70), Signal(70), Signal(70)
    inner.d.comb += [half.eq(box.a ^ 5), box.y.eq(back & kept)]
    inner.d.sync += kept.eq(back)
    m.d.comb += [back.eq(Cat(half[1:], half[0]) | box.b), box.x.eq(kept), box.z.eq(back[3:])]


DRIVER = """
#include "core.h"
extern "C" {{
Core *box_new() {{ return new Core; }}
void box_free(Core *box) {{ delete box; }}
void box_cycle(Core *box, const uint64_t *in, uint64_t *out) {{
    {early} box->early(); {late} box->late(); box->cold(); {gets} box->commit();
}}
}}
"""


def compiled(box: Box, late: tuple[str, ...] = (), cold: tuple[str, ...] = ()) -> ctypes.CDLL:
    netlist = netlist_of(box, "core")
    live = live_bits(netlist, (net for value in netlist.outputs.values() for net in value))
    graph = simplified(graph_of(netlist, live, [*netlist.outputs]), {"rst": 0, "clk": 0})
    sets = {name: f"box->set_{name}(in + {WORDS * place});" for place, name in enumerate("abcs")
            if name in graph.inputs}
    text = DRIVER.format(
        early=" ".join(text for name, text in sets.items() if name not in late),
        late=" ".join(text for name, text in sets.items() if name in late),
        gets=" ".join(f"box->get_{name}(out + {WORDS * place});"
                      for place, name in enumerate("xyz")))
    library = library_of("box", "a box", {"box.cpp": text, "core.h": emit(
        graph, chunks_of(graph, late), cold)}, ("-O0", "-Wall", "-Wextra", "-Wno-parentheses"))
    library.box_new.restype = ctypes.c_void_p
    return library


@pytest.mark.one_in(4)
@pytest.mark.parametrize("late", [(), ("b", "c")])
@pytest.mark.parametrize("build", [bitwise, arithmetic, parts, processes, swapped, memories, queue,
                                   submodules])
def test_it_does_what_the_hardware_does(build: Build, late: tuple[str, ...]) -> None:
    box, random = Box(build), Random(build.__name__)
    library = compiled(box, late, ("z",) if late else ())
    core = ctypes.c_void_p(library.box_new())
    simulator = Simulator(box)
    simulator.add_clock(1e-6)

    async def bench(context) -> None:
        given = dict.fromkeys("abcs", 0)
        for cycle in range(300):
            for name in given:
                if random.random() < 0.6:           # else it stays, and few chunks run
                    width = len(getattr(box, name))
                    given[name] = random.getrandbits(width)
            values = (ctypes.c_uint64 * (4 * WORDS))()
            for place, (name, value) in enumerate(given.items()):
                port = getattr(box, name)
                context.set(port, value - (1 << 12) * (value >> 11) if name == "s" else value)
                for word in range(WORDS):
                    values[WORDS * place + word] = value >> 64 * word & (1 << 64) - 1
            shown = (ctypes.c_uint64 * (3 * WORDS))()
            library.box_cycle(core, values, shown)
            for place, name in enumerate("xyz"):
                value = sum(shown[WORDS * place + word] << 64 * word for word in range(WORDS))
                assert value == context.get(getattr(box, name)), (name, cycle)
            await context.tick()

    simulator.add_testbench(bench)
    simulator.run()
    library.box_free(core)
