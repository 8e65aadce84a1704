"""Is the target `auto` optimal? Simulated cycles and measured times of the host.

Prices are those of `runtime.costs`: cycles of the accelerator at the clock of its preset, times of
the host measured on this computer (and kept), copies and starts over the assumed link. Prints
``name value`` lines:

``partition_NETWORK_PRESET_over_best``   price of `auto` above that of the best of all divisions of
                                         a small network, enumerated, %
``partition_over_best``                  the largest of them
``partition_NETWORK_PRESET_over_either`` above the better of greedy and of the host alone, %
``partition_over_either``                the largest of them
``partition_greedy_lost``                price of greedy above that of `auto` where it loses, %

``--table`` shows the prices behind them. Enumeration skips divisions whose copies, starts and least
cycles alone cost more than the best known one.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path

from accel.machine.loading import load_machine
from accel.mapping.lowering.nest import LoweringError
from bench.inputs.networks import branches_graph, detours_graph, residual_graph, separable_graph
from compiler.frontend.onnx_import import convert
from compiler.frontend.onnx_import import load as load_model
from compiler.graph import Graph, Partition, optimize
from compiler.graph.partition import ACCEL, HOST, Target
from lockstep.testing import zoo
from runtime.auto import Choice, choose
from runtime.costs import Pricing
from runtime.targets import Targets, accelerator

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits-int8.onnx"


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
PRESETS = ("pynq-1x16x16", "tiny-1x4x4")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("parts", nargs="*", choices=("small", "networks", "detours", []),
                        help="what to measure (default: all)")
    args = parser.parse_args()
    for part in args.parts or ("small", "networks", "detours"):
        {"small": small, "networks": networks, "detours": detours}[part](args.table)
    return 0


def pricing_of(graph: Graph, preset: str) -> Pricing:
    return Pricing(graph, Targets([accelerator(load_machine(preset))]))


def small(table: bool) -> None:
    above = []
    for name, (build, preset) in SMALL.items():
        pricing = pricing_of(build(), preset)
        choice = choose(pricing)
        best, priced, count = cheapest(pricing, choice.price.seconds)
        show(name, preset, choice, table)
        if table:
            print(f"  best of {count} divisions ({priced} priced): {micro(best)}")
        above.append(100 * (choice.price.seconds / best - 1))
        print(f"partition_{name}_{preset}_over_best", f"{above[-1]:.2f}", flush=True)
    print("partition_over_best", f"{max(above):.2f}")


def networks(table: bool) -> None:
    above = []
    for name, build in NETWORKS.items():
        graph = build()
        for preset in PRESETS:
            choice = choose(pricing_of(graph, preset))
            show(name, preset, choice, table)
            either = min(choice.candidates[one] for one in ("greedy", "host"))
            above.append(100 * (choice.price.seconds / either - 1))
            print(f"partition_{name}_{preset}_over_either", f"{above[-1]:.2f}", flush=True)
    print("partition_over_either", f"{max(above):.2f}")


def detours(table: bool) -> None:
    choice = choose(pricing_of(detours_graph(), "pynq-1x16x16"))
    show("detours", "pynq-1x16x16", choice, table)
    lost = choice.candidates["greedy"] / choice.price.seconds - 1
    print("partition_greedy_lost", f"{100 * lost:.2f}")


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


if __name__ == "__main__":
    sys.exit(main())
