"""Does a board work? Its link, its memory, and random programs against the functional simulator.

The test of the link reads known values; that of the memory uses values that differ for every
address, every data line, and random ones. Programs are those of `accel.sim.checking.check`, at
places all over the memory. It skips programs that leave their memory, since a board's memory
continues there, and programs with a large memory, which would take long on the line.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from accel.machine.machine import Machine
from accel.machine.status import Run, Status
from accel.sim.meaning import functional
from accel.sim.checking.check import cases
from accel.sim.checking.locate import differ
from accel.sim.programs.case import Case
from fpga.device import BoardDevice, BoardRefused, read_registers
from fpga.link.frames import GRAIN, LARGEST
from fpga.link.registers import REGISTERS, WORDS

LINK_ROUNDS = 50
BLOCKS = 32
"""The number of tested blocks of memory, of `LARGEST` bytes each, at random places."""

MUCH = 1 << 20
"""A limit in bytes: programs of the self-test have less memory."""

Progress = Callable[[str, int, int], None]
"""A callback that is told the running test, the steps done, and their number."""


@dataclass
class Selftest:
    """The result of a test. `failures` is empty on a board that works.

    repeated, dropped : repeated requests; frames of the board that arrived spoiled. Faults on the
      line cost time but fail no test.
    memory_bytes : read and compared.
    skipped : programs that leave their memory, or have too much.
    """

    machine: str
    clock_hz: int
    repeated: int = 0
    dropped: int = 0
    frames: int = 0
    memory_bytes: int = 0
    programs: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.failures

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def selftest(device: BoardDevice, count: int = 50, seed: int = 0,
             progress: Progress = lambda stage, done, total: None) -> Selftest:
    """Test a board; stop at the first test that fails.

    Parameters
    ----------
    count : random programs.
    seed : the seed of all random choices.

    Raises `LinkError` where the board stops answering.
    """
    report = Selftest(device.machine.hash, device.clock_hz)
    rng = np.random.default_rng(seed)
    link = device.link
    before = link.repeated, link.dropped
    for test in (_test_link, _test_memory):
        test(device, report, rng, progress)
        if not report.ok:
            break
    else:
        _test_programs(device, report, rng, count, seed, progress)
    report.repeated, report.dropped = link.repeated - before[0], link.dropped - before[1]
    return report


def _test_link(device: BoardDevice, report: Selftest, rng: np.random.Generator,
               progress: Progress) -> None:
    """Reads all registers; the values of the constant ones are known."""
    for number in range(LINK_ROUNDS):
        progress("link", number, LINK_ROUNDS)
        registers = read_registers(device.link, [register.name for register in REGISTERS])
        report.frames += -(-WORDS * 4 // LARGEST)
        if (registers["machine"], registers["memory_bytes"], registers["clock_hz"]) != (
                int(device.machine.hash, 16), device.memory_bytes, device.clock_hz):
            report.failures.append(f"link: register values change, in round {number}")
            return


def _test_memory(device: BoardDevice, report: Selftest, rng: np.random.Generator,
                 progress: Progress) -> None:
    size, link = device.memory_bytes, device.link
    lines = [0, *(1 << bit for bit in range(GRAIN.bit_length() - 1, size.bit_length() - 1))]
    walking = np.concatenate([1 << np.arange(16), ~(1 << np.arange(16))]).astype("<u2")
    blocks = {address: rng.integers(0, 256, GRAIN, np.uint8) for address in lines}
    blocks[size - GRAIN] = walking.view(np.uint8)           # every data line, alone
    for place in rng.choice(size // LARGEST, min(BLOCKS, size // LARGEST), replace=False):
        near = range(int(place) * LARGEST, (int(place) + 1) * LARGEST, GRAIN)
        if not any(address in blocks for address in near):
            blocks[int(place) * LARGEST] = rng.integers(0, 256, LARGEST, np.uint8)
    done, total = 0, 2 * len(blocks)
    for address, data in blocks.items():
        progress("memory", done := done + 1, total)
        link.write(address, data.tobytes())
    for address, data in blocks.items():
        progress("memory", done := done + 1, total)
        read = np.frombuffer(link.read(address, data.size), np.uint8)
        report.memory_bytes += data.size
        if wrong := np.flatnonzero(read != data).tolist():
            bits = np.bitwise_or.reduce((read ^ data).view("<u2"))
            report.failures.append(
                f"memory: {len(wrong)} of {data.size} bytes at {address:#x} differ, from "
                f"{address + wrong[0]:#x}; data lines {_lines(int(bits))}")
            return


def _lines(bits: int) -> str:
    return ", ".join(str(bit) for bit in range(16) if bits >> bit & 1)


def _test_programs(device: BoardDevice, report: Selftest, rng: np.random.Generator, count: int,
                   seed: int, progress: Progress) -> None:
    machine = device.machine
    chosen = list(cases(machine, count, seed))
    for number, case in enumerate(chosen):
        progress("programs", number, len(chosen))
        wanted = functional.simulate(machine, case.program, case.memory)
        if wanted.status is Status.BUS or case.memory.size >= MUCH:
            report.skipped += 1
            continue
        report.programs += 1
        run = _run(device, machine, case, rng)
        if detail := differ(wanted, run) or _miscounted(case, run):
            report.failures.append(f"programs: {case.name}: simulator and board differ: {detail}")
            return


def _run(device: BoardDevice, machine: Machine, case: Case, rng: np.random.Generator) -> Run:
    """Runs a program at a random place in the memory."""
    room = (device.memory_bytes - case.memory.size) // GRAIN
    if room < 0:
        raise BoardRefused(f"Board at {device.link.line.name} has {device.memory_bytes} bytes of "
                           f"memory, not the {case.memory.size} that random programs need")
    address = int(rng.integers(room + 1)) * GRAIN
    device.copy_in(address, case.memory)
    device.launch(case.program, address)
    return replace(device.wait(), memory=device.copy_out(address, case.memory.size))


def _miscounted(case: Case, run: Run) -> str:
    """Describes inconsistent counters of a finished run; empty if they add up."""
    if not run.ok:
        return ""
    for unit, activity in run.counters.activity.items():
        if sum(activity.values()) != run.cycles:
            return f"{unit} counts {sum(activity.values())} cycles of {run.cycles}"
    fetched, size = run.counters.bytes["fetch"], case.program.words.size
    return "" if fetched == size else f"fetch counts {fetched} bytes of {size}"
