"""What does the accelerator not take, and why? Operators over shapes, and whole networks.

    python -m bench.limits [FAMILY ...] [--machine M]... [--cases]
    python -m bench.limits --zoo [NETWORK ...] [--machine M]...

Without ``--zoo``: networks of one operator between quantizations (`bench.limit_cases`), over
shapes, as the compiler would divide them for each machine; nothing is compiled. Each refusal is
printed with its reason and the machines that refuse; ``--cases`` lists every case. With ``--zoo``:
the int8 networks of `examples.zoo`, batch 1, and which of their nodes an accelerator does not take.
A FILE of ONNX may stand for a NETWORK. Quantize and dequantize at the ends of a network are the
host's. Prints at the end ``name value`` lines: for each machine the number of cases (or layers),
and of those that are refused.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from accel.machine.config import preset_names
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from bench.limit_cases import FAMILIES
from compiler.frontend.onnx_import import convert
from compiler.graph import Graph, optimize
from compiler.graph.graph import Node
from examples import zoo

__all__ = ["Refusal", "main", "refusals"]

ENDS = ("quantize", "dequantize")


@dataclass(frozen=True)
class Refusal:
    """Why a node of a network does not run on the accelerator; `in_float` where the network's
    integer form already lacks it."""

    node: str
    op: str
    reason: str
    in_float: bool = False


def refusals(graph: Graph, machine: Machine) -> tuple[int, list[Refusal]]:
    """The number of layers between the ends of a network, and those that the machine refuses."""
    target, reasons = AccelTarget(machine), {note.partition(" (")[0]: note for note in graph.notes}
    found, count = [], 0
    for node in graph.nodes:
        if node.op in ENDS and not _is_inside(graph, node):
            continue
        count += 1
        if (note := reasons.get(node.name)) is not None:
            found.append(Refusal(node.name, node.op, note.partition(": ")[2], True))
        elif (reason := target.refusal(graph, node)) is not None:
            found.append(Refusal(node.name, node.op, reason))
    return count, found


def _is_inside(graph: Graph, node: Node) -> bool:
    """Whether a quantization is neither of an input of the network nor for an output."""
    if node.op == "quantize":
        return node.inputs[0] not in graph.inputs
    return node.outputs[0] not in graph.outputs


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"families ({', '.join(FAMILIES)}), or networks with --zoo")
    parser.add_argument("--zoo", action="store_true", help="whole networks instead of operators")
    parser.add_argument("--machine", action="append", metavar="M",
                        help=f"repeatable (default {', '.join(preset_names())})")
    parser.add_argument("--cases", action="store_true", help="list what is taken, too")
    args = parser.parse_args(argv)
    machines = {name: load_machine(name) for name in args.machine or preset_names()}
    graphs = _networks(args.names or zoo.NETWORKS) if args.zoo else _cases(args.names or FAMILIES)
    counts: Counter[str] = Counter()
    for name, graph in graphs:
        told: dict[Refusal, list[str]] = {}
        for machine, made in machines.items():
            count, found = refusals(graph, made)
            counts[f"{machine}_layers" if args.zoo else f"{machine}_cases"] += (
                count if args.zoo else 1)
            counts[f"{machine}_refused"] += (len(found) if args.zoo else bool(found))
            for refusal in found:
                told.setdefault(refusal, []).append(machine)
        if args.cases or args.zoo or told:
            print(name if told else f"{name}: all")
        for refusal, where in told.items():
            _print(refusal, where, len(machines))
        sys.stdout.flush()
    for figure, value in counts.items():
        print(figure, value)
    return 0


def _print(refusal: Refusal, where: Sequence[str], machines: int) -> None:
    place = "all machines" if len(where) == machines else ", ".join(where)
    fate = " stays in float" if refusal.in_float else ""
    print(f"  {place}: {refusal.node} ({refusal.op}){fate}: {refusal.reason}")


def _cases(families: Iterable[str]) -> Iterator[tuple[str, Graph]]:
    for family in families:
        for case in FAMILIES[family]():
            yield case.name, optimize(convert(case.model()))


def _networks(names: Iterable[str]) -> Iterator[tuple[str, Graph]]:
    for name in names:
        model = onnx.load(name) if name.endswith(".onnx") else zoo.build(name, int8=True)
        yield Path(name).stem, replace(optimize(convert(model)), name=name)


if __name__ == "__main__":
    sys.exit(main())
