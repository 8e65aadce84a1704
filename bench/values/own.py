"""Tries a network of a user's with random inputs, all ways against each other."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx

from bench.values.children import Child
from bench.values.draw import Array, Trial
from bench.values.judge import Finding
from bench.values.shrink import Case, with_outputs
from compiler.frontend.onnx.importing import convert
from compiler.graph import Graph
from compiler.te import is_float, numpy_dtype

SECONDS = 600.0             # for one way of a network of any size


def tried(path: Path, names: Sequence[str], seed: int, shows: Callable[[Child, Finding], Callable]
          ) -> list[str]:
    """A line for each thing that is wrong, with the node where it is so first. Raises ImportRefused
    for a model that the front end does not take.
    """
    model = onnx.load(path)
    inputs = random_inputs(convert(model), np.random.default_rng(seed))
    case, child = Case(model, inputs), Child(SECONDS)
    try:
        verdict = child.judge(Trial(0, model, inputs), names)
        said = [f"refused: {way}: {reason}" for way, reason in verdict.refused.items()]
        for way in verdict.ran:
            said.append(f"ran: {way}: {verdict.seconds[way]:.2f} s")
        if verdict.weak:
            said.append(f"not judged: {verdict.weak} of {verdict.outputs} outputs, whose bounds "
                        f"are wide; all ways are compared all the same")
        for finding in verdict.findings:
            if finding.kind == "judge":
                said.append(f"not judged: {finding.text}")
                continue
            place = first_place(case, shows(child, finding))
            said.append(f"{finding.kind}: {finding.way}: first at {place}: {finding.text}")
    finally:
        child.close()
    return said


def random_inputs(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    """An array for each input: normal numbers, and integers of the whole range up to 1,000."""
    made = {}
    for name in graph.inputs:
        kind = graph.values[name]
        dtype = np.dtype(numpy_dtype(kind.dtype))
        if is_float(kind.dtype):
            made[name] = np.asarray(rng.standard_normal(kind.shape)).astype(dtype)
        elif dtype.kind == "b":
            made[name] = np.asarray(rng.random(kind.shape) < 0.5)
        else:
            info = np.iinfo(dtype)
            made[name] = np.asarray(rng.integers(max(info.min, -1000), min(info.max, 1000) + 1,
                                                 kind.shape)).astype(dtype)
    return made


def first_place(case: Case, shows: Callable[[Case], bool]) -> str:
    """The first node, by halving, whose result as the only output shows what is wrong."""
    nodes = list(case.model.graph.node)
    low, high = 0, len(nodes) - 1           # the last node is taken to show it
    while low < high:
        middle = (low + high) // 2
        if shows(with_outputs(case, [nodes[middle].output[0]])):
            high = middle
        else:
            low = middle + 1
    node = nodes[high]
    name = node.name or node.output[0]
    return f"{name} ({node.op_type}) of {len(nodes)} nodes"
