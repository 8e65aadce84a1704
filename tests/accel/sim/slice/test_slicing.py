"""The bits that time depends on, and what a slice cannot be cut from."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from amaranth.hdl import Cat, ClockDomain, ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from accel.sim.slice import netlist
from accel.sim.slice.graph import graph_of
from accel.sim.slice.netlist import NetMemory, NetlistError, NetOperator, NetRegister, netlist_of
from accel.sim.slice.slicing import live_bits, readers

Build = Callable[[Module, "Part"], object]


class Part(wiring.Component):
    """`data` in, `event` and `result` out."""

    def __init__(self, build: Build):
        self._build = build
        super().__init__({"data": In(80), "event": Out(1), "result": Out(80)})

    def elaborate(self, platform):
        m = Module()
        self._build(m, self)
        return m


def live_of(build: Build, *ports: str) -> tuple[netlist.Netlist, dict[int, list[int]]]:
    found = netlist_of(Part(build), "core")
    return found, dict(live_bits(found, (net for name in ports for net in found.outputs[name])))


def datapath(m: Module, part: Part) -> None:
    """A pipeline of data beside its valid bit; a counter whose third bit is the event."""
    m.submodules.inner = inner = Module()
    valid, count, rows = Signal(), Signal(8), memory.Memory(shape=80, depth=4, init=[])
    inner.submodules.rows = rows
    write, read = rows.write_port(), rows.read_port()
    inner.d.comb += [write.data.eq(Cat(part.data[:30] * 3, part.data[32:])), write.en.eq(valid),
                     read.en.eq(1), part.result.eq(read.data ^ part.data),
                     part.event.eq(count[2] & valid)]
    inner.d.sync += [valid.eq(part.data[0]), count.eq(count + valid)]


def test_data_goes_and_bits_above_those_that_count_too() -> None:
    found, live = live_of(datapath, "event")
    registers = {number: bits for number, bits in live.items()
                 if isinstance(found.cells[number], NetRegister)}
    assert sorted(map(len, registers.values())) == [1, 3]
    assert not any(isinstance(found.cells[number], NetMemory) or isinstance(
        cell := found.cells[number], NetOperator) and cell.symbol == "*" for number in live)


def test_what_is_read_is_kept_with_what_writes_it() -> None:
    found, live = live_of(datapath, "result")
    memories = [live[number] for number in live if isinstance(found.cells[number], NetMemory)]
    assert memories == [list(range(80))]
    assert any(isinstance(cell, NetOperator) and cell.symbol == "*"
               for cell in map(found.cells.__getitem__, live))


def test_readers_are_modules_whose_live_logic_reads_a_net() -> None:
    for ports, modules in ((("event",), {"core.inner"}), (("result",), {"core.inner"})):
        found, live = live_of(datapath, *ports)
        assert readers(found, live, found.inputs["data"]) == modules
        assert readers(found, live, found.inputs["data"][1:]) == (
            set() if ports == ("event",) else modules)


def quotient(m: Module, part: Part) -> None:
    m.d.comb += part.event.eq((part.data[:8] // part.data[8:16])[0])


def wide(m: Module, part: Part) -> None:
    m.d.comb += part.event.eq((part.data + 1)[70])


def black_box(m: Module, part: Part) -> None:
    m.submodules.box = Instance("box", o_q=part.event)


def two_clocks(m: Module, part: Part) -> None:
    m.domains.slow = ClockDomain(local=True, reset_less=True)
    m.d.comb += ClockSignal("slow").eq(part.data[0])
    m.d.slow += part.event.eq(~part.event)
    m.d.sync += part.result.eq(1)


def asynchronous(m: Module, part: Part) -> None:
    m.domains.sync = ClockDomain(async_reset=True)
    m.d.comb += [ClockSignal().eq(part.data[1]), ResetSignal().eq(part.data[2])]
    m.d.sync += part.event.eq(part.data[0])


def circular(m: Module, part: Part) -> None:
    total = Signal(8)
    m.d.comb += [total.eq(Cat(part.data[0], total + 1)), part.event.eq(total[7])]


@pytest.mark.parametrize(("build", "message"), [
    (quotient, "What time depends on must divide by no number for the slice: core does"),
    (wide, "What time depends on must be computed in at most 64 bits for the slice: core has a + "
           "of 71"),
    (black_box, "Hardware must be made of logic, registers of one clock and memories for the "
                "slice: core has a cell of the kind Instance"),
    (two_clocks, "Hardware must be made of logic, registers of one clock and memories for the "
                 "slice: core has another clock"),
    (asynchronous, "Hardware must be made of logic, registers of one clock and memories for the "
                   "slice: core has a register with an asynchronous reset"),
    (circular, "Hardware must have no combinational cycle for the slice; one runs through core"),
])
def test_what_cannot_be_cut_is_refused(build: Build, message: str) -> None:
    with pytest.raises(NetlistError) as refusal:
        graph_of(*live_of(build, "event"), ["event"])
    assert str(refusal.value) == message


def test_an_amaranth_without_its_netlist_is_refused(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "amaranth.hdl._nir", None)
    monkeypatch.delattr("amaranth.hdl._nir", raising=False)
    with pytest.raises(NetlistError, match=r"^Amaranth must have the netlist of version 0\.5\.10 "
                                           r"for the slice, not that of 0\.5\.\d+: "):
        netlist._Hdl()


TEXT = """
from accel.sim.slice.chunks import chunks_of
from accel.sim.slice.emit import emit
from accel.sim.slice.graph import graph_of
from accel.sim.slice.simplify import simplified
from tests.accel.sim.slice.test_slicing import datapath, live_of
found, live = live_of(datapath, "event", "result")
graph = simplified(graph_of(found, live, ["event", "result"]), {"rst": 0})
print(emit(graph, chunks_of(graph, ("data",)), ("result",)))
"""


def test_the_text_is_the_same_in_every_process() -> None:
    texts = {subprocess.run([sys.executable, "-c", TEXT], capture_output=True, text=True,
                            check=True, env=os.environ | {"PYTHONHASHSEED": seed}).stdout
             for seed in ("1", "2")}
    text, = texts
    assert "struct Core {" in text
