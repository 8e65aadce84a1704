"""Functions of rows that an instruction of a stream unit computes."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import lockstep
from accel.machine.intrinsics import SHIPPED
from compiler.graph.graph import Graph, TensorType
from compiler.graph.reference import evaluate
from compiler.graph.rewrite import Builder
from compiler.ops.families.row_functions import RECIPROCALS, exponentials
from examples.machines import softmax as example

SCALED = {"mult": 40000, "shift": 36, "zp": -120, "lo": -128, "hi": 127}


@cache
def machine_of(preset: str = "tiny-1x4x4", **changes) -> lockstep.Machine:
    config = replace(lockstep.preset(preset), structure=example.structure, **changes)
    return lockstep.Machine(config, (*SHIPPED, example.instruction))


def softmax(shape: tuple[int, ...], between: bool = False) -> Graph:
    """The two operators of a softmax; what is `between` them may be a result as well."""
    builder, (high, low) = Builder("net"), exponentials(0.03)
    builder.add_input("x", TensorType(shape, "int8"))
    for name, array in (("high", high), ("low", low), ("reciprocals", RECIPROCALS)):
        builder.add_constant(name, array)
    builder.emit("qbelow_max", "below", ["x"], "below")
    builder.emit("qsoftmax", "y", ["below", "high", "low", "reciprocals"], "y", **SCALED)
    return builder.finish(["y", "below"] if between else ["y"])


def rows(rng, shape: tuple[int, ...]) -> np.ndarray:
    return np.clip(rng.normal(size=shape) * 40 + 15, -128, 127).astype(np.int8)


def ran(graph: Graph, x: np.ndarray, machine: lockstep.Machine, sim=simulate) -> CompiledSegment:
    """Runs the graph on the accelerator alone, and compares with the reference."""
    segment = AccelTarget(machine).compile(graph)
    memory, run = run_program(machine, segment.program, {"x": x}, sim)
    assert run.ok
    for name, array in evaluate(graph, {"x": x}).items():
        if name in graph.outputs:
            np.testing.assert_array_equal(segment.program.extract(memory, name), array)
    return segment
