"""What do MobileNet-v1's depthwise layers cost, each behind a layer that makes its input?

Runs each on the cycle simulator, times only. Prints cycles, block products (0 where an instruction
of vector multiplies), the traffic on the bus in cycles and what gemm waited for; then the lines
``depthwise_cycles`` and ``depthwise_products``.
"""

import argparse
import sys

from accel.figures.attribution import activities, layer_ends
from accel.figures.traffic import dram_bytes
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.status import STALLS
from accel.mapping.schedules import tiles_of
from accel.mapping.target import AccelTarget
from accel.mapping.work import block_products
from accel.sim.cycle import simulate
from bench.inputs.networks import depthwise_graph

LAYERS = ((32, 112, 1), (64, 112, 2), (128, 56, 1), (128, 56, 2), (256, 28, 1), (256, 28, 2),
          (512, 14, 1), (512, 14, 1), (512, 14, 1), (512, 14, 1), (512, 14, 1), (512, 14, 2),
          (1024, 7, 1))
"""Channels, pixels of a side, stride."""


def measure(machine: Machine, layer: tuple[int, int, int], latency: int) -> tuple[int, int]:
    """Runs and prints one layer; returns its cycles and its products."""
    channels, size, stride = layer
    compiled = AccelTarget(machine).compile(depthwise_graph(channels, size, stride))
    run = simulate(machine, compiled.program, values=False, timeline=True, latency=latency)
    assert run.ok and run.timeline is not None, run.describe()
    ends = layer_ends(compiled.program, run)
    cycles, products = int(ends[1] - ends[0]), block_products(compiled.layers[1])
    gemm = activities(run.timeline, [*ends, run.cycles])[1]["gemm"]
    moved = int(dram_bytes(machine, compiled.program)[compiled.program.layers[0][1]:].sum())
    bus = -(-moved // machine.config.bus_bytes)
    waits = ", ".join(f"{cause} {gemm[cause] / cycles:.1%}" for cause in STALLS if gemm[cause])
    tiles, _ = tiles_of(machine, compiled.layers[1].operator, 2)
    ratio = f", {cycles / products:.3f}" if products else ""
    print(f"{size:3}x{size:<3} x {channels:<4} stride {stride}: {cycles:8,} cycles, "
          f"{products:8,} products{ratio}; {bus:7,} of traffic; gemm waits for "
          f"{waits or 'nothing'}; tile {tiles.rows}x{tiles.columns}x{tiles.channels}", flush=True)
    return cycles, products


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", "--config", default="pynq-1x16x16")
    parser.add_argument("--dram-latency", type=int, default=64)
    args = parser.parse_args()
    machine = load_machine(args.machine)
    made = {layer: measure(machine, layer, args.dram_latency) for layer in dict.fromkeys(LAYERS)}
    print("depthwise_cycles", sum(made[layer][0] for layer in LAYERS))
    print("depthwise_products", sum(made[layer][1] for layer in LAYERS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
