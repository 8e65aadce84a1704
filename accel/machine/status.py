"""The result of a run: status, counters, events. Hardware and simulators share these names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from accel.machine.structure import FETCH, SHIPPED_STRUCTURE, Structure

REPORTERS = SHIPPED_STRUCTURE.reporters
"""The units that can report an error, in the order of their code in the status register."""

STALLS = SHIPPED_STRUCTURE.stalls
"""Why a unit stalls in a cycle: it has no command; it lacks the tokens of a unit (the first missing
one in the order of units); another unit holds a bank of acc; it waits for memory data, requests or
acknowledgements; it waits for a pending result of its own, or an interval greater than one; the
counter of a signal is full."""

ACTIVITIES = SHIPPED_STRUCTURE.activities
"""In every cycle of a run each unit is in exactly one of these."""

ACCESSES = ("iterations", "folds", "acc", "res", "par", "beats", "chunks", "rows",
            "shared", "weights", "meets")
"""What the cycle simulator counts for every instruction.

iterations, folds : of gemm and vector: iterations of the loops; those that read their destination.
acc, res, par : of vector: cycles in which it reads sources in this buffer, waiting ones included.
beats : of load and store: beats of the memory port, or of the shared scratchpad.
shared : of these, those of the shared scratchpad.
chunks : what they write to a buffer, or read from one: parts of `bus_bytes`.
rows : rows of the memory that requests for the instruction, its own word included, have opened.
weights, meets : of gemm: reads of its weights, an entry or the part of one that it takes at once;
    results that are written to their destination.
"""

CLIENTS = SHIPPED_STRUCTURE.clients
"""Who moves bytes over the memory port."""

COUNTERS = SHIPPED_STRUCTURE.counters
"""The counters of the hardware, in the order of their numbers: cycles, and bytes.

All these are of shipped machines; others have theirs (`accel.machine.structure`)."""


class Status(IntEnum):
    """The end of a run."""

    RUNNING = 0
    DONE = 1
    ILLEGAL = 2             # unknown opcode, or selectors that the instruction does not take
    ADDRESS = 3             # address outside a buffer, or a bank that `banks` does not name
    BUS = 4                 # DRAM address outside the memory
    TOKENS_LEFT = 5         # FINISH found a counter that is not zero
    DEADLOCK = 6            # every unit is idle or waits for a token
    WATCHDOG = 7            # the simulator's limit of cycles

    @property
    def text(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True)
class Counters:
    """Architectural counters, all in cycles or bytes.

    `activity` maps unit, then activity, to cycles; `bytes` maps ``fetch``, ``load``, ``store`` to
    bytes moved over the memory port (whole beats).
    """

    activity: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, int],
           structure: Structure = SHIPPED_STRUCTURE) -> "Counters":
        """Build the counters from the values of `Structure.counters`, by name."""
        return cls({unit: {activity: values[f"count_{unit}_{activity}"]
                           for activity in structure.activities} for unit in structure.names},
                   {client: values[f"bytes_{client}"] for client in structure.clients})


@dataclass(frozen=True)
class Timeline:
    """The activity of every unit in each cycle.

    `spans` maps a unit to rows of int64, (n, 3): the first cycle, the activity (its position in
    `activities`), and the position in the stream of the instruction that the unit executes or
    holds while it waits (−1: none). A row lasts until the next one begins, the last until the
    run ends, so the rows of a unit add up to `Counters.activity`.
    """

    spans: Mapping[str, np.ndarray] = field(default_factory=dict)
    activities: tuple[str, ...] = ACTIVITIES


@dataclass(frozen=True)
class Run:
    """One execution of a program.

    `unit` and `index` tell where an error arose: the instruction's position in the stream; for
    DONE they are ``fetch`` and the position of FINISH. `start` and `retire` hold one cycle for
    each instruction (int64, −1: never), counted from the cycle in which `start` was raised;
    functional simulation leaves them, `cycles` and the counters empty. `waiting` names, after a
    deadlock, the instruction that each unit waits with. `timeline` is present if it was requested.
    `accesses` has a row of `ACCESSES` for each instruction (int64) after a run of the cycle
    simulator.
    `simulator` is what gave the cycles: ``cycle``, ``slice`` or ``verilator``; empty elsewhere.
    `places` are those of caches that the stream reads, where the driver chose it among several; 0
    for all.
    """

    status: Status
    unit: str = FETCH
    index: int = 0
    memory: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    cycles: int = 0
    counters: Counters = field(default_factory=Counters)
    start: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    retire: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    waiting: Mapping[str, int] = field(default_factory=dict)
    timeline: Timeline | None = None
    accesses: np.ndarray | None = None
    places: int = 0
    simulator: str = ""

    @property
    def ok(self) -> bool:
        return self.status is Status.DONE

    def describe(self) -> str:
        """Say on one line how the run ended, and where."""
        if self.ok:
            return f"done after {self.cycles} cycles" if self.cycles else "done"
        waits = ", ".join(f"{u} at {i}" for u, i in self.waiting.items())
        return (f"{self.status.text}: {self.unit}, instruction {self.index}"
                + (f" (waiting: {waits})" if waits else ""))
