"""Compares simulators on random programs, in whatever tree it is run: MACHINE COUNT SEED.

Prints JSON: programs, cycles, those in which what `cycle.simulate` chose differs from the Verilated
core (`different`), which simulator that was, whether it keeps values, and in how many the cycle
simulator would have been wrong (`stale`).
"""

import json
import sys
import time
from itertools import islice

from accel.machine.dram import Dram
from accel.machine.loading import load_machine
from accel.sim.checking.check import MAX_CYCLES
from accel.sim.checking.differences import differ_in_time
from accel.sim.checking.geometries import OPTIMIZATION
from accel.sim.programs.generate import generate
from accel.sim.rtl import verilated
from accel.sim.slice.simulator import sliced_core
from accel.sim.timed import cycle


def main(name: str, count: int, seed: int) -> None:
    machine = load_machine(name)
    begin = time.process_time()
    values = sliced_core(machine).has_values
    core = verilated.build(machine, OPTIMIZATION)
    found = {"programs": 0, "cycles": 0, "different": [], "stale": 0, "simulators": set()}
    for number in islice(range(seed * 1_000_000, (seed + 1) * 1_000_000), count):
        case = generate(machine, number)
        runs = [simulate(machine, case.program, case.memory, values=False, max_cycles=MAX_CYCLES,
                         **case.timing) for simulate in (cycle.simulate, cycle.simulate_model)]
        image = case.program.image() if case.memory is None else case.memory.copy()
        rtl = core.run(case.program, image, MAX_CYCLES, Dram(**case.timing))
        found["programs"] += 1
        found["cycles"] += rtl.cycles
        if differ_in_time(runs[0], rtl):
            found["different"].append(case.name)
        found["stale"] += bool(differ_in_time(runs[1], rtl))
        found["simulators"].add(runs[0].simulator)
    found |= {"simulators": sorted(found["simulators"]), "has_values": values,
              "seconds": round(time.process_time() - begin, 1)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
