"""The vector unit."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, Signature

from accel.config import AccelConfig
from accel.hw.interface import acc_port, entry_read, unit_signature
from accel.machine import Machine

__all__ = ["Vector", "out_port"]


def out_port(config: AccelConfig) -> Signature:
    """Write port of out as vector sees it: one entry a cycle."""
    geometry = config.buffers["out"]
    return Signature({"w_addr": Out(range(geometry.depth)), "w_en": Out(1),
                      "w_data": Out(geometry.entry_bytes * 8)})


class Vector(wiring.Component):
    """Element-wise work: one entry a cycle."""

    def __init__(self, machine: Machine):
        self.machine = machine
        config = machine.config
        super().__init__({**unit_signature(), "res": Out(entry_read(config, "res")),
                          "par": Out(entry_read(config, "par")), "acc": Out(acc_port(config)),
                          "out": Out(out_port(config))})

    def elaborate(self, platform):
        return Module()
