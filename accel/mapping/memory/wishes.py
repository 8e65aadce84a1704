"""The first step: what the readers of each value agree to, which the graph alone says.

Readers decide before what they read, so the step goes from the last value to the first.
"""

from dataclasses import replace

from accel.mapping.memory.forms import Forms, Wishes
from accel.mapping.memory.nodes import data_of, is_of_rows, is_view
from accel.mapping.selecting.row_selection import is_row_function
from accel.mapping.selecting.selection import is_elementwise
from compiler.graph.graph import Node


def wished(forms: Forms) -> Forms:
    """Decides what all readers of each value agree to, from the readers and from what the readers
    of their results do; and which concatenations are by strides.
    """
    wishes: dict[str, Wishes] = {}
    sofar = replace(forms, wishes=wishes)       # sees the values behind
    results = [value for node in forms.graph.nodes for value in node.outputs]
    for value in (*reversed(results), *forms.graph.inputs, *forms.graph.constants):
        readers = _readers_here(sofar, value)
        against = next((reader.name for reader in readers if not _reads_rows(sofar, reader)), "")
        wishes[value] = Wishes(bool(readers) and not against, _takes_strides(sofar, value), against)
    return replace(sofar, by_strides=frozenset(
        node.name for node in forms.graph.nodes if _joins_rows(sofar, node)))


def _readers_here(forms: Forms, value: str) -> list[Node]:
    """The readers of a value that may be of the accelerator, which has no vectors."""
    return [reader for reader in forms.readers[value]
            if forms.is_here(reader) and len(forms.shape(value)) > 1]


def _takes_strides(forms: Forms, value: str) -> bool:
    """True where all readers take a value with any strides."""
    return value not in forms.graph.outputs and all(
        reader.op == "qmatmul" or is_view(forms.graph, reader) or _joins_rows(forms, reader)
        for reader in forms.readers[value])


def _joins_rows(forms: Forms, node: Node) -> bool:
    """True for a concatenation of tensors that lie as the rows of matrices, by strides; channels of
    images and of vectors are joined block by block.
    """
    if node.op != "qconcat":
        return False
    value, = node.outputs
    rank = len(forms.shape(value))
    return forms.wishes[value].rows if rank == 4 else (rank, node.attrs.get("axis", 1)) != (2, 1)


def _reads_rows(forms: Forms, reader: Node) -> bool:
    """True for a reader that wants rows."""
    result = reader.outputs[0]
    match reader.op:
        case "transpose":
            perm = reader.attrs["perm"]
            return (perm[-1] == len(perm) - 1 or perm == (0, 3, 1, 2)
                    or forms.wishes[result].strides)
        case "reshape":
            return len(reader.attrs["shape"]) not in (2, 4)
        case "qput":
            return True
        case "slice" | "qconcat":
            return forms.wishes[result].rows
    if is_elementwise(reader):
        return forms.wishes[result].rows or (not _readers_here(forms, result)
                                             and _is_along_rows(forms, reader))
    return is_of_rows(forms.graph, reader) or is_row_function(reader)


def _is_along_rows(forms: Forms, node: Node) -> bool:
    """True for an operator with constants along the last of four dimensions."""
    shape, constants = forms.shape(node.outputs[0]), forms.graph.constants
    return len(shape) == 4 and shape[-1] > 1 and (node.attrs.get("axis") == 3 or any(
        constants[value].shape[-1:] == shape[-1:] == (constants[value].size,)
        for value in data_of(node) if value in constants))
