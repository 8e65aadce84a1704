"""How far is the tiling that a search takes from the best of all?

    python -m bench.tilings [--layers N] [--from N] [--most N] [--seed N] [--effort 0|1|2]

Draws layers of five networks on three machines. Each is measured by the cycle simulator as it
stands between its neighbours: as the search of `--effort` (default 2) leaves it, and with the
tilings that fit, for every number of virtual threads. `--most` (default 120; 0: any number) of a
layer's tilings are measured: the half of them that the formula likes best, and of all others every
so-manieth. Prints a line for each layer, then ``name value`` lines: `tilings_worst` and
`tilings_mean`, the cycles of the chosen one over those of the best, minus one, in percent. The
search takes nothing from the cache. What is drawn for a layer depends on its number and the seed,
so `--from` goes on with the layer of that number.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar
from unittest.mock import patch

from accel.machine.loading import load_machine
from accel.mapping import search
from accel.mapping.choices import Choices, Group, groups_text
from accel.mapping.schedules import shape_of
from accel.mapping.schedules.ranking import all_that_fit
from accel.mapping.search import EFFORTS, Search
from accel.mapping.target import AccelTarget
from accel.sim import cycle
from compiler.frontend.onnx_import import convert
from compiler.graph import optimize, partition
from compiler.graph.partition import ACCEL, subgraph
from lockstep.testing import zoo

NETWORKS = (("resnet18", 64), ("mobilenet_v2", 64), ("squeezenet", 64), ("keywords", 49),
            ("vgg11", 32))
Item = TypeVar("Item")

MACHINES = ("pynq-1x16x16", "ecp5-1x8x8", "tiny-1x4x4")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, metavar="N", default=20)
    parser.add_argument("--from", type=int, metavar="N", default=0, dest="begin")
    parser.add_argument("--most", type=int, metavar="N", default=120)
    parser.add_argument("--seed", type=int, metavar="N", default=0)
    parser.add_argument("--effort", type=int, choices=range(3), default=2)
    args = parser.parse_args(argv)
    print("seed", args.seed)
    over = []
    for number in range(args.begin, args.layers):
        network, size = NETWORKS[number % len(NETWORKS)]
        machine = MACHINES[number // len(NETWORKS) % len(MACHINES)]
        found = measured(network, size, machine, Random(f"{args.seed} {number}"), args.effort,
                         args.most)
        over.append(100 * (found.chosen / found.best - 1))
        print(f"{number} {network} {machine} {found.layer}: {found.chosen:,} cycles, best of "
              f"{found.tried} of {found.fitting} {found.best:,}, {over[-1]:.2f} %", flush=True)
    print("tilings_worst", f"{max(over):.2f}")
    print("tilings_mean", f"{sum(over) / len(over):.2f}")
    return 0


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


def measured(network: str, size: int, name: str, random: Random, effort: int, most: int) -> Drawn:
    """Draws a layer, searches its tiles, and tries others."""
    machine = load_machine(name)
    target = AccelTarget(machine)
    graph = optimize(convert(zoo.build(network, size, int8=True), network))
    parts = partition(graph, lambda node: target.refusal(graph, node))
    taken = max((one for one in parts.segments if one.target == ACCEL),
                key=lambda one: len(one.nodes))
    groups, program = target.parts(subgraph(graph, taken))
    choices = Choices(machine, target.threads)
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
    fitting = {threads: all_that_fit(machine.config, shape, threads)
               for threads in range(1, target.threads + 1)}
    every = [cycles([*before, (choices.part(layer, {}, tiles, threads),), *after])
             for threads, fits in fitting.items()
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


if __name__ == "__main__":
    sys.exit(main())
