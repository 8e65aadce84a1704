"""What do weights of 4 bits save? Networks of the zoo on a machine that unpacks them.

    python -m bench.packed_weights [--machine M] [--bits 4] [NETWORK ...]

Int8 networks of `examples.zoo` with 8-bit weights on the machine as it is, and with weights of 4
bits in all layers but the first and the last on the same machine with ``weight_bits = [8, 4]``, in
the cycle simulator, with memories of the whole bus, half of it and a quarter. Prints ``name value``
lines, for each NETWORK

``NETWORK_weights_saved``  share of the bytes loaded to wgt that are gone, %
``NETWORK_bytes_saved``    the same of all bytes between memory and buffers
``NETWORK_cycles_saved_full``, ``..._half``, ``..._quarter``  of cycles, by the rate of the memory
``NETWORK_fastest_layer``  the most that a layer gains at the full rate, times

and with ``--digits`` the share of the held-out digits that the accelerator gets right, by the bits
of weights (``digits_8``, ``digits_4``, ``digits_2``; needs scikit-learn).
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.figures.layers import layer_rows
from accel.figures.traffic import dram_bytes
from accel.machine import isa
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.words import decode_words
from accel.mapping.target import AccelTarget
from accel.sim import cycle
from compiler.frontend.onnx_import import convert
from compiler.graph import optimize, partition
from compiler.graph.partition import ACCEL, subgraph
from compiler.quantize import quantize, quantize_ranges
from lockstep.testing import zoo
from lockstep.testing.networks.parameters import fill

NETWORKS = ("resnet18", "vgg11", "mobilenet_v1")
RATES = {"full": 1, "half": 2, "quarter": 4}


@dataclass(frozen=True)
class Figures:
    """Bytes that a network moves, and cycles by the rate of the memory."""

    weights: int
    moved: int
    cycles: dict[str, int]
    layers: dict[str, int]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", default="pynq-1x16x16")
    parser.add_argument("--bits", type=int, choices=(4, 2), default=4)
    parser.add_argument("--size", type=int, metavar="N")
    parser.add_argument("--digits", action="store_true")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=NETWORKS)
    args = parser.parse_args(argv)
    plain = load_machine(args.machine)
    packed = with_bits(plain, args.bits)
    for name in args.networks:
        before, after = (figures(machine, name, bits, args.size)
                         for machine, bits in ((plain, 8), (packed, args.bits)))
        print(f"{name}_weights_saved", saved(before.weights, after.weights))
        print(f"{name}_bytes_saved", saved(before.moved, after.moved))
        for rate, cycles in before.cycles.items():
            print(f"{name}_cycles_saved_{rate}", saved(cycles, after.cycles[rate]))
        gains = (cycles / after.layers[layer] for layer, cycles in before.layers.items()
                 if after.layers.get(layer))
        print(f"{name}_fastest_layer", f"{max(gains):.2f}")
    if args.digits:
        for bits in (8, 4, 2):
            print(f"digits_{bits}", f"{100 * digits(packed if bits < 8 else plain, bits):.2f}")
    return 0


def with_bits(machine: Machine, bits: int) -> Machine:
    return replace(machine, config=replace(machine.config, weight_bits=(8, bits)))


def saved(before: int, after: int) -> str:
    return f"{100 * (1 - after / before):.1f}"


def figures(machine: Machine, name: str, bits: int, size: int | None) -> Figures:
    net = zoo.network(name, size)
    filled = fill(net, 0, lambda macs: None)
    model = quantize_ranges(zoo.float_model(net, filled), filled.ranges, bits)
    graph = optimize(convert(model, name))
    target = AccelTarget(machine)
    parts = partition(graph, lambda node: target.refusal(graph, node))
    taken, = (part for part in parts.segments if part.target == ACCEL)
    segment = target.compile(subgraph(graph, taken))
    moved = dram_bytes(machine, segment.program)
    wgt = isa.BUFFERS.index("wgt")
    to_wgt = np.array([one.unit == "load" and one.fields["buffer"] == wgt
                       for one in decode_words(machine, segment.program.words)])
    runs = {rate: cycle.simulate(machine, segment.program, values=False,
                                 bytes_per_cycle=machine.config.bus_bytes / part)
            for rate, part in RATES.items()}
    rows = layer_rows(machine, segment.program, segment.work, runs["full"])
    return Figures(int(moved[to_wgt].sum()), int(moved.sum()),
                   {rate: run.cycles for rate, run in runs.items()},
                   {row.name: row.cycles for row in rows})


def digits(machine: Machine, bits: int) -> float:
    from examples.digits.data import held_out
    from examples.digits.quantized import FLOAT, accuracy, calibration
    from runtime import SimulatedDevice, compile_graph, simulator

    network = quantize(FLOAT, calibration(), bias_correction=True, weight_bits=bits)
    module = compile_graph(optimize(network.graph), AccelTarget(machine),
                           SimulatedDevice(machine, simulator("functional")))
    return accuracy(module, *held_out())


if __name__ == "__main__":
    sys.exit(main())
