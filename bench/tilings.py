"""How far is the tiling that a search takes from the best of all?

    python -m bench.tilings [--layers N] [--seed N] [--effort 0|1|2]

Draws layers of five networks on three machines. Each is measured by the cycle simulator as it
stands between its neighbours: as the search of `--effort` (default 2) leaves it, and with every
tiling that fits, for every number of virtual threads. Prints a line for each layer, then ``name
value`` lines: `tilings_worst` and `tilings_mean`, the cycles of the chosen one over those of the
best, minus one, in percent. The search takes nothing from the cache.
"""

import argparse
import sys
from collections.abc import Sequence
from random import Random
from unittest.mock import patch

from accel.machine.loading import load_machine
from accel.mapping import search
from accel.mapping.choices import Choices, Group
from accel.mapping.schedules import shape_of
from accel.mapping.schedules.tiles import all_that_fit
from accel.mapping.search import EFFORTS, Search
from accel.mapping.target import AccelTarget
from accel.sim import cycle
from compiler.frontend.onnx_import import convert
from compiler.graph import optimize, partition
from compiler.graph.partition import ACCEL, subgraph
from examples import zoo

NETWORKS = (("resnet18", 64), ("mobilenet_v2", 64), ("squeezenet", 64), ("keywords", 49),
            ("vgg11", 32))
MACHINES = ("pynq-1x16x16", "ecp5-1x8x8", "tiny-1x4x4")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, metavar="N", default=20)
    parser.add_argument("--seed", type=int, metavar="N", default=0)
    parser.add_argument("--effort", type=int, choices=range(3), default=2)
    args = parser.parse_args(argv)
    print("seed", args.seed)
    random, over = Random(args.seed), []
    for number in range(args.layers):
        network, size = NETWORKS[number % len(NETWORKS)]
        machine = MACHINES[number // len(NETWORKS) % len(MACHINES)]
        name, chosen, best, count = measured(network, size, machine, random, args.effort)
        over.append(100 * (chosen / best - 1))
        print(f"{network} {machine} {name}: {chosen:,} cycles, best of {count} {best:,}, "
              f"{over[-1]:.2f} %", flush=True)
    print("tilings_worst", f"{max(over):.2f}")
    print("tilings_mean", f"{sum(over) / len(over):.2f}")
    return 0


def measured(network: str, size: int, name: str, random: Random, effort: int
             ) -> tuple[str, int, int, int]:
    """The name of a layer, the cycles of the three groups of layers around it with the tiles that
    the search takes, with the best tiles of all, and how many there are.
    """
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

    def cycles(way: Sequence[Group]) -> int:
        return cycle.measure(machine, program([*before, *way, *after])).cycles

    chosen, layer = list(groups[place:place + 1]), groups[place][0].layer
    if (how := EFFORTS[effort]) is not None:
        with patch.object(search, "noted", lambda *_: None), \
                patch.object(search, "note", lambda *_: None):
            found = Search(choices, how, cycle.measure, program)
            chosen = found.ways_of(before, chosen, after)
    shape = shape_of(layer.operator)
    every = [cycles([(choices.part(layer, {}, tiles, threads),)])
             for threads in range(1, target.threads + 1)
             for tiles in all_that_fit(machine.config, shape, threads)]
    return layer.name, cycles(chosen), min(every), len(every)


if __name__ == "__main__":
    sys.exit(main())
