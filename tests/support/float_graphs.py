"""Random float networks: chains, diamonds, residual sums, joins, several outputs."""

from collections.abc import Callable

import numpy as np

from compiler.graph import Builder, Graph, TensorType, verify

__all__ = ["FloatNet", "assert_near", "inputs_of", "random_graph"]

Array = np.ndarray
# Of a sum of float32 products in any order, and of what follows from it, in units of the values.
TOLERANCE = 2e-5


def inputs_of(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(graph.values[name].shape).astype(np.float32)
            for name in graph.inputs}


def assert_near(found: Array, wanted: Array) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    scale = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE * scale)


class FloatNet(Builder):
    """A network of images `x` of this shape; weights are drawn."""

    def __init__(self, *shape: int):
        super().__init__("net")
        self.rng = np.random.default_rng(0)
        self.add_input("x", TensorType(shape, "float32"))

    def constant(self, *shape: int) -> str:
        array = self.rng.standard_normal(shape).astype(np.float32)
        return self.add_constant(self.fresh("k"), array)

    def op(self, op: str, *inputs: str, **attrs: object) -> str:
        return self.emit(op, self.fresh_node(op), inputs, self.fresh(op), **attrs)

    def conv(self, x: str, outputs: int, kernel: int = 3, group: int = 1, stride: int = 1) -> str:
        weight = self.constant(outputs, self.values[x].shape[1] // group, kernel, kernel)
        return self.op("conv2d", x, weight, self.constant(outputs), strides=(stride, stride),
                       pads=(kernel // 2,) * 4, group=group)


def random_graph(seed: int, nodes: int = 12) -> Graph:
    """A network of so many operators or a few more. Its outputs are all values that nobody reads,
    and one that is read.
    """
    return _Writer(seed).write(nodes)


class _Writer:
    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.net = Builder(f"random{seed}")
        self.count = 0

    def write(self, nodes: int) -> Graph:
        rng, net = self.rng, self.net
        size = int(rng.integers(3, 20)), int(rng.integers(3, 40))
        shape = (int(rng.integers(1, 3)), int(rng.integers(1, 9)), *size)
        self.images = [net.add_input(f"x{i}", TensorType(shape, "float32"))
                       for i in range(int(rng.integers(1, 3)))]
        kinds: list[Callable[[str], str]] = [
            self.convolution, self.convolution, self.pool, self.unary, self.unary, self.unary,
            self.sum, self.sum, self.shifted, self.join, self.part, self.upsample, self.flattened,
            self.diamond]
        while len(net.nodes) < nodes:
            made = kinds[int(rng.integers(len(kinds)))](self.image())
            if len(net.values[made].shape) == 4 and np.prod(net.values[made].shape) < 40000:
                self.images.append(made)
        read = {value for node in net.nodes for value in node.inputs}
        made = [node.outputs[0] for node in net.nodes]
        ends = [value for value in made if value not in read]
        inner = [value for value in made if value in read]
        return verify(net.finish(dict.fromkeys([*ends, *inner[:1]])))

    def image(self) -> str:
        """One that was made lately, as a rule."""
        back = min(len(self.images), int(self.rng.geometric(0.5)))
        return self.images[-back]

    def emit(self, op: str, *inputs: str, **attrs) -> str:
        self.count += 1
        return self.net.emit(op, f"{op}{self.count}", inputs, f"v{self.count}", **attrs)

    def shape(self, value: str) -> tuple[int, ...]:
        return self.net.values[value].shape

    def constant(self, *shape: int, scale: float = 1.0) -> str:
        self.count += 1
        array = self.rng.standard_normal(shape).astype(np.float32) * np.float32(scale)
        return self.net.add_constant(f"k{self.count}", array)

    def convolution(self, x: str) -> str:
        """Depthwise, strided, padded on some sides, with a bias or without."""
        channels, kernel = self.shape(x)[1], int(self.rng.choice([1, 1, 3, 2]))
        kernel = min(kernel, *self.shape(x)[2:])
        group = channels if self.rng.random() < 0.3 else 1
        outputs = channels if group > 1 else int(self.rng.integers(1, 20))
        weight = self.constant(outputs, channels // group, kernel, kernel,
                               scale=(channels // group * kernel**2) ** -0.5)
        bias = [self.constant(outputs)] if self.rng.random() < 0.5 else []
        same = self.rng.random() < 0.6 and kernel % 2 == 1
        pads = [(kernel - 1) // 2] * 4 if same else self.rng.integers(0, kernel, 4).tolist()
        strides = (1, 1) if same else self.rng.integers(1, 3, 2).tolist()
        return self.emit("conv2d", x, weight, *bias, strides=strides, pads=pads, group=group)

    def pool(self, x: str) -> str:
        op = str(self.rng.choice(["maxpool", "avgpool", "globalavgpool"]))
        if op == "globalavgpool":
            return self.emit(op, x)
        more = {"include_pad": int(self.rng.integers(2))} if op == "avgpool" else {}
        return self.emit(op, x, kernel=(2, 2), strides=self.rng.integers(1, 3, 2).tolist(),
                         pads=self.rng.integers(0, 2, 4).tolist(), **more)

    def unary(self, x: str) -> str:
        match int(self.rng.integers(3)):
            case 0: return self.emit("relu", x)
            case 1: return self.emit("clip", x, lo=-1.5, hi=1.25)
            case _: return self.emit("leakyrelu", x, alpha=0.125)

    def sum(self, x: str) -> str:
        """Adds any image of the same shape, perhaps itself."""
        same = [one for one in self.images if self.shape(one) == self.shape(x)]
        return self.emit("add", x, same[int(self.rng.integers(len(same)))])

    def shifted(self, x: str) -> str:
        """Adds a number for each channel, which may have been computed."""
        other = self.emit("globalavgpool", x) if self.rng.random() < 0.5 else (
            self.constant(1, self.shape(x)[1], 1, 1))
        return self.emit("add", x, self.emit("relu", other))

    def diamond(self, x: str) -> str:
        y = self.unary(self.unary(x))
        return self.unary(self.emit("add", self.unary(y), self.unary(y)))

    def join(self, x: str) -> str:
        same = [one for one in self.images if self.shape(one)[2:] == self.shape(x)[2:]
                and self.shape(one)[0] == self.shape(x)[0]]
        return self.emit("concat", x, same[int(self.rng.integers(len(same)))], axis=1)

    def part(self, x: str) -> str:
        shape = self.shape(x)
        begin = [int(self.rng.integers(extent)) for extent in shape]
        step = [1, *self.rng.integers(1, 3, 3).tolist()]
        return self.emit("slice", x, begin=(0, *begin[1:]), end=shape, step=step)

    def upsample(self, x: str) -> str:
        return self.emit("upsample", x, factors=self.rng.integers(1, 3, 2).tolist())

    def flattened(self, x: str) -> str:
        """An image again, by way of a dense layer of all its pixels or of a reshape alone."""
        images, channels, rows, columns = self.shape(x)
        if self.rng.random() < 0.5:
            flat = self.emit("reshape", x, shape=(images, channels * columns, rows, 1))
            return self.emit("reshape", self.unary(flat), shape=(images, channels, columns, rows))
        flat = self.emit("reshape", x, shape=(images, channels * rows * columns))
        depth, outputs = self.shape(flat)[1], int(self.rng.integers(1, 9)) * 6
        turned = int(self.rng.integers(2))
        weight = self.constant(*((outputs, depth) if turned else (depth, outputs)),
                               scale=depth ** -0.5)
        made = self.unary(self.emit("dense", flat, weight, self.constant(outputs), trans_b=turned))
        return self.emit("reshape", made, shape=(images, outputs // 6, 2, 3))
