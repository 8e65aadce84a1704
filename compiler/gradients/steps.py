"""Steps of training as graphs: parameters and a batch in, the loss and the next parameters out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol

import numpy as np

from compiler.errors import ArgumentError
from compiler.frontend.building.values import Tracer, Value
from compiler.frontend.models import Model, graph_of
from compiler.frontend.onnx.operators.learning import adam, momentum
from compiler.gradients.reverse import NODES_FOR_EACH, GradientRefused, gradients
from compiler.graph.graph import Graph, TensorType
from compiler.graph.rewrite import Builder
from compiler.te import is_float


class Optimizer(Protocol):
    """A rule that changes parameters by their gradients.

    `states` are what it remembers of each parameter, tensors of its shape that begin as 0.
    """

    states: ClassVar[tuple[str, ...]]

    @property
    def rate(self) -> float: ...

    def update(self, rate: Value, time: Value, groups: Sequence[Value]) -> Sequence[Value]:
        """The next parameters, then their next states, kind by kind: of all parameters, all
        gradients, and all states, kind by kind. `time` counts steps from 0, int64 [].
        """
        ...


@dataclass(frozen=True, slots=True)
class Sgd:
    """Gradient descent with momentum: ``v = momentum v + g``, ``x = x - rate v``, where g is the
    gradient plus ``decay x``.
    """

    rate: float = 0.01
    momentum: float = 0.9
    decay: float = 0.0
    states: ClassVar[tuple[str, ...]] = ("velocity",)

    def __post_init__(self):
        _check(self)

    def update(self, rate: Value, time: Value, groups: Sequence[Value]) -> Sequence[Value]:
        return momentum(rate.tracer, rate, time, *groups, alpha=self.momentum, beta=1.0,
                        mode="standard", norm_coefficient=self.decay)


@dataclass(frozen=True, slots=True)
class Adam:
    """Adam: ``m = mean m + (1 - mean) g``, ``s = square s + (1 - square) g^2``, both divided by
    what they lack in the first steps, and ``x = x - rate m / (sqrt(s) + epsilon)``, where g is the
    gradient plus ``decay x``. Epsilon meets the root before that is divided, as in ONNX.

    After D. P. Kingma, J. Ba: Adam, ICLR 2015.
    """

    rate: float = 0.001
    mean: float = 0.9
    square: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0
    states: ClassVar[tuple[str, ...]] = ("mean", "square")

    def __post_init__(self):
        _check(self)

    def update(self, rate: Value, time: Value, groups: Sequence[Value]) -> Sequence[Value]:
        return adam(rate.tracer, rate, time + 1, *groups, alpha=self.mean, beta=self.square,
                    epsilon=self.epsilon, norm_coefficient=self.decay, norm_coefficient_post=0.0)


_LIMITS = {"momentum": 1, "mean": 1, "square": 1}


def _check(optimizer: Sgd | Adam) -> None:
    """Refuses numbers that make no step, or none that ends."""
    for field in fields(optimizer):
        value, most = getattr(optimizer, field.name), _LIMITS.get(field.name, np.inf)
        if not (isinstance(value, int | float) and 0 <= value < most):
            below = f", below {most}" if most == 1 else ""
            raise ArgumentError(f"{type(optimizer).__name__}: {field.name} must be a number of at "
                                f"least 0{below}, not {value!r}")


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """A step of training.

    graph : computes it; its first output is the loss.
    rate, time : its inputs for the rate, float32 [], and the number of steps so far, int64 [].
    next : for each parameter, each state and each statistic, inputs of the graph, the output to
        take its place.
    first : what these are before the first step.
    forward, gradient : how many nodes compute the network, and how many these and its gradients;
        behind them nodes name the gradients and change the parameters.
    """

    graph: Graph
    rate: str
    time: str
    next: Mapping[str, str]
    first: Mapping[str, np.ndarray]
    forward: int
    gradient: int


def training_step(model: Model, of: str, parameters: Sequence[str], optimizer: Optimizer,
                  statistics: Mapping[str, str] | None = None, counter: str = "") -> TrainingStep:
    """The step that lowers `of` by changing these constants of the network. `statistics` are
    constants and the values that take their places; `counter` is the input that counts steps.
    """
    graph, averages = graph_of(model), dict(statistics or {})
    first = dict(_constants(graph, parameters))
    running = dict(_constants(graph, tuple(averages), "statistic"))
    _require_values(graph, averages, counter)
    made = gradients(with_inputs(graph, (*parameters, *averages)), of, parameters,
                     tuple(averages.values()))
    tracer = Tracer(Builder.like(made))
    tracer.most_nodes += NODES_FOR_EACH * len(made.nodes)
    for node in made.nodes:
        tracer.builder.add(node)
    rate = tracer.input(tracer.builder.fresh("rate"), TensorType((), "float32"))
    time = _value(tracer, counter) if counter else tracer.input(tracer.builder.fresh("time"),
                                                                TensorType((), "int64"))
    values = [_value(tracer, name)
              for name in (*parameters, *made.outputs[1:len(parameters) + 1])]
    for state in optimizer.states:
        for name in parameters:
            place = tracer.builder.fresh(f"{name}.{state}")
            values.append(tracer.input(place, made.values[name]))
            first[place] = np.zeros_like(first[name])
    tracer.current = "update"
    results = [*optimizer.update(rate, time, values),
               *(_value(tracer, name) for name in averages.values())]
    first |= running
    following = {name: _output(tracer, name, value)
                 for name, value in zip(first, results, strict=True)}
    outputs = (made.outputs[0], *following.values())
    own = {node.name for node in graph.nodes}
    forward = sum(node.name in own for node in made.nodes)
    named = next(place for place, node in enumerate(made.nodes) if made.outputs[1] in node.outputs)
    return TrainingStep(tracer.builder.finish(outputs), tracer.enter(rate), tracer.enter(time),
                        following, first, forward, named)


def _constants(graph: Graph, names: Sequence[str], role: str = "parameter"
               ) -> Mapping[str, np.ndarray]:
    for name in names:
        if name not in graph.constants or not is_float(graph.values[name].dtype):
            known = [each for each in graph.constants if is_float(graph.values[each].dtype)]
            raise GradientRefused(f"{graph.name}: a {role} must be a constant of floats, not "
                                  f"{name!r}; there are {', '.join(known) or 'none'}")
    return {name: graph.constants[name] for name in names}


def _require_values(graph: Graph, averages: Mapping[str, str], counter: str) -> None:
    for name, value in averages.items():
        if graph.values.get(value) != graph.values[name]:
            raise GradientRefused(f"{graph.name}: what takes the place of {name!r} must be a value "
                                  f"{graph.values[name]}, not {value!r}: "
                                  f"{graph.values.get(value, 'none')}")
    if counter and (counter not in graph.inputs
                    or graph.values[counter] != TensorType((), "int64")):
        raise GradientRefused(f"{graph.name}: counter must be an input int64[], not {counter!r}")


def with_inputs(graph: Graph, names: Sequence[str]) -> Graph:
    """The network with these constants as inputs, behind its own."""
    kept = {name: array for name, array in graph.constants.items() if name not in names}
    return Graph(graph.name, (*graph.inputs, *names), graph.outputs, graph.nodes, graph.values,
                 kept, graph.notes)


def with_constants(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Graph:
    """The network with other numbers in constants of these names; the shapes stay."""
    for name, array in arrays.items():
        if name not in graph.constants or graph.values[name] != TensorType.of(array):
            raise GradientRefused(f"{graph.name}: {name!r} must be a constant "
                                  f"{TensorType.of(array)}, not {graph.values.get(name, 'none')}")
    return Graph(graph.name, graph.inputs, graph.outputs, graph.nodes, graph.values,
                 {**graph.constants, **arrays}, graph.notes)


def _value(tracer: Tracer, name: str) -> Value:
    type_ = tracer.builder.values[name]
    return Value(tracer, type_.shape, type_.dtype, name)


def _output(tracer: Tracer, name: str, value: Value) -> str:
    builder = tracer.builder
    output = builder.fresh(f"{name}.next")
    return builder.emit("identity", builder.fresh_node(output), [tracer.enter(value)], output)
