"""Small integer networks for tests, and the accelerator's answer to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.mapping.memory.layout import from_memory, to_memory
from accel.mapping.target import AccelTarget
from accel.sim.rtl import verilated
from accel.sim.slice import simulator
from accel.sim.timed import cycle
from accel.sim.meaning.functional import simulate
from compiler.graph import Graph, Node, TensorType, evaluate, infer, verify
from compiler.ops.records.windows import window_shape

Array = np.ndarray

CLAMPS = ((3, -128, 127), (-5, -5, 127), (0, -100, 90))


@dataclass
class Net:
    """Writes a graph node by node; every method returns the name of the value that it makes.

    Weights, of `weight_bits`, and parameters are random: multipliers and shifts are such that
    results spread over the whole range of `element`s, and differ from channel to channel. Weights
    of more than 8 bits are int16. With `slopes` products have a multiplier of their own below zero.
    """

    seed: int = 1
    weight_bits: int = 8
    element: str = "int8"
    slopes: bool = False
    inputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.limits = np.iinfo(self.element)
        self.steps = (self.limits.max + 1) // 128       # of a step of int8

    def input(self, *shape: int, name: str = "x", dtype: str = "") -> str:
        self.inputs.append(name)
        self.values[name] = TensorType(shape, dtype or self.element)
        return name

    def constant(self, array: Array) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = array
        self.values[name] = TensorType.of(array)
        return name

    def add_node(self, op: str, *inputs: str, **attrs) -> str:
        name = f"{op}_{len(self.nodes)}"
        node = Node(op, name, inputs, (f"{name}.out",), attrs)
        self.values[f"{name}.out"] = infer(node, [self.values[value] for value in inputs])
        self.nodes.append(node)
        return f"{name}.out"

    def _clamp(self) -> dict[str, int]:
        zp, lo, hi = CLAMPS[len(self.nodes) % len(CLAMPS)]
        return {"zp": zp, "lo": lo * self.steps, "hi": hi * self.steps}

    def _products(self, op: str, x: str, shape: tuple[int, ...], met: str = "", **attrs) -> str:
        channels, taps = shape[0], int(np.prod(shape[1:]))
        most = 1 << self.weight_bits - 1
        scale = 60 / (74 * 74 * most / 128 * np.sqrt(taps))     # 74: deviation of a random int8
        mult = self.rng.integers(1 << 15, 1 << 16, channels).astype(np.int32)
        shift = np.full(channels, round(np.log2(50000 / scale)), np.int32)
        bias = self.rng.integers(-int(20 / scale), int(20 / scale) + 1, channels) * self.steps
        weights = self.rng.integers(-most, most, shape).astype(
            np.int8 if self.weight_bits <= 8 else np.int16)
        parameters = [weights, bias.astype(np.int32), mult, shift]
        if self.slopes:         # below the others, or a multiplier of 0
            parameters += [np.where(self.rng.random(channels) < 0.2, 0, mult // 2 + (1 << 14)
                                    ).astype(np.int32), shift + self.rng.integers(
                                        1, 5, channels).astype(np.int32)]
        data = [x]
        if met:                 # with half the weight of the products, about
            op, data = f"{op}_add", [x, met]
            parameters.append(self.rng.integers(0, int(1 / scale) + 1, channels).astype(np.int16))
        return self.add_node(op, *data, *map(self.constant, parameters), **attrs, **self._clamp())

    def conv(self, x: str, channels: int, kernel=(3, 3), strides=(1, 1), pads=(0, 0, 0, 0),
             pad_value: int = 0, group: int = 1, **spread) -> str:
        """`spread`: perhaps dilations, and what `met` the sums."""
        return self._products("qconv2d", x, self._kernel(x, channels, kernel, group),
                              strides=strides, pads=pads, pad_value=pad_value, group=group,
                              **spread)

    def conv_transpose(self, x: str, channels: int, kernel=(2, 2), strides=(2, 2),
                       pads=(0, 0, 0, 0), pad_value: int = 0, group: int = 1, **spread) -> str:
        """`spread`: perhaps dilations and output_padding."""
        return self._products("qconvtranspose2d", x, self._kernel(x, channels, kernel, group),
                              strides=strides, pads=pads, pad_value=pad_value, group=group,
                              **spread)

    def _kernel(self, x: str, channels: int, kernel, group: int) -> tuple[int, ...]:
        return channels, self.values[x].shape[1] // group, *kernel

    def dense(self, x: str, channels: int, met: str = "") -> str:
        return self._products("qdense", x, (channels, self.values[x].shape[-1]), met)

    def max_pool(self, x: str, kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0)) -> str:
        return self.add_node("qmaxpool", x, kernel=kernel, strides=strides, pads=pads)

    def average_pool(self, x: str, kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0),
                     pad_value: int = 0, pixelwise: bool = False) -> str:
        """Another multiplier for each window where `pixelwise`."""
        area = int(np.prod(kernel))
        size = window_shape(self.values[x].shape[2:], kernel, strides, pads)
        size = size if pixelwise else (1, 1)
        mult = self.rng.integers(1 << 15, 1 << 16, size).astype(np.int32)
        shift = np.full(size, 15 + int(np.ceil(np.log2(area))), np.int32)
        return self.add_node("qavgpool", x, *map(self.constant, (mult, shift)), kernel=kernel,
                             strides=strides, pads=pads, pad_value=pad_value, bias=5 * area,
                             **self._clamp())

    def average(self, x: str) -> str:
        pixels = int(np.prod(self.values[x].shape[2:]))
        shift = 15 + int(np.ceil(np.log2(pixels)))
        return self.add_node("qglobalavgpool", x, bias=7 * pixels, shift=shift,
                             mult=min(round((1 << shift) / pixels), 65535), **self._clamp())

    def rescale(self, x: str) -> str:
        return self.add_node("qrescale", x, bias=-9, mult=45678, shift=15, **self._clamp())

    def affine(self, x: str, axis: int = 1, factors: tuple[int, int] | None = None) -> str:
        """`factors`: the least and the greatest one."""
        count, wide = self.values[x].shape[axis], 127 if factors else 1
        bias = self.rng.integers(-90, 90, count) * self.steps * wide
        parameters = [bias.astype(np.int32),
                      self.rng.integers(1 << 15, 1 << 16, count).astype(np.int32),
                      np.full(count, 23 if factors else 16, np.int32)]
        if factors:
            parameters.append(self.rng.integers(*factors, count, endpoint=True).astype(np.int8))
        return self.add_node("qaffine", x, *map(self.constant, parameters), axis=axis,
                             **self._clamp())

    def add(self, x: str, y: str) -> str:
        return self.add_node("qadd", x, y, ma=40000, mb=23456, c=12345, shift=16, **self._clamp())

    def matmul(self, a: str, b: str, trans_b: bool = False, zeros: tuple[int, int] = (0, 0)) -> str:
        depth = self.values[a].shape[-1]
        return self.add_node("qmatmul", a, b, trans_b=int(trans_b), a_zp=zeros[0], b_zp=zeros[1],
                             bias=0, mult=50000,
                             shift=round(np.log2(50000 * 74 * 74 * np.sqrt(depth) / 60)),
                             **self._clamp())

    def transpose(self, x: str, *perm: int) -> str:
        return self.add_node("transpose", x, perm=perm)

    def reshape(self, x: str, *shape: int) -> str:
        return self.add_node("reshape", x, shape=shape)

    def leaky_relu(self, x: str) -> str:
        return self.add_node("qleakyrelu", x, bias=-9, mult=45678, shift=15, mult_below=40000,
                             shift_below=18, zp=-5, lo=-100 * self.steps, hi=90 * self.steps)

    def concat(self, *parts: str) -> str:
        return self.add_node("qconcat", *parts,
                             bias=self.rng.integers(-20, 20, len(parts)).tolist(),
                             mult=self.rng.integers(1 << 15, 1 << 16, len(parts)).tolist(),
                             shift=self.rng.integers(15, 17, len(parts)).tolist(),
                             **self._clamp())

    def upsample(self, x: str, rows: int, columns: int) -> str:
        return self.add_node("upsample", x, factors=(rows, columns))

    def slice(self, x: str, *sides: tuple[int, int, int]) -> str:
        """Slices the first axes by (begin, end, step) and keeps the others whole."""
        rest = [(0, extent, 1) for extent in self.values[x].shape[len(sides):]]
        names = ("begin", "end", "step")
        return self.add_node("slice", x, **dict(zip(names, zip(*sides, *rest, strict=True),
                                                    strict=True)))

    def flatten(self, x: str) -> str:
        shape = self.values[x].shape
        return self.add_node("reshape", x, shape=(shape[0], int(np.prod(shape[1:]))))

    def graph(self, *outputs: str) -> Graph:
        return verify(Graph("net", tuple(self.inputs), outputs, tuple(self.nodes), self.values,
                            self.constants))

    def samples(self) -> dict[str, Array]:
        """A random array for every input."""
        return {name: self.rng.integers(self.limits.min, self.limits.max + 1,
                                        self.values[name].shape).astype(self.values[name].dtype)
                for name in self.inputs}


def sums() -> tuple[Graph, dict[str, Array]]:
    """Products in planes that are joined, and samples: of images with pads, of so many channels
    that float32 does not hold sums at their ends, of rows, of computed matrices.
    """
    net = Net()

    def joined(op: str, *inputs: str, axis: int, **attrs) -> str:
        return net.add_node("joined_planes", net.add_node(op, *inputs, planes=4, **attrs),
                            axis=axis, planes=4)

    def weight(*shape: int) -> str:
        return net.constant(net.rng.integers(-128, 128, shape).astype(np.int8))

    image, deep = net.input(1, 64, 12, 12, name="image"), net.input(1, 600, 2, 2, name="deep")
    left, right = net.input(2, 9, 20, name="left"), net.input(2, 20, 17, name="right")
    window = {"strides": (1, 1), "pads": (1, 1, 1, 1)}
    graph = net.graph(
        joined("qconv2d", image, weight(65, 64, 3, 3), axis=1, pad_value=-77, **window),
        joined("qconv2d", image, weight(64, 1, 3, 3), axis=1, pad_value=0, group=64, **window),
        joined("qconv2d", deep, net.constant(np.full((3, 600, 1, 1), 127, np.int8)), axis=1,
               strides=(1, 1), pads=(0, 0, 0, 0), pad_value=-128),
        joined("qdense", left, weight(19, 20), axis=2),
        joined("qmatmul", left, right, axis=2, trans_b=0, a_zp=-128, b_zp=7))
    return graph, net.samples() | {"deep": np.full((1, 600, 2, 2), 126, np.int8)}


def run_program(machine: Machine, program: AccelProgram, inputs: Mapping[str, Array],
                run=simulate) -> dict[str, Array]:
    """Outputs in the network's shapes, of a program whose inputs are plain."""
    return _outputs(program, _executed(machine, program, inputs, run))


def _executed(machine: Machine, program: AccelProgram, inputs: Mapping[str, Array], run) -> Run:
    result = run(machine, program, program.image(
        {slot.name: to_memory(inputs[slot.name], slot.layout) for slot in program.inputs}))
    assert result.ok, result.describe()
    return result


def _outputs(program: AccelProgram, result: Run) -> dict[str, Array]:
    return {slot.name: from_memory(program.extract(result.memory, slot.name), slot.layout,
                                   slot.logical) for slot in program.outputs}


def assert_right(machine: Machine, graph: Graph, inputs: Mapping[str, Array],
                 threads: int = 2) -> AccelProgram:
    """The compiled graph gives what the reference says, to the bit."""
    program = AccelTarget(machine, threads).compile(graph).program
    found, wanted = run_program(machine, program, inputs), evaluate(graph, inputs)
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, f"{name} of\n{graph}")
    return program


def assert_simulators_agree(machine: Machine, program: AccelProgram,
                            samples: Mapping[str, Array]) -> None:
    """The RTL, and the cycle simulator or else the slice of the RTL, make of the program what the
    functional simulator does, in the same cycles."""
    wanted = run_program(machine, program, samples)
    fast = cycle.simulate if cycle.models(machine) else simulator.simulate
    runs = [_executed(machine, program, samples, run) for run in (fast, verilated.simulate)]
    for one in runs:
        found = _outputs(program, one)
        for output, array in wanted.items():
            np.testing.assert_array_equal(found[output], array)
    assert runs[0].cycles == runs[1].cycles
