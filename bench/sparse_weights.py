"""What do 2:4 sparse weights save? A network of the zoo and the digits, pruned by the quantizer.

    python -m bench.sparse_weights [--size N] [--geometry M] [NETWORK ...]

Times only, in the cycle simulator: each network with its own weights and with pruned ones, on the
shipped machine, on that of `examples/machines/sparse.py` and on that of `halved.py`, which has half
the multipliers. Prints ``NETWORK weights machine``, the cycles with a memory of the whole bus and
of a quarter, the bytes loaded to wgt and the multipliers of gemm.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accel.datapath.plan import plan
from accel.figures.traffic import dram_bytes
from accel.machine import isa
from accel.machine.config import MACHINE
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.words import decode_words
from accel.mapping.target import AccelTarget
from accel.sim import cycle
from compiler.frontend.onnx_import import convert
from compiler.graph import Graph, optimize, partition
from compiler.graph.partition import ACCEL, subgraph
from compiler.quantize import quantize
from lockstep.testing import zoo
from lockstep.testing.networks.parameters import fill

EXAMPLES = Path(__file__).parents[1] / "examples"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, metavar="N")
    parser.add_argument("--geometry", default=MACHINE)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=["digits", "resnet18"])
    args = parser.parse_args(argv)
    shipped = load_machine(args.geometry)
    declared = {name: load_machine(EXAMPLES / "machines" / f"{name}.py").declarations
                for name in ("sparse", "halved")}
    machines = {"gemm": shipped} | {name: Machine(shipped.config, instructions)
                                    for name, instructions in declared.items()}
    for network in args.networks:
        for weights, sparsity in (("dense", None), ("2:4", "2:4")):
            graph = network_of(network, args.size, sparsity)
            for name, machine in machines.items():
                print(network, weights, name, *figures(machine, graph),
                      plan(machine, "gemm").count("mul"), flush=True)
    return 0


def network_of(name: str, size: int | None, sparsity: str | None) -> Graph:
    rng = np.random.default_rng(0)
    if name == "digits":
        file = EXAMPLES / "digits" / "digits-float.onnx"
        return optimize(quantize(file, rng.random((8, 1, 8, 8), np.float32),
                                 sparsity=sparsity).graph)
    net = zoo.network(name, size)
    model = zoo.float_model(net, fill(net, 0, lambda macs: None))
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    samples = rng.standard_normal((1, *shape[1:]), np.float32)
    return optimize(convert(quantize(model, samples, sparsity=sparsity).model, name))


def figures(machine: Machine, graph: Graph) -> tuple[int, int, int]:
    """Cycles with the whole bus and with a quarter of it, and bytes loaded to wgt."""
    target = AccelTarget(machine)
    parts = partition(graph, lambda node: target.refusal(graph, node))
    cycles, loaded = [0, 0], 0
    for part in parts.segments:
        if part.target != ACCEL:
            continue
        program = target.compile(subgraph(graph, part)).program
        for at, rate in enumerate((1, 4)):
            cycles[at] += cycle.simulate(machine, program, values=False,
                                         bytes_per_cycle=machine.config.bus_bytes / rate).cycles
        wgt = isa.BUFFERS.index("wgt")
        to_wgt = np.array([one.unit == "load" and one.fields["buffer"] == wgt
                           for one in decode_words(machine, program.words)])
        loaded += int(dram_bytes(machine, program)[to_wgt].sum())
    return cycles[0], cycles[1], loaded


if __name__ == "__main__":
    sys.exit(main())
