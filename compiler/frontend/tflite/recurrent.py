"""Recurrent layers."""

import numpy as np

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.tflite.dynamic import quantized
from compiler.frontend.tflite.dynamic_products import Factor, by_factor, is_dynamic
from compiler.frontend.tflite.elementwise import clamped
from compiler.frontend.tflite.registry import operator

ACTIVATIONS = {1: "Relu", 4: "Tanh"}
OF_INPUT, OF_STATE, BIASES = range(1, 5), range(5, 9), range(12, 16)
"""The inputs of the four gates: input, forget, cell, output."""

IN_ONNX = (0, 3, 1, 2)
"""The order of these gates there."""


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(c, op):
    left_out = {"peepholes": range(9, 12), "a projection": (16, 17),
                "normalized gates": range(20, 24)}
    for what, places in left_out.items():
        if any(op.input(place) >= 0 for place in places):
            raise NodeRefused(f"an LSTM must have no {what.removeprefix('a ')}")
    if c.is_quantized(op.input(0)) or op.input(1) < 0 or op.option("ProjClip"):
        raise NodeRefused("an LSTM must be of float32, with all four gates and no clipped "
                          "projection")
    if op.option("FusedActivationFunction", 4) not in ACTIVATIONS:
        raise NodeRefused("the activation of an LSTM must be tanh or relu")
    x = c.real(op.input(0))
    if not op.option("TimeMajor"):
        x = c.write.node("Transpose", [x], perm=(1, 0, 2))
    y = _in_steps(c, op, x) if _is_dynamic(c, op) else _whole(c, op, x)
    c.define(op.outputs[0], y if op.option("TimeMajor") else c.write.node(
        "Transpose", [y], perm=(1, 0, 2)))


def _whole(c, op, x):
    """ONNX's operator, for weights in float."""
    arrays = {place: c.array(op.input(place)) for place in (*OF_INPUT, *OF_STATE, *BIASES)}
    if any(array is None or array.dtype.kind != "f" for array in arrays.values()):
        raise NodeRefused("weights of an LSTM must be constants of float32, or of int8 with "
                          "biases of float32")
    w, r, b = (np.concatenate([arrays[places[gate]] for gate in IN_ONNX])[None]
               for places in (OF_INPUT, OF_STATE, BIASES))
    clip = {"clip": op.option("CellClip")} if op.option("CellClip") else {}
    function = ACTIVATIONS[op.option("FusedActivationFunction", 4)]
    made = c.write.several(
        "LSTM", [x, c.write.constant(w), c.write.constant(r),
                 c.write.constant(np.concatenate([b, np.zeros_like(b)], axis=1))], 1,
        hidden_size=r.shape[2], activations=["Sigmoid", function, function], **clip)[0]
    return c.write.node("Squeeze", [made, c.write.integers(1)])


def _is_dynamic(c, op):
    places = [op.input(place) for place in (*OF_INPUT, *OF_STATE)]
    return all(is_dynamic(c, op.input(0), place) and c.array(place) is not None
               and not c.scales(place).block for place in places)


def _in_steps(c, op, x):
    """One step after the other, each of which quantizes its input and the state."""
    times = c.tensor(op.input(0)).shape[0 if op.option("TimeMajor") else 1]
    bias = c.write.node("Concat", [c.value(op.input(place)) for place in BIASES], axis=0)
    given = c.write.node("Add", [_product(c, op, x, _gates(c, op, OF_INPUT)), bias])
    weights, state, cell, states = _gates(c, op, OF_STATE), "", "", []
    for sums in c.write.several("Split", [given], times, axis=0, num_outputs=times):
        if state:
            sums = c.write.node("Add", [sums, _product(c, op, state, weights)])
        state, cell = _step(c, op, sums, cell)
        states.append(state)
    return c.write.node("Concat", states, axis=0)


def _gates(c, op, places):
    """The weights of all four gates as one factor."""
    arrays = [c.array(op.input(place)) for place in places]
    scales = [np.broadcast_to(c.scales(op.input(place)).scale, len(array))
              for place, array in zip(places, arrays)]
    return Factor.of(c, np.concatenate(arrays).T, np.concatenate(scales))


def _product(c, op, x, factor):
    """The product of rows, each quantized by itself."""
    way = "asymmetric" if op.option("AsymmetricQuantizeInputs") else "symmetric"
    return by_factor(c, quantized(c, x, (-1,), way), factor)


def _step(c, op, sums, cell):
    """The state and the cell after a step, [1, B, H], of the sums of all gates; no cell is 0."""
    function = ACTIVATIONS[op.option("FusedActivationFunction", 4)]
    kept, forgotten, new, shown = (c.write.node(name, [part]) for name, part in zip(
        ("Sigmoid", "Sigmoid", function, "Sigmoid"),
        c.write.several("Split", [sums], 4, axis=-1, num_outputs=4)))
    after = c.write.node("Mul", [kept, new])
    if cell:
        after = c.write.node("Add", [c.write.node("Mul", [forgotten, cell]), after])
    if op.option("CellClip"):
        after = clamped(c, after, -op.option("CellClip"), op.option("CellClip"))
    return c.write.node("Mul", [shown, c.write.node(function, [after])]), after
