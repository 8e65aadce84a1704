"""Is the cycle simulator equal to the RTL, on programs of real size?

The digits network and one convolution of ResNet-18 (3x3, 64 -> 64 channels, 56x56) on every preset,
each with memories of several latencies, with and without random stalls, and also with one of low
bandwidth and with rows, and one like a board's. The bench compares memory, status, all counters,
and the start and retirement of every instruction. Prints a line for each run: its cycles, and
millions of cycles a second (processor time) with time alone, with values, and of the Verilated RTL;
then ``exact_runs`` and ``exact_differences``. Exit status 1 if there are any.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from accel.machine.config import preset, preset_names
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.mapping.target import AccelTarget
from accel.sim import cycle, verilated
from accel.machine.dram import Dram
from accel.sim.timing import differ_in_time
from bench.inputs.networks import convolution_graph
from compiler.frontend.onnx_import import load as load_model
from compiler.graph.pipeline import optimize
from runtime import SimulatedDevice, compile_graph, simulator

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits-int8.onnx"
MEMORIES = {
    **{f"latency{latency}{'_stalls' if seed else ''}": Dram(latency, stall_seed=seed)
       for latency in (0, 7, 64, 256) for seed in (0, 9)},
    "hard": Dram(64, 16, 9, bytes_per_cycle=3.3, row_bytes=2048, row_miss=30, banks=4),
    "board": Dram(15, 3, bytes_per_cycle=2, row_bytes=1024, row_miss=4, row_closed=2, banks=4,
                  in_order=True, refresh_interval=625, refresh_cycles=8)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--size", type=int, default=56)
    parser.add_argument("--config", choices=preset_names(), help="one preset only")
    args = parser.parse_args()
    runs = differences = 0
    names = [args.config] if args.config else preset_names()
    for name, machine, program in _programs(names, args.channels, args.size):
        image = _random_image(program)
        verilated.build(machine)
        cycle.simulate(machine, program, image)         # compiled and loaded
        for memory, dram in MEMORIES.items():
            told, difference = _compare(machine, program, image, dram)
            print(f"{name}_{memory}", told, difference)
            runs, differences = runs + 1, differences + bool(difference)
    print("exact_runs", runs)
    print("exact_differences", differences)
    return 1 if differences else 0


def _programs(names: Iterable[str], channels: int,
              size: int) -> Iterator[tuple[str, Machine, AccelProgram]]:
    for name in names:
        machine = Machine(preset(name))
        device = SimulatedDevice(machine, simulator("functional"))
        for digits in compile_graph(optimize(load_model(DIGITS)), AccelTarget(machine),
                                    device).accelerated:
            yield f"digits_{name}", machine, digits.program
        compiled = AccelTarget(machine).compile(convolution_graph(channels, channels, size))
        yield f"conv_{name}", machine, compiled.program


def _random_image(program: AccelProgram) -> np.ndarray:
    rng = np.random.default_rng(0)
    return program.image({slot.name: rng.integers(-128, 128, slot.shape).astype(slot.dtype)
                          for slot in program.inputs})


def _compare(machine: Machine, program: AccelProgram, image: np.ndarray,
             dram: Dram) -> tuple[str, str]:
    """The figures, and the first difference; empty if there is none."""
    ways: dict[str, Callable[[], Run]] = {
        "timing": lambda: cycle.simulate(machine, program, image, values=False, dram=dram),
        "values": lambda: cycle.simulate(machine, program, image, dram=dram),
        "RTL": lambda: verilated.simulate(machine, program, image, dram=dram)}
    found = {name: _timed(way) for name, way in ways.items()}
    rtl, _ = found["RTL"]
    rates = "  ".join(f"{name} {run.cycles / seconds / 1e6:.2f}"
                      for name, (run, seconds) in found.items())
    for run, _ in found.values():
        if difference := differ_in_time(run, rtl):
            return f"{rtl.cycles}  {rates}", f"{difference.index}: {difference.detail}"
    same = rtl.ok and np.array_equal(found["values"][0].memory, rtl.memory)
    return f"{rtl.cycles}  {rates}", "" if same else f"memory; {rtl.describe()}"


def _timed(way: Callable[[], Run]) -> tuple[Run, float]:
    begin = time.process_time()
    run = way()
    return run, time.process_time() - begin


if __name__ == "__main__":
    sys.exit(main())
