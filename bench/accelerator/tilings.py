"""How near are chosen tilings, and the lower bounds of layers, to the best tiling of all?

`searched` draws ``--layers`` layers of five networks on three machines. Each is measured by the
cycle simulator as it stands between its neighbours: as the search of ``--effort`` leaves it, and
with the tilings that fit, for every number of virtual threads. ``--most`` (120; 0: any number) of
a layer's tilings are measured: the half of them that the formula likes best, and others at equal
distances. Prints a line for each layer, then `tilings_worst` and `tilings_mean`, the cycles of the
chosen one over those of the best, minus one, in percent. The search takes nothing from the cache.
What is drawn for a layer depends on its number and the seed, so ``--from`` goes on with the layer
of that number.

`bounds` compiles 30 layers, each on one of three machines, as programs of one layer, with every
tiling that fits, for one and for two virtual threads. Where there are more than ``--most`` (60), so
many are measured: half of them those of the least bounds, half all others at equal distances; the
tiles that the formula chooses and those that move the fewest bytes are always among them. Prints
for each layer its bound, the best of the measured and the ratio, and the same of bytes; then
`bounds_violated`, layers of which any tiling was better than the bound of the layer;
`tilings_violated`, tilings that were better than their own bounds; `bounds_geomean` and
`bounds_worst`, the best cycles over the bound; `bytes_geomean`, the same of DRAM bytes;
`bounds_milliseconds`, the mean time of a bound.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import geometric_mean, mean
from typing import Any, TypeVar
from unittest.mock import patch

from accel.figures.traffic import dram_bytes
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.bounds import bound_of, bounds_of_tilings
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.plans import search
from accel.mapping.plans.choices import Choices, Group, groups_text
from accel.mapping.plans.search import EFFORTS, Search
from accel.mapping.schedules import shape_of, tiles_of
from accel.mapping.schedules.ranking import all_that_fit
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from bench.frame import Bench, Sheet
from tests.support.networks import grouped_graph, product_graph
from compiler.frontend.onnx.importing import convert
from compiler.graph import optimize, partition
from compiler.graph.division.partition import ACCEL, subgraph
from compiler.graph.graph import Graph
from lockstep.testing import zoo

SEARCHED = (("resnet18", 64), ("mobilenet_v2", 64), ("squeezenet", 64), ("keywords", 49),
            ("vgg11", 32))
MACHINES = ("pynq-1x16x16", "ecp5-1x8x8", "tiny-1x4x4")
Item = TypeVar("Item")
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

BENCH = Bench(__file__, __doc__, seed=0)
BENCH.option("--layers", type=int, metavar="N", help="up to this one (20; of bounds 30)")
BENCH.option("--from", type=int, metavar="N", default=0, dest="begin", help="the first layer")
BENCH.option("--most", type=int, metavar="N", help="tilings of a layer")
BENCH.option("--effort", type=int, choices=range(3), default=2, help="of the search")


@BENCH.part()
def searched(sheet: Sheet) -> None:
    over = []
    for number in range(sheet.begin, 20 if sheet.layers is None else sheet.layers):
        network, size = SEARCHED[number % len(SEARCHED)]
        machine = MACHINES[number // len(SEARCHED) % len(MACHINES)]
        found = drawn(network, size, machine, Random(f"{sheet.seed} {number}"), sheet.effort,
                      120 if sheet.most is None else sheet.most)
        over.append(100 * (found.chosen / found.best - 1))
        print(f"{number} {network} {machine} {found.layer}: {found.chosen:,} cycles, best of "
              f"{found.tried} of {found.fitting} {found.best:,}, {over[-1]:.2f} %", flush=True)
    sheet.figure("tilings_worst", max(over), ".2f")
    sheet.figure("tilings_mean", mean(over), ".2f")


@BENCH.part()
def bounds(sheet: Sheet) -> None:
    found = []
    last = len(LAYERS) if sheet.layers is None else min(sheet.layers, len(LAYERS))
    for number in range(sheet.begin, last):
        network, name, machine = LAYERS[number]
        found.append(one := measured(*_layer(network, name, machine),
                                     60 if sheet.most is None else sheet.most))
        tried = f"all {one.fitting}" if one.tried >= one.fitting else (
            f"{one.tried} of {one.fitting}")
        print(f"{number} {network} {name} on {machine}: bound {one.bound:,}, best of {tried} "
              f"{one.cycles:,}, ratio {one.cycles / one.bound:.3f}; bytes {one.bound_bytes:,}, "
              f"{one.dram_bytes:,}, {one.dram_bytes / one.bound_bytes:.3f}", flush=True)
    sheet.figure("layers", len(found))
    sheet.figure("bounds_violated", sum(one.cycles < one.bound or one.dram_bytes < one.bound_bytes
                                        for one in found))
    sheet.figure("tilings_violated", sum(one.violated for one in found))
    ratios = [one.cycles / one.bound for one in found]
    sheet.figure("bounds_geomean", geometric_mean(ratios), ".4f")
    sheet.figure("bounds_worst", max(ratios), ".4f")
    sheet.figure("bytes_geomean", geometric_mean(one.dram_bytes / one.bound_bytes
                                                 for one in found), ".4f")
    sheet.figure("bounds_milliseconds", 1e3 * mean(one.seconds for one in found), ".1f")


@dataclass(frozen=True)
class Drawn:
    """A layer, the cycles of the three groups of layers around it with the tiles that the search
    takes and with the best that were tried, how many these are, and how many fit.
    """

    layer: str
    chosen: int
    best: int
    tried: int
    fitting: int


def drawn(network: str, size: int, name: str, random: Random, effort: int, most: int) -> Drawn:
    """Draws a layer, searches its tiles, and tries others."""
    machine, groups, program = _parts(network, size, name)
    threads = AccelTarget(machine).threads
    choices = Choices(machine, threads)
    place = random.choice([at for at, group in enumerate(groups) if len(group) == 1])
    before, after = groups[max(place - 1, 0):place], groups[place + 1:place + 2]
    known: dict[str, int] = {}

    def cycles(groups: Sequence[Group]) -> int:
        text = groups_text(groups)
        if text not in known:
            known[text] = cycle.measure(machine, program(groups)).cycles
        return known[text]

    chosen, layer = list(groups[place:place + 1]), groups[place][0].layer
    if (how := EFFORTS[effort]) is not None:
        with patch.object(search, "noted", lambda *_: None), \
                patch.object(search, "note", lambda *_: None), \
                patch.object(Search, "_cycles", lambda _, groups: cycles(groups)):
            found = Search(choices, how, cycle.measure, program)
            chosen = found.ways_of(before, chosen, after)
    shape = shape_of(layer.operator)
    fitting = {count: all_that_fit(machine.config, shape, count)
               for count in range(1, threads + 1)}
    every = [cycles([*before, (choices.part(layer, {}, tiles, count),), *after])
             for count, fits in fitting.items()
             for tiles in some(fits, most // len(fitting) if most else len(fits))]
    taken = cycles([*before, *chosen, *after])
    return Drawn(layer.name, taken, min(taken, *every), len(every),
                 sum(map(len, fitting.values())))


def some(tiles: Sequence[Item], most: int) -> list[Item]:
    """So many tiles, or the like: half of them the first, the rest from all others at equal
    distances.
    """
    if len(tiles) <= most:
        return list(tiles)
    first = most // 2
    others, count = tiles[first:], most - first
    return [*tiles[:first], *(others[at * len(others) // count] for at in range(count))]


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
    machine, groups, program = _parts(network, SIZES.get(network, 0), machine_name, THREADS)
    return machine, next(part.layer for group in groups for part in group
                         if part.layer.name == name), program


@cache
def _parts(network: str, size: int, machine_name: str, threads: int | None = None
           ) -> tuple[Machine, Any, Any]:
    """A machine, the groups of layers of a network on it, and what makes programs of them."""
    machine = load_machine(machine_name)
    target = AccelTarget(machine) if threads is None else AccelTarget(machine, threads)
    graph = _graph(network, size)
    parts = partition(graph, lambda node: target.refusal(graph, node))
    taken = max((part for part in parts.segments if part.target == ACCEL),
                key=lambda part: len(part.nodes))
    return machine, *target.parts(subgraph(graph, taken))


@cache
def _graph(network: str, size: int) -> Graph:
    if network == "grouped":
        return grouped_graph(64, 64, 12, groups=2)
    if network == "product":
        return product_graph(48, 96, 64)
    return optimize(convert(zoo.build(network, size, int8=True), network))
