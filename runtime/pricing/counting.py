"""Counts the cycles that an operator takes on a host, from its own loops and expressions."""

from functools import lru_cache
from math import prod

from compiler.cpu_gpu_backends.groups import Recipe, recipe_of, unscheduled
from compiler.graph.fusion import Group
from compiler.graph.graph import Graph, Node
from compiler.ir import Combine, For, Stmt, Store, Update, Write, path_to, walk_stmts
from compiler.te import Binary, Call, Const, Expr, Field, Read, Var, children
from runtime.pricing.hosts import HostTable

DIVISIONS = frozenset(("div", "floordiv", "mod"))
SIMPLE = frozenset(("abs", "floor", "ceil", "rint", "tf32"))
"""Functions that are one instruction."""


def node_cycles(graph: Graph, node: Node, host: HostTable) -> float:
    """The cycles of an operator of a graph by itself; none for a view."""
    group = Group.of([node], graph)
    return 0.0 if group.is_view else host.operator + _cycles(recipe_of(graph, group), host)


@lru_cache(4096)
def _cycles(recipe: Recipe, host: HostTable) -> float:
    body = unscheduled(recipe).body
    return sum(_turns(body, write) * (host.iteration + _written(write, host))
               for write in walk_stmts(body) if isinstance(write, Write))


def _turns(body: Stmt, write: Stmt) -> int:
    """The number of times that a statement runs."""
    around = path_to(body, lambda stmt: stmt is write)
    return prod(stmt.extent for stmt in around if isinstance(stmt, For))


def _written(write: Stmt, host: HostTable) -> float:
    """A store writes its element; a sum stays in a register, and a term is one operation more."""
    match write:
        case Store(value=value):
            return host.access + _expression(value, host)
        case Update(value=value):
            return host.operation + _expression(value, host)
        case Combine(values=values):
            return sum(host.operation + _expression(value, host) for value in values)
    raise AssertionError(f"{write} is no statement that writes")


def _expression(expr: Expr, host: HostTable) -> float:
    """The cycles of a value; places of elements follow from the loops' counters."""
    match expr:
        case Const() | Var():
            return 0.0
        case Read() | Field():
            return host.access
        case Binary(op=op) if op in DIVISIONS:
            own = host.division
        case Call(function="sqrt"):
            own = host.division
        case Call(function=name) if name not in SIMPLE:
            own = host.function
        case _:
            own = host.operation
    return own + sum(_expression(child, host) for child in children(expr))
