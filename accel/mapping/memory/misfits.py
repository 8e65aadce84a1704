"""Why an operator cannot read values as they lie, or the host may as well move them."""

from accel.mapping.memory.forms import Forms
from accel.mapping.memory.nodes import is_of_rows, is_view
from compiler.graph.graph import Node
from compiler.ops.registry import find


WIDE_MACHINE = "examples/machines/int16.py"
"""A machine of int16 activations: the shipped instructions, declared for these."""


def other_type(side: str, dtype: str, element: str) -> str:
    """Why a tensor is none of a machine's, whose activations are of the type `element`; and which
    machine takes it.
    """
    told = f"its {side} is {dtype}; the accelerator takes {element}"
    is_wide = (dtype, element) == ("int16", "int8")
    return f"{told}; a machine as {WIDE_MACHINE} takes int16" if is_wide else told


def misfit(forms: Forms, node: Node) -> str | None:
    """Why an operator of images, or of rows, cannot read its inputs as they are."""
    if node.op == "qmatmul" or node.name in forms.by_strides:
        return None
    values = node.inputs if node.op == "qconcat" else node.inputs[:find(node.op).data_inputs or 1]
    return next(filter(None, (_misfit(forms, node, value) for value in values)), None)


def _misfit(forms: Forms, node: Node, value: str) -> str | None:
    type_, form = forms.graph.values[value], forms.values.get(value)
    if type_.dtype != forms.blocks.carried:
        return other_type("input", type_.dtype, forms.blocks.element)
    if form is None or form.stored is None:
        return f"its input has {len(type_.shape)} dimensions; the accelerator takes 2 and more"
    if len(type_.shape) != 4:
        return None
    by_rows = is_of_rows(forms.graph, node)
    if by_rows and not form.as_rows:
        return "its input lies in memory as images, not as rows of matrices"
    if not by_rows and not form.as_images:
        return "its input lies in memory as rows of matrices, not as images"
    return None


def idle_copy(forms: Forms, node: Node) -> str | None:
    """Why the host may as well make a view that is a copy: no layer reads it. Byte by byte, as an
    accelerator would move it, is slow.
    """
    if forms.of(node).copy and not _is_read(forms, node.outputs[0]):
        return f"no layer reads its result, and a {node.op} by the host costs less than a copy"
    return None


def _is_read(forms: Forms, value: str) -> bool:
    """True where the accelerator reads a value, other than to move it once more."""
    return any(_is_read(forms, reader.outputs[0]) if is_view(forms.graph, reader)
               else reader.op in forms.operators for reader in forms.readers[value])
