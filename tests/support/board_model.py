"""A board in Python, at the other end of a line: memory, registers, and a simulator as its core."""

import random
from collections.abc import Callable
from struct import pack, unpack

import numpy as np

from accel.machine.config import UNITS
from accel.machine.isa import BASES
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import ACTIVITIES, REPORTERS
from accel.sim.timed import cycle
from fpga.link.identity import encoded
from fpga.link.frames import (ANSWER, GRAIN, READ, READ_REGISTERS, REFUSED, WRITE, WRITE_REGISTER,
                              Frame, Unframe, framed)
from fpga.link.registers import ADDRESSES, MAGIC, REGISTERS, VERSION, WORDS

__all__ = ["BoardModel", "faulty"]


def faulty(seed: int, each: float) -> Callable[[bytes], bytes]:
    """Bytes of which this share is dropped or has a bit flipped."""
    rng = random.Random(seed)

    def spoil(data: bytes) -> bytes:
        result = bytearray()
        for byte in data:
            chance = rng.random() / each
            if chance >= 1:
                result.append(byte)
            elif chance >= 0.5:
                result.append(byte ^ 1 << rng.randrange(8))
        return bytes(result)
    return spoil


class BoardModel:
    """Also the line to it, and a clock: time passes while bytes move, and while the host waits for
    bytes that do not come. `spoil` is what the line does to bytes, both ways.
    """

    name, baud = "a model", 10_000_000

    def __init__(self, machine: Machine, memory_bytes: int,
                 spoil: Callable[[bytes], bytes] = lambda data: data):
        self.machine, self.spoil = machine, spoil
        self.memory = np.zeros(memory_bytes, np.uint8)
        self.words = [0] * WORDS
        self.requests: list[int] = []
        self.now = 0.0
        self._unframe, self._out = Unframe(), b""
        self.reset()

    def reset(self) -> None:
        self.words = [0] * WORDS
        for name, value in (("magic", MAGIC), ("version", VERSION),
                            ("machine", int(self.machine.hash, 16)),
                            ("record", int.from_bytes(encoded(self.machine.record), "little")),
                            ("memory_bytes", self.memory.size), ("clock_hz", 50_000_000)):
            self.set(name, value)

    def set(self, name: str, value: int) -> None:
        words = next(one.words for one in REGISTERS if one.name == name)
        for at in range(words):
            self.words[ADDRESSES[name] + at] = value >> 32 * at & 0xFFFFFFFF

    def clock(self) -> float:
        """Seconds since it was made."""
        return self.now

    def send(self, data: bytes) -> None:
        self.now += 10 * len(data) / self.baud
        for frame in self._unframe.feed(self.spoil(data)):
            self.requests.append(frame.kind)
            self._out += self.spoil(framed(self._answer(frame)))

    def receive(self, seconds: float) -> bytes:
        out, self._out = self._out, b""
        self.now += 10 * len(out) / self.baud if out else seconds
        return out

    def close(self) -> None:
        pass

    def _answer(self, frame: Frame) -> Frame:
        body, kind = frame.body, frame.kind
        if kind == READ and len(body) == 5:
            at, last = unpack("<IB", body)
            if at % GRAIN == 0 and at + last < self.memory.size:
                return Frame(frame.sequence, kind | ANSWER,
                             self.memory[at:at + last + 1].tobytes())
        if kind == WRITE and len(body) > 4:
            at, = unpack("<I", body[:4])
            data = np.frombuffer(body[4:], np.uint8)
            if at % GRAIN == 0 and data.size % GRAIN == 0 and at + data.size <= self.memory.size:
                self.memory[at:at + data.size] = data
                return Frame(frame.sequence, kind | ANSWER)
        if kind == READ_REGISTERS and len(body) == 5:
            at, last = unpack("<IB", body)
            return Frame(frame.sequence, kind | ANSWER,
                         pack(f"<{last + 1}I", *self.words[at:at + last + 1]))
        if kind == WRITE_REGISTER and len(body) == 8:
            at, value = unpack("<II", body)
            if at == ADDRESSES["run"] and value != self.words[at]:
                self._start(value)
            self.words[at] = value
            return Frame(frame.sequence, kind | ANSWER)
        return Frame(frame.sequence, REFUSED)

    def _start(self, number: int) -> None:
        bases = {name: self.words[ADDRESSES[f"base_{name}"]] for name in BASES}
        begin = bases["program"]
        raw = self.memory[begin:begin + 64 * self.words[ADDRESSES["count"]]]
        sizes = [bases[after] - bases[name] for name, after in zip(BASES, BASES[1:], strict=False)]
        program = AccelProgram(self.machine.hash, raw.reshape(-1, 64).copy(),
                               program_bytes=sizes[0], weights=np.zeros(sizes[1], np.uint8),
                               activations_bytes=sizes[2],
                               io_bytes=self.memory.size - bases["io"])
        assert {name: begin + at for name, at in program.bases.items()} == bases
        run = cycle.simulate(self.machine, program, self.memory[begin:])
        self.memory[begin:] = run.memory
        self.set("status", run.status | REPORTERS.index(run.unit) << 8)
        self.set("index", run.index)
        self.set("waiting", sum((unit in run.waiting) << bit for bit, unit in enumerate(UNITS)))
        for unit, index in run.waiting.items():
            self.set(f"waiting_{unit}", index)
        for unit in UNITS:
            for activity in ACTIVITIES:
                self.set(f"count_{unit}_{activity}", run.counters.activity[unit][activity])
        for client, moved in run.counters.bytes.items():
            self.set(f"bytes_{client}", moved)
        self.set("done", number)
