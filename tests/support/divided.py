"""Integer graphs between an accelerator and the host, right to the bit."""

from collections.abc import Mapping

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from compiler.graph import Graph, Partition, evaluate, subgraph
from compiler.target_names import HOST
from runtime.driver.auto import greedy
from runtime.driver.targets import Placed, Targets
from tests.support.integer_graphs import run_program

__all__ = ["assert_divided_right"]


def assert_divided_right(machine: Machine, graph: Graph, inputs: Mapping[str, np.ndarray]
                         ) -> Partition:
    """The accelerator computes all that it takes, the reference the rest: both together give what
    the reference gives. Returns who computes what.
    """
    target = AccelTarget(machine)
    parts, known = greedy(graph, Targets([Placed(target)])), dict(inputs)
    for segment in parts.segments:
        part = subgraph(graph, segment)
        given = {name: known[name] for name in part.inputs}
        known |= (evaluate(part, given) if segment.target == HOST else
                  run_program(machine, target.compile(part).program, given))
    for name, array in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(known[name], array, f"{name} of\n{graph}\n{parts}")
    return parts
