"""Random networks of images between layers of an accelerator and operators of the host."""

import numpy as np

from compiler.graph import Graph
from tests.support.integer_graphs import Net

__all__ = ["samples", "random_images"]

SCALE = {"scale": 0.25, "zp": -3}


def samples(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-128, 128, graph.values[name].shape).astype(
                graph.values[name].dtype) for name in graph.inputs}


def random_images(seed: int, nodes: int = 10) -> Graph:
    """A network of about so many operators: int8 layers, maps of their elements in float, movement
    of axes, transposes, gates of channels, and operators that demand NCHW.
    """
    return _Writer(seed).write(nodes)


class _Writer:
    def __init__(self, seed: int):
        self.rng, self.net = np.random.default_rng(seed), Net(seed)
        shape = int(self.rng.integers(1, 3)), int(self.rng.integers(1, 7)), *self._size()
        self.int8 = [self.net.input(*shape)]
        self.float: list[str] = []
        if self.rng.random() < 0.4:
            self.int8.append(self.net.input(*shape, name="x2"))

    def _size(self) -> tuple[int, int]:
        return int(self.rng.integers(2, 6)), int(self.rng.integers(1, 6))

    def write(self, nodes: int) -> Graph:
        kinds = [self.layer, self.layer, self.layer, self.in_float, self.mapped, self.mapped,
                 self.summed, self.per_channel, self.gate, self.joined, self.cut, self.padded,
                 self.turned, self.pooled, self.in_int8, self.in_int8, self.reduced,
                 self.joined_int8, self.max_pool]
        while len(self.net.nodes) < nodes:
            kinds[int(self.rng.integers(len(kinds)))]()
        read = {value for node in self.net.nodes for value in node.inputs}
        made = [node.outputs[0] for node in self.net.nodes]
        inner = [value for value in made if value in read][:int(self.rng.integers(2))]
        return self.net.graph(*dict.fromkeys([v for v in made if v not in read] + inner))

    def _one(self, values: list[str]) -> str:
        return values[-min(len(values), int(self.rng.geometric(0.5)))]

    def _shape(self, value: str) -> tuple[int, ...]:
        return self.net.values[value].shape

    def _any_float(self) -> str:
        return self._one(self.float) if self.float else self.in_float()

    def _add(self, op: str, *inputs: str, **attrs) -> str:
        self.float.append(self.net.add_node(op, *inputs, **attrs))
        return self.float[-1]

    def _like(self, x: str) -> str:
        """Any of the shape of x."""
        same = [one for one in self.float if self._shape(one) == self._shape(x)]
        return same[int(self.rng.integers(len(same)))]

    def layer(self) -> str:
        x = self._one(self.int8)
        same = [one for one in self.int8 if self._shape(one) == self._shape(x)]
        match int(self.rng.integers(4)):
            case 0: made = self.net.add(x, same[int(self.rng.integers(len(same)))])
            case 1: made = self.net.rescale(x)
            case _: made = self.net.conv(x, int(self.rng.integers(1, 7)), (1, 1))
        self.int8.append(made)
        return made

    def in_float(self) -> str:
        return self._add("dequantize", self._one(self.int8), **SCALE)

    def in_int8(self) -> str:
        self.int8.append(self.net.add_node("quantize", self._any_float(), **SCALE))
        return self.int8[-1]

    def mapped(self) -> str:
        op = str(self.rng.choice(["tanh", "relu", "abs", "neg"]))
        return self._add(op, self._any_float())

    def summed(self) -> str:
        x = self._any_float()
        return self._add(str(self.rng.choice(["add", "mul", "maximum"])), x, self._like(x))

    def per_channel(self) -> str:
        x = self._any_float()
        n, c, h, w = self._shape(x)
        shapes = [(c, 1, 1), (1, c, 1, 1), (), (1,), (h, w), (w,), (n, c, h, w)]
        shape = shapes[int(self.rng.integers(len(shapes)))]
        constant = self.net.constant(self.rng.standard_normal(shape).astype(np.float32))
        return self._add("mul", *((x, constant) if self.rng.random() < 0.7 else (constant, x)))

    def gate(self) -> str:
        """A number for each channel, or for each pixel, from all of them."""
        x = self._any_float()
        axes = (2, 3) if self.rng.random() < 0.6 else (1,)
        means = self._add("reduce_sum", x, axes=axes, keepdims=1)
        self.float.remove(means)
        return self._add("mul", x, self.net.add_node("tanh", means))

    def reduced(self) -> str:
        axes = [(0,), (1,), (2,), (2, 3), (1, 2, 3), (0, 3)][int(self.rng.integers(6))]
        op = str(self.rng.choice(["reduce_sum", "reduce_max"]))
        return self._add(op, self._any_float(), axes=axes, keepdims=1)

    def joined(self) -> str:
        x = self._any_float()
        return self._add("concat", x, self._like(x), axis=int(self.rng.integers(1, 4)))

    def joined_int8(self) -> str:
        x = self._one(self.int8)
        same = [one for one in self.int8 if self._shape(one)[2:] == self._shape(x)[2:]]
        self.int8.append(self.net.concat(x, same[int(self.rng.integers(len(same)))]))
        return self.int8[-1]

    def max_pool(self) -> str:
        if self.rng.random() < 0.5:
            x = self._one(self.int8)
            self.int8.append(self.net.max_pool(x, **self._window(x)))
            return self.int8[-1]
        x = self._any_float()
        return self._add("maxpool", x, **self._window(x))

    def _window(self, x: str) -> dict[str, tuple[int, ...]]:
        """A window of two rows and a column; padded above and below, or not."""
        above = 1 if self._shape(x)[2] == 1 else int(self.rng.integers(2))
        return {"kernel": (2, 1), "strides": tuple(self.rng.integers(1, 3, 2).tolist()),
                "pads": (above, 0, int(self.rng.integers(2)), 0)}

    def cut(self) -> str:
        x = self._any_float()
        begin = [int(self.rng.integers(extent)) for extent in self._shape(x)]
        return self._add("slice", x, begin=(0, *begin[1:]), end=self._shape(x),
                         step=(1, *self.rng.integers(1, 3, 3).tolist()))

    def padded(self) -> str:
        zero = self.net.constant(np.array(0.5, np.float32))
        before, after = ([0, *self.rng.integers(0, 2, 3).tolist()] for _ in range(2))
        return self._add("pad", self._any_float(), zero, mode="constant", before=before,
                         after=after)

    def turned(self) -> str:
        perms = [(0, 2, 3, 1), (0, 3, 1, 2), (0, 3, 2, 1)]
        return self._add("transpose", self._any_float(), perm=perms[int(self.rng.integers(3))])

    def pooled(self) -> str:
        """NCHW, and nothing else."""
        return self._add("upsample", self._any_float(), factors=(1, 2))
