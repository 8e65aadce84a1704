"""Records that the cycle simulator was made for the hardware of now.

    python -m accel.sim.checking.recording [--write] [--count N]

says whether it was (`accel.sim.timed.made_for`). With `--write` the hardware is recorded, if the
cycle simulator takes the cycles of its slice in random programs on some machines.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.status import Run

from accel.sim.programs.case import Case
from accel.sim.slice import simulator as slice_
from accel.sim.timed import cycle, made_for
from .check import MAX_CYCLES, cases
from .differences import differ_in_time

MACHINES, PROGRAMS = ("tiny-1x4x4", "ecp5-1x8x8"), 100


def different(machine: Machine, count: int, seed: int = 0) -> list[str]:
    """The programs of a check in which the cycle simulator and the slice differ."""
    def run(simulate: Callable[..., Run], case: Case) -> Run:
        return simulate(machine, case.program, case.memory, values=False, max_cycles=MAX_CYCLES,
                        **case.timing)

    return [case.name for case in cases(machine, count, seed)
            if differ_in_time(run(cycle.simulate_model, case), run(slice_.simulate, case))]


def machines() -> Iterator[Machine]:
    """Each machine, and the first with two channels of memory."""
    yield from map(load_machine, MACHINES)
    yield Machine(replace(load_machine(MACHINES[0]).config, name="channels", channels=2))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m accel.sim.checking.recording",
                                     description="Was the cycle simulator made for this hardware?")
    parser.add_argument("--write", action="store_true",
                        help="record this hardware, if random programs agree")
    parser.add_argument("--count", type=int, default=PROGRAMS, metavar="N",
                        help=f"random programs on each machine (default {PROGRAMS})")
    args = parser.parse_args(arguments)
    if made_for.is_of_now():
        print("the cycle simulator was made for this hardware")
        return 0
    if not args.write:
        print("the cycle simulator was made for other hardware: the slice is simulated")
        return 1
    for machine in machines():
        if names := different(machine, args.count):
            print(f"{machine.config.name}: cycle simulator and slice differ in {len(names)} "
                  f"programs: {', '.join(names[:5])}")
            return 1
    made_for.record()
    print("recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
