"""What does the accelerator not take, and why? Operators over shapes, and whole networks.

`operators`: networks of one operator between quantizations (`tests.support.limit_cases`), over
shapes, as the compiler would divide them for each machine; nothing is compiled. Each refusal is
printed with its reason and the machines that refuse; ``--all`` lists every case. Cases are
families of operators.

`networks`: the int8 networks of `examples.zoo`, batch 1, or files of ONNX, and which of their
layers an accelerator does not take. Quantize and dequantize at the ends of a network are the
host's; what computes in float in between is counted by itself. Both print at the end the number of
cases, or for each machine of layers, and for each machine those refused.

`shares` prints `share_NAME`, the percentage of the products of convolutions, dense layers and
matrices that the accelerator performs, with the number of segments and every reason why products
stay on the host.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import onnx

from accel.machine.config import preset_names
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from bench.frame import Bench, Sheet
from tests.support.limit_cases import FAMILIES
from compiler.frontend.onnx.importing import convert
from compiler.graph import Graph, optimize
from compiler.graph.graph import Node
from compiler.graph.notes import Note
from compiler.graph.division.partition import ACCEL, Partition, partition
from compiler.te import is_float
from lockstep.testing import zoo

NAMES = ("vit_small", "bert_small", "unet", "mobilenet_v2")

BENCH = Bench(__file__, __doc__, preset_names())
BENCH.option("--all", action="store_true", help="list what is taken, too")
BENCH.option("--size", type=int, metavar="N", help="of images, or tokens; of shares")


@BENCH.part(FAMILIES)
def operators(sheet: Sheet) -> None:
    _told(sheet, ((case.name, optimize(convert(case.model()))) for family in sheet.cases
                  for case in FAMILIES[family]()), False)


@BENCH.part(zoo.NETWORKS, extra=True, is_open=True)
def networks(sheet: Sheet) -> None:
    _told(sheet, _networks(sheet.cases), True)


def _told(sheet: Sheet, graphs: Iterable[tuple[str, Graph]], whole: bool) -> None:
    counts: Counter[str] = Counter()
    for name, graph in graphs:
        found = {machine: taken(graph, made) for machine, made in sheet.machines.items()}
        for machine, one in found.items():
            counts["cases"] += not whole and machine == next(iter(sheet.machines))
            counts[f"{machine}_layers"] += one.layers if whole else 0
            counts[f"{machine}_refused"] += len(one.refused) if whole else not one.whole
        if whole or sheet.all or not all(one.whole for one in found.values()):
            print("\n".join(_lines(name, found)), flush=True)
    for figure, value in counts.items():
        if value or figure.endswith("refused"):
            sheet.figure(figure, value)


@BENCH.part(zoo.NETWORKS, NAMES, extra=True)
def shares(sheet: Sheet) -> None:
    target = AccelTarget(sheet.machine_or("pynq-1x16x16"))
    for name in sheet.cases:
        share = share_of(optimize(convert(zoo.build(name, sheet.size, int8=True))), target)
        sheet.figure(f"share_{name}", share.percent, ".2f")
        print(f"  {len(share.parts.segments)} segments")
        for reason, count in share.reasons.items():
            print(f"  {count} on the host: {reason}")


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


def _networks(names: Iterable[str]) -> Iterator[tuple[str, Graph]]:
    for name in names:
        model = onnx.load(name) if name.endswith(".onnx") else zoo.build(name, int8=True)
        yield Path(name).stem, replace(optimize(convert(model)), name=name)


@dataclass(frozen=True)
class Share:
    """Multiply-accumulates by target; `reasons` maps each reason to the number that it keeps on the
    host.
    """

    parts: Partition
    accel: int
    host: int
    reasons: Counter[str]

    @property
    def percent(self) -> float:
        return 100 * self.accel / (self.accel + self.host)


def macs(graph: Graph, node: Node) -> int:
    """The multiply-accumulates of a node; 0 for operators without products."""
    made, *read = (graph.values[value].shape for value in (*node.outputs, *node.inputs))
    match node.op.removeprefix("q"):
        case "dense" | "matmul":
            return prod(made) * read[0][-1]
        case "conv" | "conv2d":
            return prod(made) * prod(read[1][1:])
        case "convtranspose2d":
            outputs = made[1] // node.attrs.get("group", 1)
            return prod(read[0]) * outputs * prod(read[1][2:])
    return 0


def share_of(graph: Graph, target: AccelTarget) -> Share:
    """The shares of an optimized graph."""
    parts = partition(graph, lambda node: target.refusal(graph, node))
    counted: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for segment in parts.segments:
        for node in segment.nodes:
            counted[segment.target] += macs(graph, node)
            if segment.target != ACCEL and macs(graph, node):
                reasons[parts.reasons[node.name]] += 1
    return Share(parts, counted[ACCEL], counted.total() - counted[ACCEL], reasons)
