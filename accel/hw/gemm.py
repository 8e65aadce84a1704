"""The gemm unit."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from accel.hw.interface import acc_port, entry_read, unit_signature
from accel.machine import Machine

__all__ = ["Gemm"]


class Gemm(wiring.Component):
    """Matrix products: one block product a cycle."""

    def __init__(self, machine: Machine):
        self.machine = machine
        config = machine.config
        super().__init__({**unit_signature(), "inp": Out(entry_read(config, "inp")),
                          "wgt": Out(entry_read(config, "wgt")), "acc": Out(acc_port(config))})

    def elaborate(self, platform):
        return Module()
