"""What does the accelerator not take, and why? Operators over shapes, and whole networks.

    python -m bench.limits [FAMILY ...] [--machine M]... [--cases]
    python -m bench.limits --zoo [NETWORK ...] [--machine M]...

Without ``--zoo``: networks of one operator between quantizations (`bench.inputs.limit_cases`), over
shapes, as the compiler would divide them for each machine; nothing is compiled. Each refusal is
printed with its reason and the machines that refuse; ``--cases`` lists every case. With ``--zoo``:
the int8 networks of `examples.zoo`, batch 1, and which of their layers an accelerator does not
take. A FILE of ONNX may stand for a NETWORK. Quantize and dequantize at the ends of a network are
the host's; what computes in float in between is counted by itself. Prints at the end ``name value``
lines: the number of cases, or for each machine of layers, and for each machine those refused.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx

from accel.machine.config import preset_names
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from bench.inputs.limit_cases import FAMILIES
from compiler.frontend.onnx_import import convert
from compiler.graph import Graph, optimize
from compiler.graph.graph import Node
from compiler.graph.notes import Note
from compiler.te import is_float
from lockstep.testing import zoo

__all__ = ["Refusal", "Taken", "main", "taken"]


@dataclass(frozen=True)
class Refusal:
    """Why a node of a network does not run on the accelerator."""

    node: str
    op: str
    reason: str


@dataclass
class Taken:
    """What a machine takes of a network: how many layers of integers there are, and those it does
    not take. `floats` are nodes in between that compute in float, with the reason if there is one.
    """

    layers: int = 0
    refused: list[Refusal] = field(default_factory=list)
    floats: list[Refusal] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return not (self.refused or self.floats)


def taken(graph: Graph, machine: Machine) -> Taken:
    """What the machine takes of a network; quantizations at its ends are the host's."""
    target, found = AccelTarget(machine), Taken()
    notes = {note.node: note.reason for note in map(Note.of, graph.notes) if note}
    for node in graph.nodes:
        if _is_end(graph, node):
            continue
        types = [graph.values[value].dtype for value in (*node.inputs[:1], *node.outputs)]
        if any(map(is_float, types)):
            found.floats.append(Refusal(node.name, node.op, notes.get(node.name, "")))
            continue
        found.layers += 1
        if reason := target.refusal(graph, node):
            found.refused.append(Refusal(node.name, node.op, reason))
    return found


def _is_end(graph: Graph, node: Node) -> bool:
    """Whether it quantizes an input of the network, or dequantizes an output."""
    return (node.op == "quantize" and node.inputs[0] in graph.inputs
            or node.op == "dequantize" and node.outputs[0] in graph.outputs)


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
        found = {machine: taken(graph, made) for machine, made in machines.items()}
        for machine, one in found.items():
            counts["cases"] += not args.zoo and machine == next(iter(machines))
            counts[f"{machine}_layers"] += one.layers if args.zoo else 0
            counts[f"{machine}_refused"] += len(one.refused) if args.zoo else not one.whole
        if args.zoo or args.cases or not all(one.whole for one in found.values()):
            print("\n".join(_lines(name, found)), flush=True)
    for figure, value in counts.items():
        if value or figure.endswith("refused"):
            print(figure, value)
    return 0


def _lines(name: str, found: Mapping[str, Taken]) -> Iterator[str]:
    """What the machines take of one network."""
    first = next(iter(found.values()))
    floats = f", {len(first.floats)} nodes in float" if first.floats else ""
    yield f"{name}: {first.layers} layers of integers{floats}"
    told: dict[tuple[str, str], dict[str, list[str]]] = {}      # nodes of machines, by reason
    for machine, one in found.items():
        for refusal in one.refused:
            where = told.setdefault((refusal.op, refusal.reason), {})
            where.setdefault(machine, []).append(refusal.node)
    for (op, reason), where in told.items():
        place = "all machines" if len(where) == len(found) else ", ".join(where)
        yield f"  {place}: {_named(max(where.values(), key=len))} ({op}): {reason}"
    by_reason: dict[tuple[str, str], list[str]] = {}
    for refusal in first.floats:
        by_reason.setdefault((refusal.op, refusal.reason), []).append(refusal.node)
    for (op, reason), nodes in by_reason.items():
        yield f"  in float: {_named(nodes)} ({op}){reason and ': '}{reason}"


def _named(nodes: Sequence[str]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more"


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
