"""Look into the RTL while it runs: stop, read, poke, go on, with waveforms.

Compiles one convolution and runs it in RTL, to know when things happen and what the result is.
Then it runs it again under a probe (`accel.sim.rtl.probe`):

- cycle by cycle it watches the memory port, until the first beat of the input arrives, and inverts
  a bit of that beat;
- it goes on natively until the first gemm instruction is at work, and shows what the units do;
- it goes on to the end, and shows what the inverted bit did to the output.

The waveforms of all ports go to a VCD file, for GTKWave or Surfer. ::

    python -m examples.probe_rtl [--machine M] [--vcd FILE]
"""

import argparse
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from accel.machine.config import UNITS
from accel.machine.loading import load_machine
from accel.machine.program import AccelProgram
from accel.machine.status import Status
from accel.mapping.target import AccelTarget
from accel.sim.rtl.probe import Probe
from accel.sim.rtl.verilated import simulate
from tests.support.networks import convolution_graph

BIT = 6                         # that is inverted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", "--config", default="tiny-1x4x4")
    parser.add_argument("--vcd", type=Path, default=Path("build/probe.vcd"))
    args = parser.parse_args()
    args.vcd.parent.mkdir(parents=True, exist_ok=True)
    machine = load_machine(args.machine)
    program = AccelTarget(machine).compile(convolution_graph(8, 8, 8, seed=0)).program
    x, = program.inputs
    rng = np.random.default_rng(0)
    inputs = {x.name: rng.integers(-128, 128, x.shape).astype(np.int8)}

    run = simulate(machine, program, inputs=inputs)
    gemm = next(index for index, one in enumerate(program.instructions(machine))
                if one.unit == "gemm")
    print(f"{program.count} instructions, {run.cycles} cycles; instruction {gemm} (gemm) works "
          f"from cycle {run.start[gemm]} to {run.retire[gemm]}")

    with Probe(machine, program, inputs=inputs) as probe:
        probe.trace(args.vcd)
        for address in beats(probe, machine.config.bus_bytes):
            if address >= program.bases[x.base] + x.offset:
                break
        data = int(probe.io.mem__rdata__payload)
        probe.io.mem__rdata__payload = data ^ 1 << BIT
        print(f"cycle {probe.cycle}: memory gives {data:#x}, the first of {x.name}; "
              f"bit {BIT} is inverted")
        probe.run_until(int(run.start[gemm] + run.retire[gemm]) // 2)
        show(probe)
        probe.run_until(2 * run.cycles)
        print(f"cycle {probe.cycle}: {Status(int(probe.io.status)).name.lower()}; "
              f"{changed(program, run.memory, probe.memory)}")
    print(f"waveforms: {args.vcd}")
    return 0


def beats(probe: Probe, bus_bytes: int) -> Iterator[int]:
    """Step through the cycles; the address of each beat that is read, in the cycle it arrives."""
    owed: deque[int] = deque()          # of the beats that were asked for
    while not probe.done:
        if probe.io.mem__rdata__valid and probe.io.mem__rdata__ready:
            yield owed.popleft()
        if probe.io.mem__request__valid and probe.io.mem__request__ready:
            request = int(probe.io.mem__request__payload)       # addr 32, last 5, write 1
            address, last, write = request & 0xFFFFFFFF, request >> 32 & 31, request >> 37
            if not write:
                owed.extend(address + beat * bus_bytes for beat in range(last + 1))
        probe.step()


def show(probe: Probe) -> None:
    """What each unit is doing, by its ports."""
    print(f"cycle {probe.cycle}:")
    for unit in UNITS:
        busy = probe.counters.activity[unit]["busy"]
        waiting = (f"instruction {int(probe.io[f'{unit}_waiting_index'])} waits for a token"
                   if probe.io[f"{unit}_waiting"] else "nothing waits for a token")
        print(f"  {unit:6} busy for {busy} cycles so far, {waiting}")


def changed(program: AccelProgram, expected: np.ndarray, memory: np.ndarray) -> str:
    y, = program.outputs
    far = np.abs(program.extract(expected, y.name).astype(int) - program.extract(memory, y.name))
    return (f"{np.count_nonzero(far)} of {far.size} elements of {y.name} differ, by at most "
            f"{far.max()}")


if __name__ == "__main__":
    sys.exit(main())
