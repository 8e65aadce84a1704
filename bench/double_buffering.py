"""Does explicit latency hiding pay? One convolution in RTL, with one virtual thread and with two.

3x3, 128 -> 128 channels, 28x28, on pynq-1x16x16 with 64 cycles of DRAM latency. Prints ``name
value`` lines: cycles of one schedule with one and with two virtual threads, the share that two
threads save, the array's limit (one block product a cycle), and the cycles of one thread with the
tiles that the cost model finds best for a single thread, which may fill whole buffers, with the
share that two threads save of those.
"""

import argparse
import sys

import numpy as np

from accel.machine.loading import load_machine
from accel.mapping.layout import from_blocked, to_plain
from accel.mapping.schedules import Tiles, schedule, tiles_of
from accel.mapping.target import AccelTarget, assemble
from accel.mapping.work import block_products
from accel.sim import verilated
from bench.inputs.networks import convolution_graph
from compiler.graph.reference import evaluate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", "--config", default="pynq-1x16x16")
    parser.add_argument("--dram-latency", type=int, default=64)
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--size", type=int, default=28)
    args = parser.parse_args()
    machine = load_machine(args.machine)
    graph = convolution_graph(args.channels, args.channels, args.size, seed=0)
    layer = AccelTarget(machine).compile(graph).layers[0]
    x = np.random.default_rng(0).integers(-128, 128, graph.values["x"].shape).astype(np.int8)
    wanted = evaluate(graph, {"x": x})["y"]

    def cycles(tiles: Tiles, threads: int) -> int:
        loops = schedule(machine, layer.operator, tiles, threads).program
        constants = {layer.operator[role].name: array for role, array in layer.constants.items()}
        program = assemble(machine, loops, constants)
        run = verilated.simulate(machine, program, latency=args.dram_latency,
                                 inputs={layer.operator["x"].name: to_plain(x)})
        stored = program.extract(run.memory, layer.operator.output.name)
        made = from_blocked(stored.reshape(*stored.shape[:4], -1), wanted.shape)
        assert run.ok and np.array_equal(made, wanted), "the result must be right"
        return run.cycles

    best, _ = tiles_of(machine, layer.operator, 2)
    alone, _ = tiles_of(machine, layer.operator, 1)
    one, two, single = cycles(best, 1), cycles(best, 2), cycles(alone, 1)
    print("conv_cycles_one_thread", one)
    print("conv_cycles_two_threads", two)
    print("conv_cycles_limit", block_products(layer))
    print("conv_cycles_saved", f"{1 - two / one:.4f}")
    print("conv_cycles_one_thread_own_tiles", single)
    print("conv_cycles_saved_own_tiles", f"{1 - two / single:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
