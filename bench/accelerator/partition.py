"""Is the target `auto` optimal, and what do changes of layout cost?

Prices are those of `runtime.driver.costs`: cycles of the accelerator at the clock of its preset,
times of the host measured on this computer (and kept), copies and starts over the assumed link.
`small`, `networks` and `detours` print

``partition_NETWORK_PRESET_over_best``   price of `auto` above that of the best of all divisions of
                                         a small network, enumerated, %
``partition_over_best``                  the largest of them
``partition_NETWORK_PRESET_over_either`` above the better of greedy and of the host alone, %
``partition_over_either``                the largest of them
``partition_greedy_lost``                price of greedy above that of `auto` where it loses, %

``--table`` shows the prices behind them. Enumeration skips divisions whose copies, starts and least
cycles alone cost more than the best known one.

`layout` compares changes between NCHW and NHWC at every border with those after the layout pass: of
each network how many tensors are converted, their bytes, and the time of conversions and of the
host's operators together, before and after: the least of several runs, measured here. Nothing is
compiled for the accelerator, whose programs are the same.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product

from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.lowering.nest import LoweringError
from bench.frame import Bench, Sheet
from tests.support.networks import branches_graph, detours_graph, residual_graph, separable_graph
from compiler.frontend.onnx.importing import convert, load as load_model
from compiler.graph import Copy, Graph, Partition, optimize
from compiler.graph.division.layout import Layout, as_it_is, lay_out
from compiler.graph.division.partition import ACCEL, HOST, Target
from compiler.graph.division.placement import Pins
from lockstep.testing import zoo
from lockstep.testing.models import DIGITS
from runtime.driver.auto import Choice, choose, greedy
from runtime.driver.costs import Pricing
from runtime.driver.targets import Targets, accelerator

RUNS = 15
PRESETS = ("pynq-1x16x16", "tiny-1x4x4")


def digits() -> Graph:
    return optimize(load_model(DIGITS))


def of_zoo(name: str, size: int) -> Callable[[], Graph]:
    return lambda: optimize(convert(zoo.build(name, size=size, int8=True), name))


SMALL: Mapping[str, tuple[Callable[[], Graph], str]] = {
    "digits": (digits, "tiny-1x4x4"),
    "residual": (lambda: residual_graph(64, 28), "pynq-1x16x16"),
    "branches": (lambda: branches_graph(32, 14), "pynq-1x16x16"),
    "separable": (lambda: separable_graph(512, 4), "pynq-1x16x16"),
}
NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "digits": digits,
    "squeezenet": of_zoo("squeezenet", 64),
    "mobilenet_v1": of_zoo("mobilenet_v1", 64),
}
LAID_OUT: Mapping[str, tuple[Callable[[], Graph], Pins]] = {
    "residual": (partial(residual_graph, 64, 56), {}),
    "branches": (partial(branches_graph, 64, 28), {}),
    "unet": (of_zoo("unet", 128), {}),
    "unet, concatenations on the host": (of_zoo("unet", 128), {"qconcat": HOST}),
    "unet, pools on the host": (of_zoo("unet", 128), {"qmaxpool": HOST}),
    "squeezenet, concatenations on the host": (of_zoo("squeezenet", 224),
                                               {"qconcat": HOST}),
    "vit_small": (of_zoo("vit_small", 64), {}),
    "bert_small": (of_zoo("bert_small", 64), {}),
}
"""Networks with pins: nodes that the host has between layers of the accelerator."""

BENCH = Bench(__file__, __doc__, PRESETS)
BENCH.option("--table", action="store_true", help="the prices")


@BENCH.part()
def small(sheet: Sheet) -> None:
    above = []
    for name, (build, preset) in SMALL.items():
        pricing = pricing_of(build(), load_machine(preset))
        choice = choose(pricing)
        best, priced, count = cheapest(pricing, choice.price.seconds)
        show(name, preset, choice, sheet.table)
        if sheet.table:
            print(f"  best of {count} divisions ({priced} priced): {micro(best)}")
        above.append(100 * (choice.price.seconds / best - 1))
        sheet.figure(f"partition_{name}_{preset}_over_best", above[-1], ".2f")
    sheet.figure("partition_over_best", max(above), ".2f")


@BENCH.part()
def networks(sheet: Sheet) -> None:
    above = []
    for name, build in NETWORKS.items():
        graph = build()
        for preset, machine in sheet.machines.items():
            choice = choose(pricing_of(graph, machine))
            show(name, preset, choice, sheet.table)
            either = min(choice.candidates[one] for one in ("greedy", "host"))
            above.append(100 * (choice.price.seconds / either - 1))
            sheet.figure(f"partition_{name}_{preset}_over_either", above[-1], ".2f")
    sheet.figure("partition_over_either", max(above), ".2f")


@BENCH.part()
def detours(sheet: Sheet) -> None:
    preset, machine = next(iter(sheet.machines.items()))
    choice = choose(pricing_of(detours_graph(), machine))
    show("detours", preset, choice, sheet.table)
    lost = choice.candidates["greedy"] / choice.price.seconds - 1
    sheet.figure("partition_greedy_lost", 100 * lost, ".2f")


@BENCH.part(LAID_OUT, extra=True)
def layout(sheet: Sheet) -> None:
    targets = Targets([accelerator(next(iter(sheet.machines.values())))])
    for name in sheet.cases:
        make, pins = LAID_OUT[name]
        graph = make()
        pricing = Pricing(graph, targets, measure)
        parts = greedy(graph, targets, pins)
        laid_out = lay_out(parts, targets.borders(graph))
        before, after = (milliseconds(pricing, one) for one in (as_it_is(parts), laid_out))
        made = laid_out.figures()
        print(f"{name}: {made['at_every_border']['count']} -> {made['count']} conversions, "
              f"{made['at_every_border']['bytes']:,} -> {made['bytes']:,} bytes, "
              f"{before:.2f} -> {after:.2f} ms", flush=True)


def pricing_of(graph: Graph, machine: Machine) -> Pricing:
    return Pricing(graph, Targets([accelerator(machine)]))


def cheapest(pricing: Pricing, known: float) -> tuple[float, int, int]:
    """The least price of all divisions, or `known` if that is less; the number of divisions priced,
    and of all.
    """
    divisions = sorted(((least(pricing, parts), number, parts)
                        for number, parts in enumerate(every_division(pricing))))
    best, priced = known, 0
    for bound, _, parts in divisions:
        if bound < best and least(pricing, parts) < best:       # more prices are known by now
            try:
                best = min(best, pricing.division(parts).seconds)
            except LoweringError:
                continue
            priced += 1
    return best, priced, len(divisions)


def every_division(pricing: Pricing) -> Iterator[Partition]:
    choices: list[list[Target]] = [
        [target for target in (HOST, ACCEL) if pricing.refusal(node, target) is None]
        for node in pricing.graph.nodes]
    names = [node.name for node in pricing.graph.nodes]
    for chosen in product(*choices):
        yield pricing.divided(dict(zip(names, chosen, strict=True)), {})


def least(pricing: Pricing, parts: Partition) -> float:
    """A lower bound on the price of a division, which compiles nothing new."""
    return sum(map(pricing.least, parts.steps))


def show(name: str, preset: str, choice: Choice, table: bool) -> None:
    if table:
        print(f"{name} on {preset}: {choice.name} of "
              + ", ".join(f"{one} {micro(seconds)}" for one, seconds in choice.candidates.items())
              + ("" if choice.exact else " (bounded search)"))


def micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"


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
