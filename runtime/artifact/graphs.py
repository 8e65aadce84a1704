"""Graphs and partitions as JSON; their constants are members."""

from collections.abc import Mapping
from typing import Any

from compiler.graph import as_json
from compiler.graph.division.partition import Copy, Partition, Segment
from compiler.graph.graph import Graph, Node

from .container import Container, Members


def graph_json(graph: Graph, members: Members) -> dict[str, Any]:
    return as_json.graph_json(graph, {
        name: members.array(f"constants/{number}", array)
        for number, (name, array) in enumerate(graph.constants.items())})


def graph_of(entry: Mapping[str, Any], container: Container) -> Graph:
    """Reads a graph; refuses one that `verify` refuses."""
    return as_json.graph_from(entry, {name: container.array(reference)
                                      for name, reference in entry["constants"].items()})


def partition_json(partition: Partition) -> dict[str, Any]:
    return {"steps": [_step_json(step) for step in partition.steps],
            "reasons": dict(partition.reasons)}


def partition_of(entry: Mapping[str, Any], graph: Graph) -> Partition:
    nodes = {node.name: node for node in graph.nodes}
    steps = tuple(_step_of(step, nodes) for step in entry["steps"])
    segments = [step for step in steps if isinstance(step, Segment)]
    if sorted(node.name for segment in segments for node in segment.nodes) != sorted(nodes):
        raise ValueError("segments must hold every node once")
    _check_order(graph, segments)
    return Partition(graph, steps, dict(entry["reasons"]))


def _check_order(graph: Graph, segments: list[Segment]) -> None:
    known = {*graph.inputs, *graph.constants}
    for segment in segments:
        results = {value for node in segment.nodes for value in node.outputs}
        if not known.issuperset(segment.inputs) or not results.issuperset(segment.outputs):
            raise ValueError("a segment must read what is there and give what it makes")
        known.update(segment.outputs)
    if not known.issuperset(graph.outputs):
        raise ValueError("segments must make every output")


def _step_json(step: Segment | Copy) -> dict[str, Any]:
    if isinstance(step, Copy):
        return {"copy": step.value, "source": step.source, "target": step.target}
    return {"target": step.target, "nodes": [node.name for node in step.nodes],
            "inputs": step.inputs, "outputs": step.outputs}


def _step_of(entry: Mapping[str, Any], nodes: Mapping[str, Node]) -> Segment | Copy:
    if "copy" in entry:
        return Copy(entry["copy"], entry["source"], entry["target"])
    return Segment(entry["target"], tuple(nodes[name] for name in entry["nodes"]),
                   tuple(entry["inputs"]), tuple(entry["outputs"]))
