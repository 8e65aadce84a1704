"""Estimated prices of GPUs that are not here: what bandwidth and peak allow, no measurement."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.cpu_gpu_backends.gpu.shared_tiles import LEAST
from compiler.cpu_gpu_backends.groups import Recipe, recipe_of, unscheduled
from compiler.graph.division.protocols import Crossing, Priced
from compiler.graph.fusion import Group
from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.room import bytes_of
from compiler.ir import For, Store, Write, path_to, walk_stmts
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.te import bits

LAUNCH_SECONDS = 3e-6       # assumed: of a kernel, whatever it computes
COPY_SECONDS = 10e-6        # assumed: of a copy, whatever its size


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU by its data sheet: operations a second of float32, bytes a second of its memory and of
    the link to the host, and operations a second of tensor cores, by kind of product
    (`intrinsics.gpu.MMA`).
    """

    float32: float
    memory_bytes: float
    link_bytes: float
    tensor: Mapping[str, float]

    def rate(self, dtype: str) -> float:
        """Operations a second; of types with 64 bits a 32nd, of others as of float32."""
        return self.float32 / (32 if bits(dtype) > 32 else 1)


CARDS = {name: Card(**figures) for name, figures in tomllib.loads(
    Path(__file__).with_name("cards.toml").read_text()).items()}
"""Cards by the names that targets have for them (``cuda:a100``)."""


@dataclass
class RooflinePrices:
    """A node takes as long as its operations at the card's peak, or as its values in the card's
    memory, whichever is longer, and the launch of a kernel. Real kernels take longer.
    """

    graph: Graph
    target: GpuTarget
    card: Card

    def assumed(self) -> dict[str, dict[str, Any]]:
        figures = {"float32": (self.card.float32, "op/s"),
                   "memory_bytes": (self.card.memory_bytes, "B/s"),
                   "link_bytes": (self.card.link_bytes, "B/s"),
                   "launch_seconds": (LAUNCH_SECONDS, "s"), "copy_seconds": (COPY_SECONDS, "s")}
        figures |= {f"tensor_{kind}": (self.card.tensor[kind], "op/s") for kind in self._kinds()}
        return {f"{self.target.name} (estimate).{name}": {"value": value, "unit": unit}
                for name, (value, unit) in figures.items()}

    def start(self) -> float:
        return LAUNCH_SECONDS

    def node(self, node: Node) -> float:
        return _node_seconds(self.graph, node, self.card, self._kinds())

    def segment(self, graph: Graph) -> Priced:
        return Priced(self.target.compile(graph), self.least(graph))

    def least(self, graph: Graph) -> float:
        kinds = self._kinds()
        return LAUNCH_SECONDS + sum(_node_seconds(graph, node, self.card, kinds)
                                    for node in graph.nodes)

    def _kinds(self) -> tuple[str, ...]:
        """The kinds of products that tensor cores of the card compute."""
        return tuple(kind for kind in self.target.kinds if kind in self.card.tensor)

    def crossing(self, value: str, kind: TensorType, outwards: bool, last: bool = False
                 ) -> Crossing:
        size = bytes_of(kind)
        return Crossing(size, COPY_SECONDS + size / self.card.link_bytes)


def _node_seconds(graph: Graph, node: Node, card: Card, kinds: Sequence[str]) -> float:
    group = Group.of([node], graph)
    if group.is_view:
        return 0.0
    values = dict.fromkeys((*node.inputs, *node.outputs))
    moved = sum(bytes_of(graph.values[value]) for value in values) / card.memory_bytes
    recipe = recipe_of(graph, group)
    dtypes = [type_.dtype for type_ in (*recipe.types, recipe.result)]
    slowest = min(map(card.rate, dtypes))
    if kind := _kind_of(graph, node, kinds):
        slowest = card.tensor[kind]
    return max(moved, _operations(recipe) / slowest) + LAUNCH_SECONDS


def _kind_of(graph: Graph, node: Node, kinds: Sequence[str]) -> str | None:
    """The kind of product that tensor cores compute for the node: of int8, or of float32 in the
    precision of the target; neither convolutions of groups of channels nor a single row.
    """
    operator = find(node.op)
    result = graph.values[node.outputs[0]]
    if operator.kind is not Kind.COMPLEX or len(node.inputs) < 2 or (
            node.attrs.get("group", 1) != 1 or min(prod(result.shape[:-1]), prod(
                result.shape[1:])) < LEAST):
        return None
    factors = {graph.values[value].dtype for value in node.inputs[:2]}
    if factors == {"int8"}:
        return "s8" if "s8" in kinds else None
    if factors == {"float32"} and operator.halves:
        return next((kind for kind in kinds if kind != "s8"), None)
    return None


@cache
def _operations(recipe: Recipe) -> int:
    """A sum's terms count twice, every other element once."""
    body = unscheduled(recipe).body
    total = 0
    for write in (stmt for stmt in walk_stmts(body) if isinstance(stmt, Write)):
        around = path_to(body, lambda stmt, write=write: stmt is write)
        turns = prod(stmt.extent for stmt in around if isinstance(stmt, For))
        total += turns if isinstance(write, Store) else 2 * turns
    return total
