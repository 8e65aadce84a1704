"""Layers as text: the tensors of each, and the expressions of its stages."""

from collections.abc import Iterator, Sequence

from accel.mapping.builders.layer import MappedLayer
from accel.mapping.plans.work import block_products
from accel.mapping.schedules import prefix_of
from compiler.ir.printer import declared_text, expr_text
from compiler.ir.visit import renamed
from compiler.te import Reduction, Tensor
from compiler.texts import Part, PartedText, wrapped


def layers_text(groups: Sequence[Sequence[MappedLayer]]) -> PartedText:
    return PartedText([Part((layer.name, layer.node.name), lambda layer=layer: _lines(layer))
                       for group in groups for layer in group])


def _lines(layer: MappedLayer) -> Iterator[str]:
    prefix = prefix_of(layer.operator)
    stages = {role: renamed(tensor, lambda name: name.removeprefix(prefix))
              for role, tensor in layer.operator.stages.items()}
    yield f"{layer.name}: {layer.node.op}{_work_text(layer)}"
    yield from wrapped(layer.note, 2)
    for role, value in layer.inputs.items():
        yield f"  reads {declared_text(stages[role].buffer)} = {value}"
    for role in layer.constants:
        yield (f"  reads {declared_text(stages[role].buffer)}, constant, "
               f"{layer.size(role):,} bytes")
    for tensor in stages.values():
        if tensor.body is not None:
            yield from wrapped(f"{_element(tensor)} = {_body_text(tensor)}", 2)
    yield f"  writes {declared_text(stages['output'].buffer)} = {layer.written}"


def _work_text(layer: MappedLayer) -> str:
    if not layer.macs:
        return ""
    products = block_products(layer)
    return f", {layer.macs:,} multiply-accumulates in {products:,} products of blocks"


def _element(tensor: Tensor) -> str:
    return f"{tensor.name}[{', '.join(axis.var.name for axis in tensor.axes)}]"


def _body_text(tensor: Tensor) -> str:
    match tensor.body:
        case Reduction(reducer, values, axes):
            over = ", ".join(var.name for var, _ in axes)
            return f"{reducer.name}({', '.join(map(expr_text, values))}, over {over})"
        case None:
            return ""
        case body:
            return expr_text(body)
