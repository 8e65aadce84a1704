"""The same networks on every machine: are the values right, and how busy is the array?

Int8 networks of `examples.zoo`, 224 x 224, on the presets and on two custom geometries, in
the cycle simulator; the outputs must equal the integer reference (`compiler.graph.reference`), else
the exit status is 1. Prints a line for each network and machine. With ``--rtl`` the Verilated core
runs as well: its outputs and its cycles must equal the cycle simulator's.
"""

import argparse
import sys
import time
from dataclasses import replace

import numpy as np

from accel.figures.layers import layer_rows
from accel.machine.config import ConfigError, load, preset
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from accel.sim import cycle
from bench.accel import NETWORKS, accelerated
from compiler.graph import Graph
from compiler.graph.reference import evaluate
from runtime import SimulatedDevice, simulator

PYNQ = preset("pynq-1x16x16")
OWN = {"2x16x16": replace(PYNQ, name="own-2x16x16", batch=2),
       "1x32x32": replace(PYNQ, name="own-1x32x32", block_in=32, block_out=32, bus_bytes=16)}
MACHINES = ("tiny-1x4x4", "ecp5-1x8x8", "ecp5-1x16x16", "pynq-1x16x16", *OWN)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=NETWORKS)
    parser.add_argument("--machine", action="append", metavar="M",
                        help=f"preset, TOML file or one of {', '.join(OWN)}; repeatable "
                             f"(default: {', '.join(MACHINES)})")
    parser.add_argument("--rtl", action="store_true", help="run the Verilated core, too")
    args = parser.parse_args()
    try:
        machines = [Machine(OWN.get(one) or load(one)) for one in args.machine or MACHINES]
    except ConfigError as error:
        parser.error(str(error))
    right = True
    for name in args.networks:
        graph = accelerated(name, AccelTarget(Machine(PYNQ)))
        x = np.random.default_rng(1).integers(-128, 128, graph.values[graph.inputs[0]].shape)
        inputs = {graph.inputs[0]: x.astype(np.int8)}
        wanted = evaluate(graph, inputs)
        for machine in machines:
            right &= measure(name, machine, graph, inputs, wanted, args.rtl)
    return 0 if right else 1


def measure(name: str, machine: Machine, graph: Graph, inputs, wanted, rtl: bool) -> bool:
    """Compiles, runs and compares one network, and prints its line."""
    begin = time.process_time()
    compiled = AccelTarget(machine).compile(graph)
    compiling = time.process_time() - begin
    segment = compiled.on(SimulatedDevice(machine, cycle.simulate))
    begin = time.perf_counter()
    made = segment(inputs)
    outputs, run = made.values, made.run
    running = time.perf_counter() - begin
    right = all((outputs[value] == wanted[value]).all() for value in graph.outputs)
    macs = sum(row.macs for row in layer_rows(machine, compiled.program, compiled.work, run))
    line = (f"{name:13} {machine.config.name:14} {run.cycles:13,} cycles  "
            f"array {macs / run.cycles / machine.config.macs_per_cycle:6.1%}  "
            f"compiled {compiling:5.1f} s  run {running:5.1f} s  "
            f"values {'equal' if right else 'DIFFER'}")
    if rtl:
        core = compiled.on(SimulatedDevice(machine, simulator("verilator")))
        begin = time.perf_counter()
        same = core(inputs)
        seconds = time.perf_counter() - begin
        agrees = same.run.cycles == run.cycles and all(
            (same.values[value] == outputs[value]).all() for value in graph.outputs)
        line += f"  RTL {'equal' if agrees else 'DIFFERS'}, {seconds:.1f} s"
        right &= agrees
    print(line, flush=True)
    return right


if __name__ == "__main__":
    sys.exit(main())
