"""Changes of layout between NCHW and NHWC: with one at every border, and after the layout pass.

    python -m bench.layout [NAME ...] [--target PRESET]

For each network of `NETWORKS` prints how many tensors are converted, their bytes, and the time of
conversions and of the host's operators together, before and after: the least of several runs,
measured here. Nothing is compiled for the accelerator, whose programs are the same.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from accel.machine.loading import load_machine
from bench.inputs.networks import branches_graph, residual_graph
from compiler.frontend.onnx_import import convert
from compiler.graph import Copy, Graph, optimize
from compiler.graph.layout import Layout, as_it_is, lay_out
from compiler.graph.partition import HOST
from compiler.graph.placement import Pins
from lockstep.testing import zoo
from runtime.auto import greedy
from runtime.costs import Pricing
from runtime.targets import Targets, accelerator

RUNS = 15


def of_zoo(name: str, size: int) -> Graph:
    return optimize(convert(zoo.build(name, size=size, int8=True), name))


NETWORKS: Mapping[str, tuple[Callable[[], Graph], Pins]] = {
    "residual": (partial(residual_graph, 64, 56), {}),
    "branches": (partial(branches_graph, 64, 28), {}),
    "unet": (partial(of_zoo, "unet", 128), {}),
    "unet, concatenations on the host": (partial(of_zoo, "unet", 128), {"qconcat": HOST}),
    "unet, pools on the host": (partial(of_zoo, "unet", 128), {"qmaxpool": HOST}),
    "squeezenet, concatenations on the host": (partial(of_zoo, "squeezenet", 224),
                                               {"qconcat": HOST}),
    "vit_small": (partial(of_zoo, "vit_small", 64), {}),
    "bert_small": (partial(of_zoo, "bert_small", 64), {}),
}
"""Networks with pins: nodes that the host has between layers of the accelerator."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.layout", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *NETWORKS],
                        help=", ".join(NETWORKS))
    parser.add_argument("--target", default="pynq-1x16x16", metavar="PRESET")
    args = parser.parse_args(argv)
    targets = Targets([accelerator(load_machine(args.target))])
    for name in args.names or NETWORKS:
        make, pins = NETWORKS[name]
        graph = make()
        pricing = Pricing(graph, targets, measure)
        parts = greedy(graph, targets, pins)
        layout = lay_out(parts, targets.borders(graph))
        before, after = (milliseconds(pricing, one) for one in (as_it_is(parts), layout))
        made = layout.figures()
        print(f"{name}: {made['at_every_border']['count']} -> {made['count']} conversions, "
              f"{made['at_every_border']['bytes']:,} -> {made['bytes']:,} bytes, "
              f"{before:.2f} -> {after:.2f} ms", flush=True)
    return 0


def measure(what: str, run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def milliseconds(pricing: Pricing, layout: Layout) -> float:
    """The time of the host's segments, and of conversions while values are copied."""
    steps = [pricing.price(layout, step) for step in layout.partition.steps
             if isinstance(step, Copy) or step.target == HOST]
    return 1e3 * sum(getattr(step, "layout_seconds", step.seconds) for step in steps)


if __name__ == "__main__":
    sys.exit(main())
