"""Trials of what declarations of stream units say that they compute, before a network relies on it.
"""

import numpy as np

from accel.mapping.lowering.nest import LoweringError
from accel.mapping.selecting.stream_selection import StreamSelection
from compiler.graph.graph import Graph
from compiler.ops.registry import find

ROWS = 4
"""Instructions' rows that are tried; half of them with elements that are near to each other."""


def require_meaning(selection: StreamSelection, graph: Graph) -> None:
    """Refuses an instruction whose meaning is not, on random rows, that of the operators. Where one
    entry is repeated for a row it may name something, so that no random number will do.
    """
    if selection.repeats:
        return
    form, nodes = selection.form, selection.nodes
    (batch, lanes), dtype = form.shape.a
    elements, limits = graph.values[nodes[0].inputs[0]].shape[-1], np.iinfo(dtype)
    rng, whole = np.random.default_rng(0), (ROWS, batch, selection.entries * lanes)
    x = rng.integers(limits.min, limits.max + 1, whole).astype(dtype)
    x[::2] //= 16
    wanted = x[..., :elements]
    for node in nodes:
        wanted = find(node.op).meaning(node.attrs, wanted, *(
            graph.constants[value] for value in node.inputs[1:]))
    rows = x.reshape(ROWS, batch, selection.entries, lanes).swapaxes(1, 2)
    found = form.results(rows, selection.table, selection.fields).swapaxes(1, 2).reshape(whole)
    differ = np.argwhere(found[..., :elements] != wanted)
    if len(differ):
        row, place, element = differ[0].tolist()
        raise LoweringError(
            f"{form.name} does not compute {' and '.join(node.op for node in nodes)}, as its "
            f"declaration says: element {element} of a row is {found[row, place, element]}, not "
            f"{wanted[row, place, element]}")
