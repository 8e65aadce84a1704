"""Why no layer executes an instruction of a stream unit."""

from collections.abc import Sequence

from accel.machine.machine import Machine
from accel.mapping.lowering import LoweringError
from accel.mapping.memory.forms import Forms
from accel.mapping.selecting.stream_selection import follows, stream_selections

NOTHING_SAID = "its declaration says of no operators of networks that it computes them"


def why_no_rows(machine: Machine, name: str, segments: Sequence[Forms]) -> str:
    """The first reason among the segments' nodes for which an instruction might be."""
    computes = next((one for form, one in machine.of_rows if form.name == name), None)
    if computes is None:
        return NOTHING_SAID
    operators = " and ".join(computes.operators)
    alike = [(forms.graph, node) for forms in segments for node in forms.graph.nodes
             if follows(forms.graph, node, computes.operators)]
    for graph, node in alike:
        try:
            taken = any(one.form.name == name for one in stream_selections(machine, graph, node))
        except LoweringError as error:
            return f"{node.name}: {error}"
        return (f"{operators} of {node.name} take fewer cycles otherwise" if taken else
                f"{operators} of {node.name} have other rows than it takes")
    return f"no layer computes {operators}, each from the one before alone"
