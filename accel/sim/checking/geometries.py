"""Random machines, to hold simulators against each other on more than the shipped geometries."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from math import prod
from random import Random
from typing import Any

from accel.machine.config import DATAFLOWS, PARAM_BYTES, AccelConfig
from accel.machine.dram import Dram
from accel.machine.limits import limits_of
from accel.machine.machine import Machine
from accel.machine.structure import SHIPPED_STRUCTURE
from accel.machine.timing import TIMING, CoreTiming, TimingError

from accel.sim.rtl import verilated
from .check import MAX_CYCLES, Report, check, default_simulators
from .locate import Simulator

OPTIMIZATION = ("-O0",)
"""Compiler flags for models that run few programs: compilation takes a third of the time."""

DEPTHS = (4, 4, 5, 8, 16, 27, 32, 64, 90, 128, 256)
"""Entries of a buffer: 4 are the fewest that are legal."""

MOST_MACS = 128                 # multipliers, which make a model slow to build


def random_config(seed: int) -> AccelConfig:
    """A legal geometry with times of its own, small enough to be Verilated soon; the same for the
    same seed."""
    random = Random(f"geometry {seed}")
    while True:
        batch = random.choice([1, 1, 1, 2, 3, 4])
        block_in, block_out = (random.choice([1, 2, 3, 4, 4, 7, 8, 12, 16]) for _ in range(2))
        if batch * block_in * block_out <= MOST_MACS:
            break
    bus_bytes = random.choice([1, 2, 4, 8, 8, 16, 32, 64, 128, 256, 512])
    extents = {"batch": batch, "block_in": block_in, "block_out": block_out}
    sizes: dict[str, Any] = {}
    weight_bits = (8,)
    for buffer in SHIPPED_STRUCTURE.buffers:
        entry = prod(extent if isinstance(extent, int) else extents[extent]
                     for extent in buffer.shape)
        entry *= {"param": PARAM_BYTES, "accumulator": 4}.get(buffer.element, 1)
        bits = [(8,), (8, 4), (8, 2), (8, 4, 2)] if buffer.packed else [(8,)]
        packed = random.choice([some for some in bits if entry * min(some) % 8 == 0])
        beats = 2 * bus_bytes * 8 // min(packed)
        depth = max(random.choice(DEPTHS), -(-beats // entry))
        sizes[str(buffer.size)] = entry * buffer.banks * -(-depth // buffer.banks)
        weight_bits = packed if buffer.packed else weight_bits
    parts = [1, *(beats for beats in (2, 4, 8, 16) if batch % beats == 0 or (
        beats % batch == 0 and block_out % (beats // batch) == 0))]
    return AccelConfig(f"random-{seed}", batch, block_in, block_out, **sizes,
                       bus_bytes=bus_bytes, queue_depth=random.choice([1, 2, 4, 8, 16, 64]),
                       vector_beats=random.choice([1, *parts]), weight_bits=weight_bits,
                       stage_depth=random.randrange(1, 9), timing=random_timing(seed),
                       dsp_multipliers=random.choice([1, 8, 1 << 16]),
                       dataflow=random.choice(DATAFLOWS),
                       shared_bytes=random.choice([0, 0, 1024, 2048]),
                       channels=random.choice([1, 1, 1, 2, 4]))


def random_timing(seed: int) -> CoreTiming:
    """Legal times, about half of them other than the shipped; the same for the same seed."""
    random = Random(f"timing {seed}")
    while True:
        chosen = {}
        for one in fields(CoreTiming):
            limits, shipped = limits_of(one), getattr(TIMING, one.name)
            if random.random() < 0.5:
                chosen[one.name] = random.choice(
                    [limits.least, shipped // 2, shipped, 2 * shipped] if limits.is_power_of_two
                    else [*range(limits.least, min(shipped + 4, limits.most or 0) + 1)])
        try:
            timing = CoreTiming(**chosen)
            timing.require_reporters(len(SHIPPED_STRUCTURE.reporters))
            return timing
        except TimingError:             # a relation between two of them
            continue


def check_geometries(geometries: int, programs: int, seed: int = 0,
                     progress: Callable[[AccelConfig, int, int, int], None] = lambda *_: None,
                     ) -> Iterator[Report]:
    """Check so many random geometries, with `programs` random ones spread over them.

    Bins that stay empty are no failure. `progress` is called with a geometry, its number, the
    programs done on it, and all of these: 0 while the RTL is built.
    """
    for number in range(geometries):
        begin, machine = time.monotonic(), Machine(random_config(seed * 1_000_000 + number))
        told = partial(progress, machine.config, number)
        told(0, 0)
        count = programs // geometries + (number < programs % geometries)
        report = check(machine, count, seed, quick_simulators(machine), told)
        yield replace(report, empty=[], seconds=time.monotonic() - begin)


def quick_simulators(machine: Machine) -> Mapping[str, Simulator]:
    """The simulators that `check` compares, with an RTL model that is built fast."""
    core = verilated.build(machine, OPTIMIZATION)
    return {**default_simulators(), "verilated": lambda _, case: core.run(
        case.program, case.memory.copy(), MAX_CYCLES, Dram(**case.timing))}
