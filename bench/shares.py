"""Measures the share of a network's multiply-accumulates that the accelerator performs.

    python -m bench.shares [--target PRESET] [--size N] [NAME ...]

builds int8 networks of `examples/zoo.py` and prints `share_NAME` in percent of the products of
convolutions, dense layers and matrices, with the number of segments and every reason why products
stay on the host.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from compiler.frontend.onnx_import import convert
from compiler.graph.graph import Graph, Node
from compiler.graph.partition import ACCEL, Partition, partition
from compiler.graph.pipeline import optimize
from lockstep.testing import zoo

__all__ = ["Share", "macs", "share_of"]

NAMES = ("vit_small", "bert_small", "unet", "mobilenet_v2")


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


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.shares", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", default=NAMES)
    parser.add_argument("--target", default="pynq-1x16x16", metavar="PRESET")
    parser.add_argument("--size", type=int, metavar="N", help="of images, or tokens")
    args = parser.parse_args(argv)
    target = AccelTarget(Machine(preset(args.target)))
    for name in args.names:
        share = share_of(optimize(convert(zoo.build(name, args.size, int8=True))), target)
        print(f"share_{name} {share.percent:.2f}  # {len(share.parts.segments)} segments")
        for reason, count in share.reasons.items():
            print(f"  {count} on the host: {reason}")


if __name__ == "__main__":
    main()
