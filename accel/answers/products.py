"""Why an instruction of gemm, or one of vector that adds products, computes no layer."""

from collections.abc import Sequence

from accel.machine.machine import Machine
from accel.answers.texts import short_text
from accel.mapping.layers import PRODUCTS, product_cycles
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.weights import slots_of
from accel.mapping.selecting.sums import weight_of
from compiler.graph.graph import Node
from compiler.te import Reduce
from compiler.tensorize import Intrinsic


def why_no_product(machine: Machine, name: str, segments: Sequence[Forms], host: str) -> str:
    """The reason of an instruction of gemm: the layer at which it is the least slower. `host` says
    of a product on the host why it is there, or of another layer.
    """
    body, layers = machine.intrinsic(name), _layers(segments)
    if not layers:
        return "; ".join(filter(None, ("the network has no products of weights on the accelerator",
                                       host)))
    slots, (_, first) = slots_of(body), layers[0]
    if slots is None:
        return (f"its {_told(body)} is no sum of products of one element of inp and one of wgt, "
                f"each once; nearest is {first.name} ({first.op}), which is one")
    if slots.dense:
        return f"at {first.name} ({first.op}) another instruction computes the same product"
    return min(_reason(machine, name, forms, node) for forms, node in layers)[1]


def why_no_depthwise(machine: Machine, name: str, segments: Sequence[Forms]) -> str:
    """The reason of an instruction of vector that adds products of channels, each by itself."""
    layers = [(forms, node) for forms, node in _layers(segments)
              if name in product_cycles(node, forms.graph, forms, machine)]
    if not layers:
        return "no layer on the accelerator convolves each channel by itself"
    return min(_reason(machine, name, forms, node) for forms, node in layers)[1]


def _layers(segments: Sequence[Forms]) -> list[tuple[Forms, Node]]:
    return [(forms, node) for forms in segments for node in forms.graph.nodes
            if node.op in PRODUCTS and weight_of(node) in forms.graph.constants]


def _reason(machine: Machine, name: str, forms: Forms, node: Node) -> tuple[int, str]:
    """The cycles by which the layer is slower by the instruction, and the reason; those that cannot
    be computed by it come last.
    """
    cycles, place = product_cycles(node, forms.graph, forms, machine), f"{node.name} ({node.op})"
    own = cycles[name]
    if isinstance(own, str):
        return 1 << 62, f"at {place} {own}"
    best = min(count for count in cycles.values() if isinstance(count, int))
    if own > best:
        return own - best, f"slower at {place} by {own - best:,} cycles"
    return 0, f"at {place} another instruction takes as few cycles, and no more weights"


def _told(body: Intrinsic) -> str:
    """The sum of an instruction, in short."""
    value = body.value
    if not isinstance(value, Reduce):
        return short_text(value)
    return f"{value.op} of {short_text(value.value)}"
