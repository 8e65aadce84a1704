"""How near is the lower bound of a layer to the best tiling that the simulator knows?

    python -m bench.bounds [--layers N] [--from N] [--most N]

30 layers of ResNet-18, MobileNet-v2, SqueezeNet, VGG-11, a keyword spotter and of own graphs, each
on one of three machines, are compiled as programs of one layer, with every tiling that fits, for
one and for two virtual threads, and measured by the cycle simulator. Where there are more than
`--most` (default 60; 0: any number), so many are: half of them those of the least bounds, half all
others at equal distances; the tiles that the formula chooses and those that move the fewest bytes
are always among them.

Prints for each layer its bound, the best of the measured and the ratio, and the same of bytes; then
``name value`` lines: `bounds_violated`, layers of which any tiling was better than the bound of the
layer; `tilings_violated`, tilings that were better than their own bounds; `bounds_geomean` and
`bounds_worst`, the best cycles over the bound; `bytes_geomean`, the same of DRAM bytes;
`bounds_milliseconds`, the mean time of a bound.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log
from statistics import mean
from typing import Any

from accel.figures.traffic import dram_bytes
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.bounds import bound_of, bounds_of_tilings
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.choices import Choices
from accel.mapping.schedules import tiles_of
from accel.mapping.target import AccelTarget
from accel.sim import cycle
from bench.inputs.networks import grouped_graph, product_graph
from bench.tilings import some
from compiler.frontend.onnx_import import convert
from compiler.graph import optimize, partition
from compiler.graph.graph import Graph
from compiler.graph.partition import ACCEL, subgraph
from lockstep.testing import zoo

THREADS = 2

SIZES = {"resnet18": 32, "mobilenet_v2": 32, "squeezenet": 32, "keywords": 49, "vgg11": 32}

PYNQ, ECP5, TINY = "pynq-1x16x16", "ecp5-1x8x8", "tiny-1x4x4"

LAYERS = (
    ("vgg11", "classifier.6", PYNQ),                    # dense
    ("mobilenet_v2", "features.2.conv.0.0", PYNQ),      # 1x1
    ("resnet18", "layer2.0.conv1", PYNQ),               # 3x3, stride 2
    ("squeezenet", "features.6.expand3x3", ECP5),
    ("keywords", "block1.dw.conv", ECP5),               # depthwise
    ("resnet18", "layer2.0.conv1", TINY),
    ("mobilenet_v2", "features.8.conv.1.0", TINY),
    ("grouped", "conv2d", PYNQ),
    ("product", "matmul", PYNQ),
    ("resnet18", "conv1", ECP5),                        # 7x7, stride 2
    ("resnet18", "layer1.0.conv1", PYNQ),
    ("resnet18", "layer2.0.downsample.0", PYNQ),
    ("mobilenet_v2", "features.3.conv.1.0", PYNQ),
    ("keywords", "block1.pw.conv", PYNQ),
    ("squeezenet", "features.3.squeeze", TINY),
    ("squeezenet", "features.6.expand3x3", TINY),
    ("mobilenet_v2", "features.5.conv.2", ECP5),
    ("keywords", "fc", TINY),
    ("vgg11", "classifier.6", ECP5),
    ("resnet18", "layer3.0.conv1", ECP5),
    ("resnet18", "conv1", PYNQ),
    ("grouped", "conv2d", TINY),
    ("product", "matmul", ECP5),
    ("vgg11", "features.13", PYNQ),
    ("squeezenet", "features.9.expand3x3", PYNQ),
    ("mobilenet_v2", "features.4.conv.1.0", ECP5),
    ("resnet18", "layer3.0.conv2", TINY),
    ("keywords", "conv", ECP5),
    ("squeezenet", "features.3.expand1x1", ECP5),
    ("mobilenet_v2", "features.8.conv.0.0", TINY),
)
"""Networks, layers, machines."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, metavar="N", default=len(LAYERS))
    parser.add_argument("--from", type=int, metavar="N", default=0, dest="begin")
    parser.add_argument("--most", type=int, metavar="N", default=60)
    args = parser.parse_args(argv)
    found = []
    for number in range(args.begin, min(args.layers, len(LAYERS))):
        network, name, machine = LAYERS[number]
        found.append(one := measured(*_layer(network, name, machine), args.most))
        tried = f"all {one.fitting}" if one.tried >= one.fitting else (
            f"{one.tried} of {one.fitting}")
        print(f"{number} {network} {name} on {machine}: bound {one.bound:,}, best of {tried} "
              f"{one.cycles:,}, ratio {one.cycles / one.bound:.3f}; bytes {one.bound_bytes:,}, "
              f"{one.dram_bytes:,}, {one.dram_bytes / one.bound_bytes:.3f}", flush=True)
    print("layers", len(found))
    print("bounds_violated", sum(one.cycles < one.bound or one.dram_bytes < one.bound_bytes
                                 for one in found))
    print("tilings_violated", sum(one.violated for one in found))
    print("bounds_geomean", f"{_geomean([one.cycles / one.bound for one in found]):.4f}")
    print("bounds_worst", f"{max(one.cycles / one.bound for one in found):.4f}")
    print("bytes_geomean", f"{_geomean([one.dram_bytes / one.bound_bytes for one in found]):.4f}")
    print("bounds_milliseconds", f"{1e3 * mean(one.seconds for one in found):.1f}")
    return 0


@dataclass(frozen=True)
class MeasuredLayer:
    """The bounds of a layer; the best of its tilings that were measured, so many of those that fit;
    how many were better than their own bounds; the seconds that the layer's bound took.
    """

    bound: int
    cycles: int
    bound_bytes: int
    dram_bytes: int
    tried: int
    fitting: int
    violated: int
    seconds: float


def measured(machine: Machine, layer: MappedLayer, program: Any, most: int) -> MeasuredLayer:
    """Measures the tilings of a layer, of which `program` makes programs."""
    begin = time.perf_counter()
    bound = bound_of(machine, layer, THREADS)
    seconds = time.perf_counter() - begin
    every = [(*way, threads) for threads in range(1, THREADS + 1)
             for way in bounds_of_tilings(machine, layer, threads)]
    every.sort(key=lambda way: way[0])
    own = tiles_of(machine, layer.operator, THREADS)
    tried = [*some(every, most or len(every)), min(every, key=lambda way: way[1::-1]),
             *(way for way in every if way[2:] == own)]
    tried = list(dict.fromkeys(tried))
    choices, results = Choices(machine, THREADS), []
    for *_, tiles, threads in tried:
        code = program([(choices.part(layer, {}, tiles, threads),)])
        results.append((cycle.measure(machine, code).cycles, int(dram_bytes(machine, code).sum())))
    violated = sum(result[0] < way[0] or result[1] < way[1]
                   for way, result in zip(tried, results, strict=True))
    return MeasuredLayer(bound.cycles, min(cycles for cycles, _ in results), bound.dram_bytes,
                    min(moved for _, moved in results), len(tried), len(every), violated, seconds)


def _layer(network: str, name: str, machine_name: str) -> tuple[Machine, MappedLayer, Any]:
    machine, groups, program = _parts(network, machine_name)
    return machine, next(part.layer for group in groups for part in group
                         if part.layer.name == name), program


@cache
def _parts(network: str, machine_name: str) -> tuple[Machine, Any, Any]:
    """A machine, the groups of layers of a network on it, and what makes programs of them."""
    machine = load_machine(machine_name)
    target = AccelTarget(machine, THREADS)
    graph = _graph(network)
    taken = max((one for one in partition(graph, lambda node: target.refusal(graph, node)).segments
                 if one.target == ACCEL), key=lambda one: len(one.nodes))
    return machine, *target.parts(subgraph(graph, taken))


@cache
def _graph(network: str) -> Graph:
    if network == "grouped":
        return grouped_graph(64, 64, 12, groups=2)
    if network == "product":
        return product_graph(48, 96, 64)
    return optimize(convert(zoo.build(network, SIZES[network], int8=True), network))


def _geomean(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


if __name__ == "__main__":
    sys.exit(main())
