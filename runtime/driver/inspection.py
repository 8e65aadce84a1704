"""Tells what will be integer, where, and why not: the stages of the pipeline before any
that compiles."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from compiler.cpu_gpu_backends.multiplications import multiplications
from compiler.graph.division.partition import Partition, Segment
from compiler.graph.graph import Graph, Node
from compiler.graph.passes.pipeline import run
from compiler.ops.records.stored_floats import FLOAT_PRODUCTS
from runtime.driver.pipeline import Compile, LayOut, pipeline
from runtime.driver.targets import Targets
from runtime.report import graph_notes

DATA = 2        # inputs whose types say how an operator computes


@dataclass(frozen=True, slots=True)
class LayerFate:
    """A layer of the network after the graph passes: its operator, the types of its first inputs
    and of its result, the target that computes it, the products that it sums, and why no target
    that would come before has it ("" where one has).
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    output: str
    target: str
    multiplications: int
    reason: str


def inspected(graph: Graph, targets: Targets) -> dict[str, Any]:
    """The figures of an imported network, JSON-serializable: `fates` of all layers in order of
    execution, and `segments`, `host` and `notes` as `runtime.report.report` has them of a run. A
    target that fails to compile what it takes, which is a defect, changes the latter alone.
    """
    parts = run([stage for stage in pipeline(targets) if not isinstance(stage, LayOut | Compile)],
                graph).partition
    noted = Compile(targets).noted(parts.graph)
    return {"fates": [asdict(fate) for fate in _fates(parts)],
            "segments": [_plain(segment) for segment in parts.segments],
            "host": parts.stay, "notes": graph_notes(noted)}


def _plain(segment: Segment) -> dict[str, Any]:
    return {"device": segment.target, "nodes": [node.name for node in segment.nodes],
            "operators": [node.op for node in segment.nodes], "cycles": 0}


def _fates(parts: Partition) -> Sequence[LayerFate]:
    return [_fate(parts, segment.target, node)
            for segment in parts.segments for node in segment.nodes]


def _fate(parts: Partition, target: str, node: Node) -> LayerFate:
    inputs, output = _types(parts.graph, node)
    return LayerFate(node.name, node.op, inputs, output, target,
                     multiplications(parts.graph, node), parts.reasons.get(node.name, ""))


def _types(graph: Graph, node: Node) -> tuple[tuple[str, ...], str]:
    """The types of a node's first inputs and of its result: of floats that the graph carries by
    their codes, these floats."""
    *inputs, output = (graph.values[value].dtype for value in (*node.inputs[:DATA],
                                                               node.outputs[0]))
    if node.op == "encodefloat":
        output = node.attrs["dtype"]
    elif node.op == "decodefloat":
        inputs[0] = node.attrs["dtype"]
    elif node.op in FLOAT_PRODUCTS:
        inputs, output = [node.attrs["element"], node.attrs["weight"]], node.attrs["element"]
    return tuple(inputs), output
