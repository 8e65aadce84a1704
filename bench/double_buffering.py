"""Does explicit latency hiding pay? One convolution in RTL, with one virtual thread and with two.

3x3, 128 -> 128 channels, 28x28, on pynq-1x16x16 with 64 cycles of DRAM latency. Each run has the
tiles that the cost model finds best for its number of threads. Prints ``name value`` lines: cycles
of both, the array's limit (one block product a cycle) and the share of cycles that two threads
save.
"""

import argparse
import sys

import numpy as np

from accel.config import load
from accel.machine import Machine
from accel.target import AccelTarget
from bench.networks import convolution_graph
from runtime import SimulatedDevice, compile_graph, simulator
from runtime.report import block_products


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="pynq-1x16x16")
    parser.add_argument("--dram-latency", type=int, default=64)
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--size", type=int, default=28)
    args = parser.parse_args()
    machine = Machine(load(args.config))
    graph = convolution_graph(args.channels, args.channels, args.size, seed=0)
    cycles, outputs = {}, []
    for threads in (1, 2):
        device = SimulatedDevice(machine, simulator("verilator", latency=args.dram_latency))
        module = compile_graph(graph, AccelTarget(machine, threads), device)
        rng = np.random.default_rng(0)
        module.set_input("x", rng.integers(-128, 128, graph.values["x"].shape).astype(np.int8))
        (run,) = module.run()
        cycles[threads] = run.cycles
        outputs.append(module.get_output(graph.outputs[0]))
    limit = sum(block_products(layer) for part in module.accelerated for layer in part.layers)
    assert np.array_equal(*outputs), "one and two threads must compute the same"
    print("conv_cycles_one_thread", cycles[1])
    print("conv_cycles_two_threads", cycles[2])
    print("conv_cycles_limit", limit)
    print("conv_cycles_saved", f"{1 - cycles[2] / cycles[1]:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
