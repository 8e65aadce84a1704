"""The core: five units, their queues, tokens and buffers, one memory port."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.config import UNITS
from accel.hw.interface import INDEX_BITS, memory_port
from accel.machine import Machine
from accel.status import ACTIVITIES, REPORTERS, Status

__all__ = ["COUNTER_BITS", "Core"]

COUNTER_BITS = 48

CLIENTS = ("fetch", "load", "store")
"""Who moves bytes over the memory port."""


def core_signature(machine: Machine) -> dict:
    """Members of `Core`."""
    members = {
        "start": In(1), "count": In(INDEX_BITS),
        "base_program": In(32), "base_weights": In(32), "base_activations": In(32),
        "base_io": In(32),
        "mem": Out(memory_port(machine.config)),
        "done": Out(1), "status": Out(Status), "status_unit": Out(8),
        "status_index": Out(INDEX_BITS),
    }
    for unit in REPORTERS:
        members |= {f"{unit}_started": Out(1), f"{unit}_started_index": Out(INDEX_BITS),
                    f"{unit}_retired": Out(1), f"{unit}_retired_index": Out(INDEX_BITS)}
    for unit in UNITS:
        members |= {f"{unit}_waiting": Out(1), f"{unit}_waiting_index": Out(INDEX_BITS)}
        members |= {f"count_{unit}_{activity}": Out(COUNTER_BITS) for activity in ACTIVITIES}
    return members | {f"bytes_{client}": Out(COUNTER_BITS) for client in CLIENTS}


class Core(wiring.Component):
    """The accelerator without its memory.

    A program runs from a pulse of `start` (cycle 0) until `done` rises. `start` is ignored in
    between; after `done` it begins anew, with counters, queues, tokens and status cleared (the
    buffers keep their bytes). `count` and the bases must not change between `start` and `done`;
    `base_program` is a multiple of 64. Results hold from `done` to the next `start`.

    Members
    -------
    start : pulse.
    count : number of instructions; fetch never reads beyond.
    base_program, base_weights, base_activations, base_io : base registers, byte addresses.
    mem : the memory port (docs/machine.md).
    done : level.
    status, status_unit, status_index : how it ended; the unit is a code in `REPORTERS`.
    {unit}_started, {unit}_started_index, {unit}_retired, {unit}_retired_index : events, for fetch
        those of FINISH.
    {unit}_waiting, {unit}_waiting_index : after a deadlock, whether the unit waits, and where.
    count_{unit}_{activity} : cycles. The activities of a unit sum to the cycles from `start`
        (which counts as ``command``) to the one before `done`.
    bytes_{fetch,load,store} : bytes moved over `mem`, whole beats.
    """

    def __init__(self, machine: Machine):
        self.machine = machine
        super().__init__(core_signature(machine))

    def elaborate(self, platform):
        raise NotImplementedError
