"""Exact gradients where a function has no slope, or the slope of a term is infinite."""

from collections.abc import Sequence

import numpy as np
import pytest

from compiler.gradients import grad
from compiler.graph import Builder, TensorType, evaluate


def gradients(op: str, *arrays: Sequence | float, **attrs) -> list[list]:
    """Those of the sum of the result, by each input of floats."""
    net = Builder("kink")
    inputs = {f"x{place}": np.array(array, np.float32) for place, array in enumerate(arrays)}
    for name, array in inputs.items():
        net.add_input(name, TensorType.of(array))
    result = net.emit(op, "node", [*inputs], "y", **attrs)
    axes = tuple(range(len(net.values[result].shape)))
    net.emit("reduce_sum", "sum", [result], "loss", axes=axes, keepdims=0)
    made = evaluate(grad(net.finish(["loss"]), "loss", [*inputs]), inputs)
    return [array.tolist() for array in list(made.values())[1:]]


WINDOW = {"kernel": (2, 2), "strides": (1, 1), "pads": (0, 0, 0, 0)}


@pytest.mark.parametrize(("op", "inputs", "attrs", "wanted"), [
    ("relu", [[-1, 0, 2]], {}, [[0, 0, 1]]),
    ("leakyrelu", [[-1, 0, 2]], {"alpha": 0.25}, [[0.25, 1, 1]]),
    ("clip", [[-1, 0, 1, 2, 3]], {"lo": 0.0, "hi": 2.0}, [[0, 0, 1, 0, 0]]),
    ("abs", [[-1, 0, 2]], {}, [[-1, 0, 1]]),
    ("maximum", [[1, 2, 3], [2]], {}, [[0, 0, 1], [2]]),
    ("minimum", [[1, 2, 3], [2]], {}, [[1, 0, 0], [2]]),
    ("sign", [[-1, 0, 2]], {}, [[0, 0, 0]]),
    ("rint", [[0.5, 1, 2.25]], {}, [[0, 0, 0]]),
    ("reduce_max", [[[1, 3, 3], [2, 0, 1]]], {"axes": (1,), "keepdims": 0},
     [[[0, 0.5, 0.5], [1, 0, 0]]]),
    ("reduce_min", [[2, 2, 2, 2]], {"axes": (0,), "keepdims": 1}, [[0.25] * 4]),
    ("maxpool", [[[[[5, 5, 1], [5, 5, 1], [0, 0, 1]]]]], WINDOW,
     [[[[[1, 1, 0], [1, 1, 0], [0, 0, 0]]]]]),
    ("maxpool", [[[[[7, 7], [7, 7]]]]], {**WINDOW, "pads": (1, 1, 1, 1)},
     [[[[[4, 2], [2, 1]]]]]),
    ("reduce_prod", [[0, 2, 3]], {"axes": (0,), "keepdims": 0}, [[6, 0, 0]]),
    ("reduce_prod", [[0, 0, 3]], {"axes": (0,), "keepdims": 0}, [[0, 0, 0]]),
    ("cumprod", [[2, 0, 3]], {"axis": 0, "exclusive": 0, "reverse": 0}, [[1, 8, 0]]),
    ("pow", [[0, 0, 0, -2, -2], [0, 2, 1, 2, 3]], {}, None),
    ("exp", [[-np.inf, 0]], {}, [[0, 1]]),
    ("mod", [[5, -5], [3, 3]], {}, [[1, 1], [-1, 2]]),
    ("fmod", [[5, -5], [3, 3]], {}, [[1, 1], [-1, 1]]),
], ids=str)
def test_at_a_kink(op: str, inputs: list, attrs: dict, wanted: list | None) -> None:
    found = gradients(op, *inputs, **attrs)
    if op == "pow":
        assert found[0] == [0, 0, 1, -4, 12] and found[1][:3] == [0, 0, 0]
    else:
        assert found == wanted


def test_a_sigmoid_far_below_zero_has_no_gradient_and_no_nan() -> None:
    """1 / (1 + exp(-x)), whose power is infinite."""
    net = Builder("sigmoid")
    net.add_input("x", TensorType((4,), "float32"))
    net.add_constant("one", np.ones(4, np.float32))
    for op, inputs, output in (("neg", "x", "a"), ("exp", "a", "b"), ("add", "b one", "c"),
                               ("div", "one c", "d")):
        net.emit(op, output, inputs.split(), output)
    net.emit("reduce_sum", "sum", ["d"], "loss", axes=(0,), keepdims=0)
    x = np.array([-200, -80, 0, 200], np.float32)
    found = evaluate(grad(net.finish(["loss"]), "loss", "x"), {"x": x})["x_gradient"]
    np.testing.assert_allclose(found, [0, 0, 0.25, 0], rtol=1e-6, atol=1e-30)
