"""Counts the products that a node sums, in its own loops, whatever the operator is called."""

from functools import cache
from math import prod

from compiler.cpu_gpu_backends.groups import Recipe, recipe_of, unscheduled
from compiler.graph.fusion import Group
from compiler.graph.graph import Graph, Node
from compiler.ir import For, Update, path_to, walk_stmts
from compiler.te.expr import Binary, Buffer, Expr, Read, walk

TRANSPOSED = "convtranspose2d"


def multiplications(graph: Graph, node: Node) -> int:
    """The products of elements of two tensors that the node sums, such as those of a convolution;
    0 for operators that sum no such products. A transposed convolution, whose loops meet zeros
    between pixels as well, multiplies each element of its input once by each that a filter has.
    """
    group = Group.of([node], graph)
    if node.op.endswith(TRANSPOSED):
        image, weights = (graph.values[name].shape for name in node.inputs[:2])
        channels = graph.values[node.outputs[0]].shape[1] // node.attrs.get("group", 1)
        return prod(image) * channels * prod(weights[2:])
    return 0 if group.is_view else _of(recipe_of(graph, group))


@cache
def _of(recipe: Recipe) -> int:
    body = unscheduled(recipe).body
    sums = [stmt for stmt in walk_stmts(body) if isinstance(stmt, Update) and _multiplies(stmt)]
    return sum(prod(loop.extent for loop in path_to(body, lambda stmt, own=own: stmt is own)
                    if isinstance(loop, For)) for own in sums)


def _multiplies(update: Update) -> bool:
    """True if what is summed are products of elements of two tensors."""
    return update.op == "sum" and any(
        isinstance(part, Binary) and part.op == "mul"
        and _are_two(_tensors(part.a), _tensors(part.b)) for part in walk(update.value))


def _are_two(one: set[Buffer], other: set[Buffer]) -> bool:
    return bool(one and other and one.isdisjoint(other))


def _tensors(expr: Expr) -> set[Buffer]:
    return {part.buffer for part in walk(expr) if isinstance(part, Read)}
