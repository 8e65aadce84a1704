"""Live entries of buffers: against a slow account of every entry, and cases by hand."""

from collections import defaultdict

import numpy as np
import pytest

from accel.figures.occupancy import live_entries
from accel.machine.config import BUFFERS, preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.status import Run, Status
from accel.machine.words import decode_words
from accel.machine.structure import SHIPPED_STRUCTURE
from accel.proof.access import accumulates, touches
from accel.sim.timed import cycle
from accel.sim.programs.generate import generate

MACHINE = Machine(preset("tiny-1x4x4"))


def slow(program: AccelProgram, run: Run) -> dict[str, np.ndarray]:
    """Live entries of every buffer in every cycle."""
    counts = {name: np.zeros(run.cycles, np.int64) for name in BUFFERS}
    uses = defaultdict(list)        # of an entry: (instruction, whether it overwrites), in order
    for index, one in enumerate(decode_words(MACHINE, program.words)):
        for touch in touches(MACHINE, one):
            if touch.memory in BUFFERS:
                overwrites = touch.write and not accumulates(MACHINE, one)
                for entry in entries(one, touch):
                    uses[touch.memory, entry].append((index, overwrites))
    for (name, _), found in uses.items():
        alive = np.zeros(run.cycles, bool)
        for first, last in lives(found):
            alive[run.start[first]:run.retire[last]] = True
        counts[name] += alive
    return counts


def entries(one: Instruction, touch) -> set[int]:
    addresses = touch.walk.addresses().reshape(-1)
    if one.unit not in SHIPPED_STRUCTURE.moved:
        return set(addresses.tolist())
    size = MACHINE.config.buffers[touch.memory].entry_bytes
    return set(((addresses[:, None] + np.arange(touch.width)) // size).reshape(-1).tolist())


def lives(uses: list[tuple[int, bool]]):
    """First write and last read of each value; writes without a read between them make one."""
    first = last = None
    for index, overwrites in uses:
        if overwrites and (first is None or last is not None):
            if last is not None:
                yield first, last
            first, last = index, None
        elif not overwrites:
            last = index
    if last is not None:
        yield first, last


def spread(changes: tuple[np.ndarray, np.ndarray], cycles: int) -> np.ndarray:
    moments, counts = changes
    assert moments[0] == 0 and (np.diff(moments) > 0).all()
    return np.repeat(counts, np.diff(moments, append=cycles))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(40))
def test_counts_are_those_of_every_entry(seed) -> None:
    case = generate(MACHINE, seed)
    run = cycle.simulate(MACHINE, case.program, case.memory, values=False)
    expected = slow(case.program, run)
    for name, changes in live_entries(MACHINE, case.program, run).items():
        np.testing.assert_array_equal(spread(changes, run.cycles), expected[name], name)


def copy(unit: str, buffer: str, address: int, run: int) -> Instruction:
    return Instruction(unit, unit, {"buffer": BUFFERS.index(buffer), "address": address,
                                    "base": 3, "run": run})


def gemm(dst: int, *, reset: int) -> Instruction:
    return Instruction("gemm", "gemm", {"base": {"dst": dst}, "reset": reset, "banks": 1})


def levels(stream: list[Instruction], buffer: str) -> list[tuple[int, int]]:
    """Live entries of a made-up run: instruction i starts at 10 i and retires at 10 i + 5."""
    program = AccelProgram.assemble(MACHINE, [*stream, finish()])
    start = np.arange(program.count) * 10
    run = Run(Status.DONE, cycles=10 * program.count + 10, start=start, retire=start + 5)
    cycles, counts = live_entries(MACHINE, program, run)[buffer]
    return list(zip(cycles.tolist(), counts.tolist()))


def test_what_is_never_read_is_never_live() -> None:
    assert levels([copy("load", "inp", 0, 64)], "inp") == [(0, 0)]


def test_a_life_lasts_from_the_start_of_the_write_to_the_last_retirement() -> None:
    stream = [copy("load", "inp", 0, 8), gemm(0, reset=1), gemm(1, reset=1)]
    assert levels(stream, "inp") == [(0, 1), (25, 0)]


def test_parts_of_an_entry_are_one_life() -> None:
    stream = [copy("load", "inp", 0, 1), copy("load", "inp", 1, 3), gemm(0, reset=1)]
    assert levels(stream, "inp") == [(0, 1), (25, 0)]


def test_an_accumulation_keeps_its_entry_alive() -> None:
    stream = [gemm(0, reset=1), gemm(0, reset=0), gemm(0, reset=0)]
    assert levels(stream, "acc") == [(0, 1), (25, 0)]
    assert levels([gemm(0, reset=1), gemm(0, reset=1), gemm(0, reset=0)], "acc") == [
        (0, 1), (25, 0)]
