"""Do all simulators agree? Runs random programs on each of them and compares the results to the
byte.

The first simulator is the reference. The check compares status, unit and instruction, and the whole
memory image; between simulators with time, also cycles, counters, and the start and retirement of
every instruction. It proves each legal program first: the proof must accept what the generator made
by other means. It counts what the programs cover. A bin that stays empty is a failure, with few
programs too if it is a form of an instruction: what did not run was not compared. Then come
programs with one or two planted faults each, and some that fail late: their memory is undefined.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from accel.machine.isa import WORD_BYTES
from accel.machine.machine import Machine
from accel.machine.program import disassemble
from accel.machine.status import Run, Status
from accel.machine.structure import FETCH
from accel.proof.legal import IllegalProgram, prove

from accel.sim.meaning import functional
from .coverage import Coverage
from .locate import Simulator, differ, first_difference
from accel.sim.programs.case import Case
from accel.sim.programs.directed import directed
from accel.sim.programs.faults import plant
from accel.sim.programs.generate import generate
from accel.sim.programs.late import late
from .differences import differ_in_time

COUNT = 200
"""Random programs that fill every bin; with fewer, empty bins are no failure."""

MAX_CYCLES = 2_000_000          # a hundred times the cycles of the longest program


@dataclass(frozen=True)
class Difference:
    """Two simulators disagree, or the proof refuses a program that is legal.

    `instruction` is the position of the first instruction after which their states differ (-1:
    unknown), `text` its disassembly, `detail` what differs: the reference's side first.
    """

    case: str
    simulators: tuple[str, str]
    detail: str
    instruction: int = -1
    text: str = ""

    def describe(self) -> str:
        place = (f"instruction {self.instruction} `{self.text}`: " if self.instruction >= 0 else "")
        return f"{self.case}: {' and '.join(self.simulators)} differ: {place}{self.detail}"


@dataclass(frozen=True)
class Report:
    """The result of a check. `cycles` are the total of the simulators with time; `missing` are the
    forms of instructions that no program held; `left_out` the simulators that cannot run the
    machine; `seconds` what it took, 0 where nobody measured."""

    machine: Machine
    seed: int
    programs: int
    instructions: int
    cycles: int
    coverage: Coverage
    difference: Difference | None = None
    empty: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.difference is None and not self.empty and not self.missing

    def as_json(self) -> dict[str, Any]:
        config = self.machine.config
        return {"config": config.name, "machine_hash": self.machine.hash, "seed": self.seed,
                "programs": self.programs, "instructions": self.instructions,
                "cycles": self.cycles, "ok": self.ok,
                "coverage": {group: dict(bins) for group, bins in self.coverage.counts.items()},
                "empty": self.empty, "missing": self.missing, "ran": dict(self.coverage.ran),
                "left_out": list(self.left_out),
                "difference": None if self.difference is None else self.difference.describe()}


def default_simulators() -> dict[str, Simulator]:
    """All simulators by name, the reference first."""
    from accel.sim.rtl import verilated
    from accel.sim.slice import simulator as slice_
    from accel.sim.timed import cycle

    def timed(simulate: Callable[..., Run]) -> Simulator:
        return lambda machine, case: simulate(machine, case.program, case.memory,
                                              max_cycles=MAX_CYCLES, **case.timing)

    return {
        "functional": lambda machine, case: functional.simulate(machine, case.program,
                                                                case.memory),
        "cycle": timed(cycle.simulate), "slice": timed(slice_.simulate),
        "verilated": timed(verilated.simulate),
    }


def check(machine: Machine, count: int = COUNT, seed: int = 0,
          simulators: Mapping[str, Simulator] | None = None,
          progress: Callable[[int, int], None] = lambda done, total: None,
          locate: bool = True) -> Report:
    """Run `count` random programs, those of the seeds from ``seed * 1000000`` on, and the
    directed ones; stop at the first difference.

    `progress` is called with the number of programs done, and of all. Without `locate` the check
    does not search for the first instruction that differs. The cycle simulator is left out where
    it has not the machine's units and hardware.
    """
    from accel.sim.timed import cycle

    left_out = () if cycle.models(machine) else ("cycle",)
    chosen = {name: one for name, one in (simulators or default_simulators()).items()
              if name not in left_out}
    coverage, cycles, instructions = Coverage(machine), 0, 0
    first, last = directed(machine), late(machine)
    total = len(first) + count + faults_of(count) + len(last)
    for number, case in enumerate(itertools.chain(first, _random(machine, count, seed), last)):
        progress(number, total)
        instructions += case.program.count
        runs, difference = _run(machine, case, chosen)
        cycles += sum(run.cycles for run in runs.values())
        if difference is not None:
            if locate and not case.fault and chosen.keys() >= set(difference.simulators):
                difference = _located(machine, case, chosen, difference)
            return Report(machine, seed, number + 1, instructions, cycles, coverage, difference,
                          left_out=left_out)
        coverage.add(case, next((run for run in reversed(runs.values()) if run.cycles),
                                next(iter(runs.values()))))
    progress(total, total)
    empty = coverage.empty if count >= COUNT else []
    return Report(machine, seed, total, instructions, cycles, coverage, None, empty,
                  coverage.missing, left_out)


def ran(reports: Sequence[Report]) -> str:
    """Counts of each instruction in legal programs, in a line: ``add ran 60 times, ...``."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.coverage.ran)
    missing = list(dict.fromkeys(form for report in reports for form in report.missing))
    ending = f"never ran: {', '.join(missing)}" if missing else "every form"
    return ", ".join([*(f"{name} ran {count:,} times" for name, count in counts.items()), ending])


def cases(machine: Machine, count: int = COUNT, seed: int = 0) -> Iterator[Case]:
    """The programs of a check, in order: directed ones, random ones, those with a fault, and
    those that fail late."""
    yield from directed(machine)
    yield from _random(machine, count, seed)
    yield from late(machine)


def _random(machine: Machine, count: int, seed: int) -> Iterator[Case]:
    first = seed * 1_000_000
    yield from (generate(machine, first + number) for number in range(count))
    yield from (plant(machine, first + number) for number in range(faults_of(count)))


def faults_of(count: int) -> int:
    """The number of programs with a fault in a check of `count` random programs."""
    return count // 2


def _run(machine: Machine, case: Case,
         simulators: Mapping[str, Simulator]) -> tuple[dict[str, Run], Difference | None]:
    if not case.fault:
        try:
            prove(machine, case.program)
        except IllegalProgram as error:
            return {}, Difference(case.name, ("generator", "proof"), str(error))
    runs = {name: simulate(machine, case) for name, simulate in simulators.items()}
    return runs, compare(machine, case, runs)


def compare(machine: Machine, case: Case, runs: Mapping[str, Run]) -> Difference | None:
    """The first difference between the runs of one program; the reference's run comes first."""
    (reference, expected), *others = runs.items()
    for name, run in others:
        if detail := differ(expected, run):
            return Difference(case.name, (reference, name), detail)
    return _timing(machine, case, list(runs), list(runs.values()))


def _located(machine: Machine, case: Case, simulators: Mapping[str, Simulator],
             known: Difference) -> Difference:
    """Add to a difference the first instruction that shows it."""
    a, b = known.simulators
    if known.instruction >= 0:
        return known
    difference = first_difference(machine, case, simulators[a], simulators[b])
    if difference is None:
        return known
    index, place = difference
    text = disassemble(case.program.instructions(machine)[index])
    return replace(known, detail=f"{place} ({known.detail})", instruction=index, text=text)


def _timing(machine: Machine, case: Case, names: list[str], runs: list[Run]) -> Difference | None:
    """The first difference in time: simulators must agree on events and counters; the last is
    right.
    """
    timed = [(name, run) for name, run in zip(names, runs) if run.cycles]
    for name, run in timed:
        if wrong := _inconsistent(case, run):
            return Difference(case.name, (name, "its own counters"), wrong)
    reference, expected = timed[-1] if timed else ("", Run(Status.DONE))
    for name, run in timed[:-1]:
        if difference := differ_in_time(run, expected):
            known = Difference(case.name, (name, reference), difference.detail)
            if difference.index < 0:
                return known
            instruction = case.program.instructions(machine)[difference.index]
            return replace(known, detail=f"{instruction.unit} {difference.detail}",
                           instruction=difference.index, text=disassemble(instruction))
    return None


def _inconsistent(case: Case, run: Run) -> str:
    """The contradictions within a finished run, whatever its timing; empty if none."""
    if not run.ok:
        return ""
    for unit, activity in run.counters.activity.items():
        if sum(activity.values()) != run.cycles:
            return f"{unit} counts {sum(activity.values())} cycles of {run.cycles}"
    record = case.program.machine
    beat = record.geometry["bus_bytes"] if record else 1        # of each word its beat is read
    fetched = case.program.count * max(WORD_BYTES, beat)
    if run.counters.bytes[FETCH] != fetched:
        return f"fetch counts {run.counters.bytes[FETCH]} bytes of {fetched}"
    if np.any(run.start < 0) or np.any(run.retire < run.start) or np.any(run.retire > run.cycles):
        return "an instruction retires before it starts, or after the end"
    return ""
