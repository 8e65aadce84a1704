"""Random float networks, and random instructions that match parts of them."""

from collections.abc import Callable, Sequence
from random import Random
from unittest.mock import patch

import numpy as np

from compiler import te
from compiler.graph import Graph, optimize
from compiler.ops.patterns import Pattern
from compiler.quantize import quantizer
from compiler.quantize.improve.noise import Measured
from compiler.quantize.quantizer import Quantized
from tests.support.float_graphs import FloatNet

__all__ = ["lost", "random_network", "random_patterns"]

SHAPE = (1, 4, 5, 5)
X, Y = te.Var("x", "float32"), te.Var("y", "float32")
X0, X1 = te.Var("x0", "int32"), te.Var("x1", "int32")

ONE_INPUT = {
    "relu": te.maximum(X, 0.0), "relu6": te.clamp(X, 0.0, 6.0), "halved": X * 0.5 + 1,
    "exp": te.exp(X), "more": te.exp(X) + 1, "gate": 1 / (1 + te.exp(-X)), "tanh": te.tanh(X),
    "abs": te.abs(X), "square": X * X, "hswish": X * te.clamp(X / 6 + 0.5, 0.0, 1.0),
    "silu": X / (1 + te.exp(-X)), "leaky": te.maximum(X, X * 0.1), "root": te.sqrt(X * X + 1)}
TWO_INPUTS = {
    "addrelu": te.maximum(X + Y, 0.0), "sum": X + Y, "product": X * Y, "difference": X - Y,
    "greatest": te.maximum(X, Y), "prelu": te.select(X < 0.0, X * Y, X), "ratio": X / Y,
    "length": te.sqrt(X * X + Y * Y), "distance": te.abs(X - Y), "gated": X / (1 + te.exp(-Y))}


def _refused(*quantized):
    raise ValueError("these scales have no meaning")


def _pattern(name: str, rng: Random) -> Pattern:
    """An instruction, which may refuse all scales, or some."""
    inputs = (X,) if name in ONE_INPUT else (X, Y)
    real = {**ONE_INPUT, **TWO_INPUTS}[name]
    body = te.clamp((X0 >> 1) + (X1 >> 1 if len(inputs) > 1 else 3), -128, 127)

    def some(*quantized):
        if quantized[0].scale > quantized[-1].scale:
            raise ValueError("the result must have the greater scale")
        return {}

    return Pattern(name, inputs, real, body, (),
                   rng.choice((lambda *quantized: {},) * 4 + (_refused, some)))


def random_patterns(rng: Random) -> list[Pattern]:
    names = rng.sample([*ONE_INPUT, *TWO_INPUTS], rng.randint(1, 6))
    return [_pattern(name, rng) for name in names]


def _softmax(net: FloatNet, x: str) -> str:
    """Softmax as an exporter may have taken it apart."""
    greatest = net.op("reduce_max", x, axes=(3,), keepdims=1)
    powers = net.op("exp", net.op("sub", x, greatest))
    return net.op("div", powers, net.op("reduce_sum", powers, axes=(3,), keepdims=1))


def _number(net: FloatNet, value: float) -> str:
    return net.add_constant(net.fresh("k"), np.float32(value))


def _sigmoid(net: FloatNet, x: str) -> str:
    powers = net.op("exp", net.op("neg", x))
    return net.op("div", _number(net, 1), net.op("add", powers, _number(net, 1)))


def _silu(net: FloatNet, x: str) -> str:
    return net.op("mul", x, _sigmoid(net, x))


def _gated(net: FloatNet, x: str, y: str) -> str:
    """Written with an exponential."""
    return net.op("div", x, net.op("add", net.op("exp", net.op("neg", y)), _number(net, 1)))


def _prelu(net: FloatNet, x: str) -> str:
    slope = net.constant(SHAPE[1], 1, 1)
    return net.op("where", net.op("less", x, _number(net, 0)), net.op("mul", x, slope), x)


def _affine(net: FloatNet, x: str) -> str:
    scaled = net.op("mul", x, net.constant(SHAPE[1], 1, 1))
    return net.op("add", scaled, net.constant(SHAPE[1], 1, 1))


def _own(op: str, **attrs: object) -> Callable[..., str]:
    return lambda net, *values: net.op(op, *values, **attrs)


ALONE: tuple[Callable[..., str], ...] = (
    lambda net, x: net.conv(x, SHAPE[1]), lambda net, x: net.conv(x, SHAPE[1], 1),
    _own("relu"), _own("relu"), _own("clip", lo=0.0, hi=6.0), _sigmoid, _own("tanh"),
    _own("exp"), _own("abs"), _own("sqrt"), _silu, _softmax, _prelu, _affine,
    lambda net, x: _gated(net, x, x), lambda net, x: net.op("mul", x, x),
    lambda net, x: net.op("add", x, _number(net, 0.5)),
    lambda net, x: net.op("mul", x, _number(net, 0.5)),
    _own("maxpool", kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)))
PAIRS: tuple[Callable[..., str], ...] = (
    _own("add"), _own("add"), _own("sub"), _own("mul"), _own("div"), _own("maximum"), _gated,
    lambda net, x, y: net.op("relu", net.op("add", x, y)),
    lambda net, x, y: net.op("abs", net.op("sub", x, y)))


def random_network(rng: Random, steps: int = 7) -> Graph:
    """Operators on images of one shape, between convolutions."""
    net = FloatNet(*SHAPE)
    values = [net.conv("x", SHAPE[1]), net.conv("x", SHAPE[1])]
    for _ in range(steps):
        first, second = values[-1], rng.choice(values)
        values.append(rng.choice(ALONE)(net, first) if rng.random() < 0.6
                      else rng.choice(PAIRS)(net, first, second))
    last = net.conv(values[-1], 2, 1) if rng.random() < 0.7 else values[-1]
    return net.finish([last])


def quantized(graph: Graph, patterns: Sequence[Pattern]) -> Quantized:
    """The network after quantization, whose noise nobody measures: that takes most of the time."""
    samples = np.random.default_rng(0).standard_normal((2, *SHAPE[1:])).astype(np.float32)
    with (patch.object(quantizer, "measure", lambda *given: Measured({}, ())),
          patch.object(quantizer, "alone", lambda *given: {})):
        return quantizer.quantize(graph, samples, patterns=patterns)


def _in_float(made: Quantized) -> set[str]:
    """The operators that are left in float when the quantized network is imported."""
    graph = optimize(made.graph)
    return {node.name for node in graph.nodes if node.op not in ("quantize", "dequantize")
            and graph.values[node.outputs[0]].dtype == "float32"}


def lost(graph: Graph, patterns: Sequence[Pattern]) -> set[str]:
    """The operators that are of integers without the instructions, and in float with them."""
    return _in_float(quantized(graph, patterns)) - _in_float(quantized(graph, ()))
