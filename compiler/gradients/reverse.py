"""Differentiates graphs in reverse mode: from one number back to what it depends on.

Nodes are visited from the last to the first. Each multiplies the gradient of its result by its own
slopes, and what several readers give to a value is added. The result is an ordinary graph, so it
is optimized, compiled and differentiated like any other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from compiler.errors import Error, called_by_name
from compiler.frontend.building.values import NodeRefused, Tracer, Value
from compiler.frontend.models import Model, graph_of
from compiler.gradients.rules.adjoint import Adjoint, Gradient, NoGradient, summed_to, zeros
from compiler.gradients.rules.table import GRADIENTS, ON_INTEGERS, hindrance
from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.te import is_float


NODES_FOR_EACH = 20
"""Nodes that the gradient of one may have beside those that any graph may have."""


class GradientRefused(Error, ValueError):
    """A graph, or a request, without gradients; the message is one line."""


@called_by_name
def grad(model: Model, of: str, wrt: str | Sequence[str]) -> Graph:
    """The gradients of a number by tensors of a network, as a graph.

    Parameters
    ----------
    model : a network as `lockstep.compile` takes it.
    of : the name of a value of one element, such as a loss.
    wrt : names of inputs, constants or other values of floats.

    The graph has the network's inputs. Its outputs are `of` and then the gradients in the order of
    `wrt`, each of the shape and the type of the value; ``NAME_gradient`` is its name, with a number
    behind it where that is taken. The gradient of what `of` does not depend on is 0.

    Raises GradientRefused for names that the network does not have, and for operators without a
    gradient on the way.
    """
    return gradients(graph_of(model), of, (wrt,) if isinstance(wrt, str) else tuple(wrt))


def gradients(graph: Graph, of: str, wrt: Sequence[str], beside: Sequence[str] = ()) -> Graph:
    """As `grad`, with the values `beside` as further outputs."""
    _check(graph, of, wrt)
    return _Reverse(graph, of, tuple(wrt)).run(beside)


def _check(graph: Graph, of: str, wrt: Sequence[str]) -> None:
    for role, name in (("of", of), *(("wrt", name) for name in wrt)):
        if name not in graph.values:
            raise GradientRefused(f"{graph.name}: {role} must be a value of the network, not "
                                  f"{name!r}; its inputs are {', '.join(graph.inputs)}")
        if not is_float(graph.values[name].dtype):
            raise GradientRefused(f"{graph.name}: {role} must be floats, not {name!r}: "
                                  f"{graph.values[name]}")
    if prod(graph.values[of].shape) != 1:
        raise GradientRefused(f"{graph.name}: of must have 1 element, not {of!r}: "
                              f"{graph.values[of]}")
    if len(set(wrt)) < len(wrt) or not wrt:
        raise GradientRefused(f"{graph.name}: wrt must be different names, at least one, not "
                              f"{', '.join(wrt) or 'none'}")


@dataclass(slots=True)
class _Reverse:
    """The graph that is made: the network, and gradients of its values so far."""

    graph: Graph
    of: str
    wrt: tuple[str, ...]
    tracer: Tracer = field(init=False)
    active: set[str] = field(init=False)
    gradients: dict[str, Value] = field(init=False, default_factory=dict)

    def run(self, beside: Sequence[str]) -> Graph:
        self.tracer = Tracer(Builder.like(self.graph))
        self.tracer.most_nodes += NODES_FOR_EACH * len(self.graph.nodes)
        for node in self.graph.nodes:
            self.tracer.builder.add(node)
        self.active = self._active()
        of = self._value(self.of)
        self.gradients[self.of] = of.like(1).expand(*of.shape)
        for node in reversed(self.graph.nodes):
            if node.outputs[0] in self.gradients and self.active.intersection(node.inputs):
                self._visit(node)
        outputs = [self.of, *map(self._named, self.wrt), *beside]
        return eliminate_dead_code(self.tracer.builder.finish(outputs))

    def _value(self, name: str) -> Value:
        type_ = self.graph.values[name]
        return Value(self.tracer, type_.shape, type_.dtype, name)

    def _active(self) -> set[str]:
        """The values of floats that depend on `wrt`; refuses nodes on the way to `of` that have no
        gradient."""
        active, needed = set(self.wrt), _needed(self.graph, self.of)
        for node in self.graph.nodes:
            if not active.intersection(node.inputs):
                continue
            floats = is_float(self.graph.values[node.outputs[0]].dtype)
            reason = hindrance(node.op)
            if node.outputs[0] in needed and reason and (floats or reason == ON_INTEGERS):
                raise self._refused(node, reason)
            if floats:
                active.add(node.outputs[0])
        return active

    def _refused(self, node: Node, reason: object) -> GradientRefused:
        return GradientRefused(f"{self.graph.name}: {node.name} ({node.op}) has no gradient: "
                               f"{reason}")

    def _visit(self, node: Node) -> None:
        """Adds what the node gives to the gradients of its inputs."""
        self.tracer.current = f"{node.name}.gradient"
        result = node.outputs[0]
        at = Adjoint(node.attrs, tuple(map(self._value, node.inputs)), self._value(result),
                     self.gradients[result])
        try:
            for name, gradient in zip(node.inputs, GRADIENTS[node.op](at), strict=True):
                if gradient is not None and name in self.active:
                    self._add(name, gradient)
        except (NoGradient, NodeRefused) as reason:
            raise self._refused(node, reason) from None

    def _add(self, name: str, gradient: Gradient) -> None:
        type_ = self.graph.values[name]
        given = summed_to(gradient(), type_.shape).astype(type_.dtype)
        self.gradients[name] = self.gradients[name] + given if name in self.gradients else given

    def _named(self, name: str) -> str:
        """An output of its own for the gradient of a value."""
        value, builder = self._value(name), self.tracer.builder
        self.tracer.current = name
        made = self.tracer.enter(self.gradients.get(name) or zeros(value, *value.shape))
        output = builder.fresh(f"{name}_gradient")
        return builder.emit("identity", builder.fresh_node(output), [made], output)


def _needed(graph: Graph, of: str) -> set[str]:
    """The values that this one is computed from, and itself."""
    needed = {of}
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
    return needed
