"""Interfaces inside the core: what an execution unit looks like, whatever it executes."""

from amaranth.hdl import signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from accel.machine.config import AccelConfig, BufferGeometry
from accel.machine.isa import WORD_BITS
from accel.machine.status import Status
from accel.machine.structure import SHIPPED_STRUCTURE, Structure

INDEX_BITS = 26
"""Bits of an instruction's position: words of 64 bytes in 4 GiB."""

COMMAND = data.StructLayout({"index": INDEX_BITS, "word": WORD_BITS})


WATCHED = data.StructLayout(dict.fromkeys(
    ("working", "waiting", "steps", "forms", "ends", "leaves"), 1))
"""What a unit shows besides its activity, to tell which instruction that is about."""


def unit_signature(structure: Structure = SHIPPED_STRUCTURE) -> dict:
    """Members that every execution unit of a structure has, for its Component signature.

    commands    queue output; ready rises in the cycle before `started` (it leaves the queue); then
                it offers nothing for a cycle, and shows what has left
    halt        nothing new may start (the run is over)
    waits       mask of the instruction at the head of the queue (0 when none)
    available   all tokens in `waits` are there (combinational from waits)
    take        take them: in this cycle the head of the queue is accepted
    signals, signal, signalled, refused    mask, request, grant, refusal: the retiring instruction's
                signals; it gets an answer in the cycle after its request, and the request stands
                until the grant. `retired` pulses in the cycle of the grant.
    started, started_index, retired, retired_index     event ports
    error, error_index, error_status      this instruction has an error, and goes its way; it may be
                said more than once
    idle        nothing is held, in flight or unretired (the queue is not counted)
    blocked, blocked_index     the head of the queue waits for tokens, or a retiring instruction
                waits to signal, and nothing else of the unit moves; index of that instruction
    activity    one-hot in the order of `Structure.activities`
    watched     who records a timeline reads it, and no part of the core (`Core`). Of units that
                compute: `working`, iterations are not issued; `waiting`, the head of the queue is
                there and may start. Of those that move bytes: `steps`, a step is made, which
                `forms` a beat, or `ends` its instruction; `leaves`, a beat has left for the memory
    """
    count = len(structure.units)
    return {
        "commands": In(stream.Signature(COMMAND)),
        "halt": In(1),
        "waits": Out(count), "available": In(count), "take": Out(1),
        "signals": Out(count), "signal": Out(1), "signalled": In(1), "refused": In(1),
        "started": Out(1), "started_index": Out(INDEX_BITS),
        "retired": Out(1), "retired_index": Out(INDEX_BITS),
        "error": Out(1), "error_index": Out(INDEX_BITS), "error_status": Out(Status),
        "idle": Out(1), "blocked": Out(1), "blocked_index": Out(INDEX_BITS),
        "activity": Out(len(structure.activities)), "watched": Out(WATCHED),
    }


def entry_read(geometry: BufferGeometry) -> Signature:
    """Read port of a buffer as its reader sees it: one entry per cycle, `read_cycles` later."""
    return Signature({"addr": Out(range(geometry.depth)), "en": Out(1),
                      "data": In(geometry.entry_bytes * 8)})


def chunk_write(config: AccelConfig, buffer: str) -> Signature:
    """Write port of a buffer as load sees it: an aligned chunk of `AccelConfig.written_bytes` with
    a byte mask."""
    width = config.written_bytes(buffer)
    chunks = config.rows_of(config.buffers[buffer], writes=False).chunks
    return Signature({"addr": Out(range(chunks)), "data": Out(width * 8), "mask": Out(width)})


def table_read(bits: int, ports: int) -> Signature:
    """Read ports of a buffer of tables, with addresses of so many bits: each gives a byte a cycle,
    `read_cycles` after its address."""
    return Signature({"addr": Out(data.ArrayLayout(bits, ports)), "en": Out(ports),
                      "data": In(data.ArrayLayout(signed(8), ports))})


def acc_port(geometry: BufferGeometry) -> Signature:
    """A buffer of two banks as a unit sees it (`AccelConfig.buffers`, `AccelConfig.parts`): a read
    and a write port over both.

    A unit may use only banks that it holds: it asks with `request` (the head of the queue's banks),
    sees in `granted` that they can all be had, and keeps each bank as long as its bit in `hold` is
    set.
    """
    address, width = range(geometry.depth), geometry.entry_bits
    return Signature({
        "r_addr": Out(address), "r_en": Out(1), "r_data": In(width),
        "w_addr": Out(address), "w_en": Out(1), "w_data": Out(width),
        "request": Out(2), "granted": In(1), "hold": Out(2),
    })


def memory_port(config: AccelConfig) -> Signature:
    """The core's port to DRAM; docs/machine.md, "Memory port". The core is always ready for `ack`
    (not `always_ready` in its signature: a constant cannot be a port in Verilog).
    """
    width = config.bus_bytes * 8
    request = data.StructLayout({"addr": 32, "last": config.last_bits, "write": 1})
    return Signature({
        "request": Out(stream.Signature(request)),
        "wdata": Out(stream.Signature(data.StructLayout({"data": width,
                                                         "mask": config.bus_bytes}))),
        "rdata": In(stream.Signature(data.StructLayout({"data": width, "error": 1}))),
        "ack": In(stream.Signature(data.StructLayout({"error": 1}))),
    })
