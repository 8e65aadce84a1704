"""The gradient of every operator: of random nodes, against central differences."""

import numpy as np
import pytest

from compiler.gradients import grad
from compiler.gradients.rules.table import GRADIENTS
from compiler.graph import Builder, Graph, TensorType, verify
from tests.support.central_differences import directional, in_float64, slope
from tests.support.gradient_cases import CASES, Drawn

SHAPES = 20
STRAIGHT_THROUGH = "fake_quantize"
"""Its gradient is not its slope: tests/compiler/gradients/test_quantization.py."""


def network(op: str, drawn: Drawn, rng: np.random.Generator) -> tuple[Graph, dict, list[str]]:
    """The node, whose result meets random factors and is summed; its inputs, and which are floats.
    """
    net, inputs = Builder(op), {}
    for place, array in enumerate(drawn.inputs):
        floats = array.dtype == np.float64
        inputs[f"x{place}"] = array.astype(np.float32) if floats else array
        net.add_input(f"x{place}", TensorType.of(inputs[f"x{place}"]))
    result = net.emit(op, "node", [*inputs], "y", **drawn.attrs)
    factors = rng.standard_normal(net.values[result].shape).astype(np.float32)
    net.add_constant("factors", factors)
    net.emit("mul", "product", [result, "factors"], "z")
    net.emit("reduce_sum", "sum", ["z"], "loss", axes=tuple(range(factors.ndim)), keepdims=0)
    return verify(net.finish(["loss"])), inputs, [
        name for name, array in inputs.items() if array.dtype == np.float32]


def test_every_rule_has_a_case() -> None:
    assert CASES.keys() == GRADIENTS.keys()


@pytest.mark.parametrize("op", [op for op in CASES if op != STRAIGHT_THROUGH])
def test_the_gradient_is_the_slope(op: str, rng: np.random.Generator) -> None:
    for _ in range(SHAPES):
        drawn = CASES[op](rng)
        graph, inputs, floats = network(op, drawn, rng)
        made = verify(grad(graph, "loss", floats))
        gradients = dict(zip(floats, list(in_float64(made, inputs).values())[1:], strict=True))
        for name in floats:
            assert gradients[name].shape == inputs[name].shape
        direction = {name: rng.standard_normal(inputs[name].shape) for name in floats}
        wanted = slope(graph, "loss", inputs, direction)
        assert directional(gradients, direction) == pytest.approx(wanted, rel=2e-6, abs=2e-6), drawn
