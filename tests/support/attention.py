"""Heads of attention as graphs."""

import numpy as np

from compiler.graph import Builder, TensorType

__all__ = ["Heads"]


class Heads(Builder):
    """Attention of queries x over keys and values; the parts are values of their own. All heads
    read those of one where `shared` says so.
    """

    def __init__(self, batch: int, heads: int, queries: int, keys: int, width: int,
                 *, shared: bool = False):
        super().__init__("heads")
        of = 1 if shared else heads
        for name, shape in (("x", (heads, queries, width)), ("keys", (of, width, keys)),
                            ("values", (of, keys, width))):
            self.add_input(name, TensorType((batch, *shape), "float32"))
        self.add_input("mask", TensorType((queries, keys), "float32"))

    def attend(self, masked: bool = False, scaled: bool = True) -> str:
        self.emit("matmul", "scores", ["x", "keys"], "scores")
        last = "scores"
        if scaled:
            self.add_constant("scale", np.full((), 0.25, np.float32))
            last = self.emit("mul", "scaled", [last, "scale"], "scaled")
        if masked:
            last = self.emit("add", "hidden", [last, "mask"], "hidden")
        rows = {"axes": (3,), "keepdims": 1}
        self.emit("reduce_max", "top", [last], "top", **rows)
        self.emit("sub", "below", [last, "top"], "below")
        self.emit("exp", "powers", ["below"], "powers")
        self.emit("reduce_sum", "total", ["powers"], "total", **rows)
        self.emit("div", "weights", ["powers", "total"], "weights")
        return self.emit("matmul", "y", ["weights", "values"], "y")
