"""Images of float32 and of int8 in blocks of channels (`compiler.ops.packed.channel_blocks`), where
they are convolved.

A convolution with constant weights computes on blocks, its weights packed, and so does a transposed
one whose windows lie apart, as a convolution for each place of its kernel. What reads the result
goes on in blocks as far as it can say the same there: elementwise operators, pools, global
averages, concatenations of whole blocks. Everything else gets the image back as it was.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.lowering.block_constants import (PACKINGS, channels_of, image_of, joined,
                                                     nearest, numbers_of_channels, vector_of)
from compiler.graph.lowering.block_convolutions import FEW, is_convolution, is_spread, skips
from compiler.graph.lowering.integers import Integers
from compiler.graph.lowering.winograd import Convolution, Sizes, best_size
from compiler.graph.reference import evaluate_node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.packed import channel_blocks as blocks
from compiler.ops.packed.integer_winograd import fits_tiles, tiles_weight
from compiler.ops.packed.quantized_blocks import for_sums, for_sums_met, grouped_columns
from compiler.ops.packed.winograd import KERNEL, SIZES, winograd_weight
from compiler.ops.records.blocks import LANES, blocks_of
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find

STORED = ("float32", "int8")
WINDOW = ("strides", "pads", "dilations", "group")


@dataclass(frozen=True, slots=True)
class BlockChannels:
    """conv2d(image [N,C,H,W]) -> conv2d_blocks(image [N,C/16,H,W,16]), and what reads it.

    Before: any graph. After: the same values of inputs and outputs; convolutions of images of these
    types, of float32 and int8, compute on blocks, of float32 by Winograd's products where `sizes`
    says so. Weights of int8 are stored as `integers` says. The graph itself where there are none.
    """

    sizes: Sizes = best_size
    dtypes: Collection[str] = STORED
    integers: Integers = Integers()
    name: ClassVar[str] = "block-channels"

    def __call__(self, graph: Graph) -> Graph:
        if not any(is_convolution(graph, node, self.dtypes)
                   or is_spread(graph, node, self.dtypes) or node.op == "qconv2d_add"
                   for node in graph.nodes):
            return graph
        return _Blocking(graph, self.sizes, self.dtypes, self.integers).run()


@dataclass(slots=True)
class _Blocking:
    graph: Graph
    sizes: Sizes
    dtypes: Collection[str]
    integers: Integers
    builder: Builder = field(init=False)
    blocked: dict[str, str] = field(default_factory=dict)
    """The value in blocks, of each that has such a form."""
    rest: dict[str, float] = field(default_factory=dict)
    """What lanes that are no channel hold, of values in blocks that have such lanes."""
    plain: set[str] = field(default_factory=set)
    """Values that are there as they were."""

    def __post_init__(self):
        self.builder = Builder.like(self.graph)
        self.plain.update(self.graph.inputs, self.graph.constants)

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if not (is_convolution(self.graph, node, self.dtypes) and self._convolution(node)
                    or node.op == "qconv2d_add" and self._met(node)
                    or is_spread(self.graph, node, self.dtypes) and self._spread(node)
                    or any(value in self.blocked for value in node.inputs)
                    and (self._elementwise(node) or self._formed(node))):
                for value in node.inputs:
                    self._as_it_was(value)
                self.builder.add(node)
                self.plain.update(node.outputs)
        for value in self.graph.outputs:
            self._as_it_was(value)
        return eliminate_dead_code(self.builder.finish(self.graph.outputs))

    # Operators

    def _convolution(self, node: Node) -> bool:
        weight, *vectors = (self.graph.constants[value] for value in node.inputs[1:])
        x, group, attrs = node.inputs[0], node.attrs.get("group", 1), _window(node.attrs)
        is_depthwise = group == len(weight) and weight.shape[1] == 1 and group > 1
        if size := self._word_tiles(node, weight):
            return self._by_word_tiles(node, (x,), size, weight, vectors)
        if not is_depthwise:
            weight = self.integers.stored(weight)
        vectors = numbers_of_channels(weight, vectors)
        if vectors is None:
            return False
        vectors, near = nearest(weight, vectors, self.integers.fused)
        if group > 1 and FEW <= weight.shape[1] < LANES:
            weight, group = joined(weight, group)
            attrs["group"] = group
        is_real = weight.dtype == np.float32 and not attrs.get("whole")
        size = is_real and self.sizes(Convolution.of(
            attrs, weight.shape, self.graph.values[node.outputs[0]].shape))
        if size:
            self._by_tiles(node, size, weight, vectors)
            return True
        packing = PACKINGS[weight.dtype.name]
        apart = group > 1 or attrs.get("dilations", (1, 1))[1] > 1
        if is_depthwise:
            op, packed, source = packing.depthwise, blocks.packed_depthwise(weight), self._in(x)
            del attrs["group"]
        elif weight.shape[1] <= FEW and x not in self.blocked:
            op, packed, source = packing.stem, packing.few(weight, apart), x
        else:
            op, packed, source = packing.plain, packing.many(weight, apart), self._in(x)
            if weight.dtype == np.float32 and skips(attrs, weight.shape):
                source = self._kept(source, attrs)
                attrs["strides"] = (1, 1)
        constants = [self._constant(value, array) for value, array in zip(
            node.inputs[1:], [packed, *map(vector_of, vectors)], strict=False)]
        self._define(node, op, [source, *constants], {**attrs, **near}, _outside(attrs))
        return True

    def _met(self, node: Node) -> bool:
        """A convolution whose sums meet a residual; False where groups or sums are no bytes'."""
        x, residual, *constants = node.inputs
        product = replace(node, op="qconv2d", inputs=(x, *constants[:4]))
        if not is_convolution(self.graph, product, self.dtypes) or node.attrs.get("group", 1) > 1:
            return False
        weight, *vectors = (self.graph.constants[value] for value in constants)
        if size := self._word_tiles(product, weight):
            return self._by_word_tiles(node, (x, residual), size, weight, vectors)
        weight = self.integers.stored(weight)
        found = for_sums_met(weight, *vectors)
        if found is None:
            return False
        found, near = nearest(weight, found, self.integers.fused)
        attrs, packing = {**_window(node.attrs), **near}, PACKINGS[weight.dtype.name]
        arrays = [packing.many(weight, attrs.get("dilations", (1, 1))[1] > 1),
                  *map(vector_of, found)]
        packed = [self._constant(value, array)
                  for value, array in zip(constants, arrays, strict=False)]
        self._define(node, "qconv2d_add_blocks", [self._in(x), self._in(residual), *packed],
                     attrs, _outside(attrs))
        return True

    def _kept(self, source: str, attrs: Mapping) -> str:
        """The pixels of an image in blocks that a convolution sees, side by side."""
        shape = self.builder.values[source].shape
        return self._emit("slice", source, [source], begin=(0,) * 5, end=shape,
                          step=(1, 1, *attrs["strides"], 1))

    def _by_tiles(self, node: Node, size: int, weight: np.ndarray,
                  bias: Sequence[np.ndarray]) -> None:
        """A convolution by Winograd's products: a group for each element of a tile."""
        value, x, pads = node.outputs[0], self._in(node.inputs[0]), node.attrs["pads"]
        outputs, inputs, *_ = weight.shape
        n, _, height, width = self.graph.values[value].shape
        count, depth, square = blocks_of(outputs), blocks_of(inputs), (size + KERNEL - 1) ** 2
        wide = np.zeros((count * LANES, *weight.shape[1:]), np.float32)
        wide[:outputs] = weight
        packed = self._constant(node.inputs[1], blocks.packed_weight(winograd_weight(wide, size)))
        tiles = self._emit("winograd_tiles", value, [x], size=size, pads=pads)
        rows, columns = -(-height // size), -(-width // size)
        grouped = self._emit("reshape", value, [tiles],
                             shape=(n, square * depth, rows, columns, LANES))
        sums = self.builder.add(Node(
            "conv2d_blocks", node.name, (grouped, packed), (self.builder.fresh(f"{value}.sums"),),
            {"strides": (1, 1), "pads": (0, 0, 0, 0), "group": square}))
        apart = self._emit("reshape", value, [sums], shape=(
            n, size + KERNEL - 1, size + KERNEL - 1, count, rows, columns, LANES))
        self.blocked[value] = self._emit(
            "winograd_image", value,
            [apart, *(self._constant(name, vector_of(array))
                      for name, array in zip(node.inputs[2:], bias, strict=True))],
            size=size, shape=(height, width))
        if outputs % LANES:
            self.rest[value] = 0.0

    def _word_tiles(self, node: Node, weight: np.ndarray) -> int:
        """The size of tiles with which a convolution of int8 takes least time by Winograd's
        products of words; 0 where its own take less, or these do not give it exactly.
        """
        if not self.integers.words or weight.dtype != np.int8:
            return 0
        window = {name: number for name, number in _window(node.attrs).items() if name in WINDOW}
        return self.sizes(Convolution.of(
            window, weight.shape, self.graph.values[node.outputs[0]].shape, "int8",
            [size for size in SIZES if fits_tiles(weight, size)]))

    def _by_word_tiles(self, node: Node, data: Sequence[str], size: int, weight: np.ndarray,
                       vectors: Sequence[np.ndarray]) -> bool:
        """A convolution of int8 by Winograd's products, a matrix for each element of a tile, and
        perhaps a residual that its sums meet.
        """
        words = weight.astype(np.int16)
        found = (for_sums_met if len(data) > 1 else for_sums)(words, *vectors)
        if found is None:
            return False
        found, near = nearest(words, found, self.integers.fused)
        value, (x, *residual), attrs = node.outputs[0], map(self._in, data), node.attrs
        n, outputs, height, width = self.graph.values[value].shape
        count, depth = blocks_of(outputs), blocks_of(weight.shape[1])
        rows, columns, reach = -(-height // size), -(-width // size), size + KERNEL - 1
        wide = np.zeros((count * LANES, depth * LANES, *weight.shape[2:]), np.int8)
        wide[:outputs, :weight.shape[1]] = weight
        name, *others = node.inputs[len(data):]
        packed = self._constant(name, np.stack([grouped_columns(matrix)
                                                for matrix in tiles_weight(wide, size)]))
        tiles = self._emit("qwinograd_tiles", value, [x], size=size, pads=attrs["pads"],
                           pad_value=attrs["pad_value"])
        matrices = self._emit("reshape", value, [tiles],
                              shape=(reach ** 2, n * rows * columns, depth * LANES))
        sums = self.builder.add(Node("grouped_matmul", node.name, (matrices, packed),
                                     (self.builder.fresh(f"{value}.sums"),), {}))
        apart = self._emit("reshape", value, [sums],
                           shape=(reach, reach, n, rows, columns, count, LANES))
        ends = {key: attrs[key] for key in ("zp", "lo", "hi", "fine") if key in attrs}
        self.blocked[value] = self._emit(
            f"qwinograd_image{'_add' * len(residual)}", value,
            [apart, *residual, *(self._constant(name, vector_of(array))
                                 for name, array in zip(others, found, strict=False))],
            size=size, shape=(height, width), **ends, **near)
        if outputs % LANES:
            self.rest[value] = _outside(ends)
        return True

    def _spread(self, node: Node) -> bool:
        """A convolution of each pixel into all of its kernel's places, which then come to lie
        between each other.
        """
        weight, *vectors = (self.graph.constants[value] for value in node.inputs[1:])
        weight = self.integers.stored(weight)
        if node.op == "convtranspose2d":
            weight = weight.transpose(1, 0, 2, 3)
        attrs, packing = _window(node.attrs), PACKINGS[weight.dtype.name]
        outputs, inputs, kh, kw = weight.shape
        count, value = blocks_of(outputs), node.outputs[0]
        wide = np.zeros((kh, kw, count * LANES, inputs), weight.dtype)
        wide[:, :, :outputs] = weight.transpose(2, 3, 0, 1)
        vectors = [np.tile(vector_of(array), (kh * kw, 1)).reshape(-1) for array in vectors]
        if attrs.get("pad_value"):          # which stands at all other places of a window
            sums = wide.astype(np.int64).sum(axis=3)
            others = attrs["pad_value"] * (sums.sum(axis=(0, 1)) - sums)
            vectors[0] = vectors[0] + others.reshape(-1)
        packed = wide.reshape(-1, inputs, 1, 1)
        vectors = numbers_of_channels(packed, vectors)
        if vectors is None:
            return False
        vectors, near = nearest(packed, vectors, self.integers.fused)
        constants = [self._constant(name, array) for name, array in zip(
            node.inputs[1:], [packing.many(packed, False), *map(vector_of, vectors)], strict=False)]
        n, _, h, w = self.graph.values[node.inputs[0]].shape
        attrs = {**{name: number for name, number in attrs.items()
                    if name not in ("output_padding", "dilations", "group")},
                 "strides": (1, 1), "pads": (0, 0, 0, 0), **near}
        places = self.builder.add(Node(
            packing.plain, node.name, (self._in(node.inputs[0]), *constants),
            (self.builder.fresh(f"{value}.places"),), attrs))
        apart = self._emit("reshape", value, [places], shape=(n, kh, kw, count, h, w, LANES))
        between = self._emit("transpose", value, [apart], perm=(0, 3, 4, 1, 5, 2, 6))
        self.blocked[value] = self._emit("reshape", value, [between],
                                         shape=(n, count, h * kh, w * kw, LANES))
        if outputs % LANES:
            self.rest[value] = _outside(attrs)
        return True

    def _elementwise(self, node: Node) -> bool:
        """An operator on elements, whose inputs are images in blocks, constants and single numbers.
        """
        values, operator = self.graph.values, find(node.op)
        shape = values[node.outputs[0]].shape
        if operator.kind is not Kind.ELEMENTWISE or operator.data_inputs is not None or any(
                values[value].dtype not in STORED for value in (*node.inputs, *node.outputs)):
            return False
        if len(shape) != 4 or any(
                value not in self.graph.constants and prod(values[value].shape) > 1
                and (len(values[value].shape) != 4 or values[value].shape[1] != shape[1])
                for value in node.inputs):
            return False
        filled = self._filled(node, shape[1])
        if filled is None:
            return False
        inputs, rest = filled
        self._define(node, node.op, inputs, dict(node.attrs), rest)
        return True

    def _filled(self, node: Node, channels: int) -> tuple[list[str], float] | None:
        """The inputs in blocks, and what the result has in lanes that are no channel, a finite
        number; None where there is none.
        """
        constants = {value: self.graph.constants[value] for value in node.inputs
                     if value in self.graph.constants}
        whole = channels % LANES == 0
        if not whole and any(self._is_single(value, channels) for value in node.inputs):
            return None         # those lanes would hold what only the run knows
        if any(array.ndim > 4 or channels_of(array) not in (1, channels)
               or not whole and array.size > 1 and channels_of(array) == 1
               for array in constants.values()):
            return None         # with a number for each pixel those lanes would differ
        for neutral in (0.0, 1.0):
            numbers = [self.rest.get(value, 0.0) if value not in constants else
                       neutral if channels_of(constants[value]) > 1 else
                       constants[value].reshape(-1)[0] for value in node.inputs]
            rest = float(evaluate_node(node, [
                np.array(number, self.graph.values[value].dtype)
                for value, number in zip(node.inputs, numbers, strict=True)]))
            if whole or np.isfinite(rest):
                return [self._operand(value, neutral, channels) for value in node.inputs], rest
        return None

    def _is_single(self, value: str, channels: int) -> bool:
        """True for a number of the run that all channels read: not for an image of one pixel whose
        one channel meets another's."""
        shape = self.graph.values[value].shape
        return value not in self.graph.constants and prod(shape) == 1 and (
            len(shape) != 4 or channels > 1)

    def _operand(self, value: str, neutral: float, channels: int) -> str:
        array = self.graph.constants.get(value)
        if array is not None:
            return self._constant(value, array.reshape(1, 1, 1, 1, 1) if array.size == 1
                                  else image_of(array, neutral))
        return (self._as_it_was(value) if self._is_single(value, channels)
                else self._in(value))

    def _formed(self, node: Node) -> bool:
        """An operator whose record has a form on blocks."""
        operator, values = find(node.op), self.graph.values
        form, data = operator.blocks, node.inputs[:operator.data_inputs]
        attrs = form and form.attrs(node.attrs)
        if form is None or attrs is None or any(
                len(values[value].shape) != 4 or values[value].dtype not in STORED
                or form.whole and values[value].shape[1] % LANES for value in data):
            return False
        rest = max(self.rest.get(value, 0.0) for value in data)
        parameters = [self._as_it_was(value) for value in node.inputs[len(data):]]
        if form.vectors:
            rest = _outside(attrs)
            parameters = [self._constant(value, vector_of(self.graph.constants[value]))
                          for value in parameters]
        self._define(node, form.op, [*map(self._in, data), *parameters], dict(attrs), rest)
        return True

    # Values

    def _define(self, node: Node, op: str, inputs: Sequence[str], attrs: dict,
                rest: float) -> None:
        value = node.outputs[0]
        self.blocked[value] = self.builder.add(Node(
            op, node.name, tuple(inputs), (self.builder.fresh(f"{value}.blocks"),), attrs))
        if self.graph.values[value].shape[1] % LANES:
            self.rest[value] = rest

    def _constant(self, stem: str, array: np.ndarray) -> str:
        return self.builder.add_constant(self.builder.fresh(f"{stem}.blocks"), array)

    def _in(self, value: str) -> str:
        """The image in blocks."""
        if value not in self.blocked:
            n, c, h, w = self.graph.values[value].shape
            source, lanes = value, blocks_of(c) * LANES
            if lanes > c:
                zero = self._constant(value, np.zeros((), self.graph.values[value].dtype))
                source = self._emit("pad", value, [value, zero], mode="constant",
                                    before=(0, 0, 0, 0), after=(0, lanes - c, 0, 0))
                self.rest[value] = 0.0
            cut = self._emit("reshape", value, [source], shape=(n, lanes // LANES, LANES, h * w))
            pixels = self._emit("transpose", value, [cut], perm=(0, 1, 3, 2))
            self.blocked[value] = self._emit("reshape", value, [pixels],
                                             shape=(n, lanes // LANES, h, w, LANES))
        return self.blocked[value]

    def _as_it_was(self, value: str) -> str:
        if value not in self.plain:
            n, c, h, w = self.graph.values[value].shape
            lanes = blocks_of(c) * LANES
            last = value if lanes == c else self.builder.fresh(f"{value}.lanes")
            pixels = self._emit("reshape", value, [self.blocked[value]],
                                shape=(n, lanes // LANES, h * w, LANES))
            cut = self._emit("transpose", value, [pixels], perm=(0, 1, 3, 2))
            self.builder.emit("reshape", self.builder.fresh_node(f"{value}.image"), [cut], last,
                              shape=(n, lanes, h, w))
            if lanes > c:
                self.builder.emit("slice", self.builder.fresh_node(f"{value}.channels"), [last],
                                  value, begin=(0, 0, 0, 0), end=(n, c, h, w), step=(1, 1, 1, 1))
            self.plain.add(value)
        return value

    def _emit(self, op: str, stem: str, inputs: Sequence[str], **attrs: object) -> str:
        return self.builder.emit(op, self.builder.fresh_node(f"{stem}.{op}"), inputs,
                                 self.builder.fresh(f"{stem}.{op}"), **attrs)


def _window(attrs: Mapping) -> dict:
    """The attributes of the convolution, without the type of its sums."""
    return {name: number for name, number in attrs.items() if name != "sums"}


def _outside(attrs: Mapping) -> float:
    """The numbers that are left in lanes that are no channel where weights, or multipliers, are
    zero."""
    return float(min(max(attrs["zp"], attrs["lo"]), attrs["hi"])) if "zp" in attrs else 0.0
