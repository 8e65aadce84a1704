"""Heads of attention as graphs, and what they mean."""

from collections.abc import Callable

import numpy as np

from compiler.graph import Builder, Graph, TensorType
from compiler.graph.division.protocols import Values
from tests.support.float_graphs import inputs_of

__all__ = ["Heads", "Shape", "attention", "given_to"]

Shape = tuple[int, int, int, int, int]
"""Batch, heads, queries, keys and width."""


TURNED = {"x": (2, 1, 3), "keys": (2, 3, 1), "values": (2, 1, 3)}
"""The order of heads, and so on, of a batch."""


class Heads(Builder):
    """Attention of queries x over keys and values; the parts are values of their own. All heads
    read those of one where `shared` says so. With `turned` they are inputs as a layer before makes
    them, ``x.tokens[batch, queries, heads, width]``, and so on.
    """

    def __init__(self, batch: int, heads: int, queries: int, keys: int, width: int,
                 *, shared: bool = False, turned: bool = False):
        super().__init__("heads")
        of = 1 if shared else heads
        for name, shape in (("x", (heads, queries, width)), ("keys", (of, width, keys)),
                            ("values", (of, keys, width))):
            order = 0, *TURNED[name]
            given = (batch, *shape)
            if not turned:
                self.add_input(name, TensorType(given, "float32"))
                continue
            laid = tuple(given[order.index(d)] for d in range(4))
            self.add_input(f"{name}.tokens", TensorType(laid, "float32"))
            self.emit("transpose", f"{name}.turned", [f"{name}.tokens"], name, perm=order)
        self.add_input("mask", TensorType((queries, keys), "float32"))

    def attend(self, masked: bool = False, scaled: bool = True) -> str:
        self.emit("matmul", "scores", ["x", "keys"], "scores")
        last = "scores"
        if scaled:
            self.add_constant("scale", np.full((), 0.25, np.float32))
            last = self.emit("mul", "scaled", [last, "scale"], "scaled")
        if masked:
            last = self.emit("add", "hidden", [last, "mask"], "hidden")
        return self.softmax(last)

    def softmax(self, last: str) -> str:
        """Weights, and the sums of values by them."""
        rows = {"axes": (3,), "keepdims": 1}
        self.emit("reduce_max", "top", [last], "top", **rows)
        self.emit("sub", "below", [last, "top"], "below")
        self.emit("exp", "powers", ["below"], "powers")
        self.emit("reduce_sum", "total", ["powers"], "total", **rows)
        self.emit("div", "weights", ["powers", "total"], "weights")
        return self.emit("matmul", "y", ["weights", "values"], "y")


def given_to(graph: Graph) -> dict[str, np.ndarray]:
    """Inputs of heads; the mask hides what comes later."""
    inputs = inputs_of(graph)
    if "mask" in inputs:
        seen = np.tri(*inputs["mask"].shape, dtype=bool)
        inputs["mask"] = np.where(seen, 0, -np.inf).astype(np.float32)
    return inputs


def attention(inputs: Values, masked: bool,
              rounded: Callable[[np.ndarray], np.ndarray] = lambda x: x) -> np.ndarray:
    """What heads compute, in float64, of queries, keys and values that are rounded."""
    x, keys, values = (rounded(inputs[name] if name in inputs else
                               inputs[f"{name}.tokens"].transpose(0, *order)).astype(np.float64)
                       for name, order in TURNED.items())
    scores = x @ keys / 4 + (inputs["mask"] if masked else 0)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return (powers / powers.sum(-1, keepdims=True) @ values).astype(np.float32)
