"""Memories of stream units, and of what their components keep, in an emitted netlist."""

from amaranth.back import verilog

from accel.hw.stream.unit import StreamUnit
from fpga.verilog.memories import memories_of
from tests.support.streams import machine_of


def test_every_memory_has_a_meaning() -> None:
    text = verilog.convert(StreamUnit(machine_of(), "turn"), name="turn", emit_src=False)
    held = {memory.holds for memory in memories_of(text)}
    assert {"entries that turn has read, for its components",
            "instructions of turn whose results are not written yet: places and loops",
            "what the component of reverse keeps"} <= held
