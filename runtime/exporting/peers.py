"""Layers with products for other simulators of accelerators, so that these can be run beside.

``scalesim``  the layers as the topology CSV of SCALE-Sim, which has images, filters and one stride.
              What it does not say becomes several lines: one for each image, group of channels or
              product of a batch; paddings are part of the image. Pixels that no window sees are
              left out, since SCALE-Sim would count a window more for them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from compiler.errors import ArgumentError
from compiler.graph.graph import Graph, Node
from compiler.ops.registry import find

CONVOLUTIONS = ("conv2d", "qconv2d", "qconv2d_add")
MATRICES = ("dense", "qdense", "qdense_add", "matmul", "qmatmul")
OTHERS = ("convtranspose2d", "qconvtranspose2d", "conv", "einsum")
"""Operators with products that are no layers of those simulators."""

HEADINGS = ("Layer name", "IFMAP Height", "IFMAP Width", "Filter Height", "Filter Width",
            "Channels", "Num Filter", "Strides")


@dataclass(frozen=True, slots=True)
class ProductLayer:
    """A convolution of an image, or a product of matrices as one of 1 x 1 pixels.

    `height` and `width` are those of the input with its padding, `channels` and `filters` those of
    a group; all is done `times` times, for images, groups and leading dimensions.
    """

    name: str
    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    channels: int
    filters: int
    times: int = 1

    @property
    def outputs(self) -> tuple[int, int]:
        """Rows and columns of the output."""
        return ((self.height - self.kernel[0]) // self.strides[0] + 1,
                (self.width - self.kernel[1]) // self.strides[1] + 1)

    @property
    def seen(self) -> tuple[int, int]:
        """Rows and columns of the input that some window sees."""
        rows, columns = ((count - 1) * step + size for count, step, size in zip(
            self.outputs, self.strides, self.kernel, strict=True))
        return rows, columns

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return (self.times * prod(self.outputs) * prod(self.kernel) * self.channels
                * self.filters)


def product_layers(graph: Graph) -> list[ProductLayer]:
    """The layers with products, in order. Raises ArgumentError for one that has no such form."""
    return [_layer(graph, node) for node in graph.nodes
            if node.op in (*CONVOLUTIONS, *MATRICES, *OTHERS)]


def _layer(graph: Graph, node: Node) -> ProductLayer:
    if node.op in OTHERS:
        raise ArgumentError(f"a layer with products must be a convolution of images or a product "
                            f"of matrices, not {node.op} ({node.name})")
    if node.op in CONVOLUTIONS:
        return _convolution(graph, node)
    return _product(graph, node)


def _convolution(graph: Graph, node: Node) -> ProductLayer:
    (images, channels, height, width), (filters, depth, *kernel) = _factors(graph, node)
    if any(step > 1 for step in node.attrs.get("dilations", ())):
        raise ArgumentError(f"dilations must be 1, not {node.attrs['dilations']} ({node.name})")
    top, left, bottom, right = node.attrs["pads"]
    groups = channels // depth
    return ProductLayer(node.name, height + top + bottom, width + left + right,
                        (kernel[0], kernel[1]), node.attrs["strides"], depth, filters // groups,
                        images * groups)


def _product(graph: Graph, node: Node) -> ProductLayer:
    """Rows are pixels. A weight is the same for all of them; of two matrices that are computed,
    each leading place has its own product.
    """
    left, right = _factors(graph, node)
    columns = graph.values[node.outputs[0]].shape[-1]
    rows, times = prod(left[:-1]), 1
    if len(right) > 2:
        times = prod(graph.values[node.outputs[0]].shape[:-2])
        rows = left[-2]
    return ProductLayer(node.name, rows, 1, (1, 1), (1, 1), left[-1], columns, times)


def _factors(graph: Graph, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of what a product multiplies: its first input, and a weight behind its data."""
    weight = node.inputs[find(node.op).data_inputs or 1]
    return graph.values[node.inputs[0]].shape, graph.values[weight].shape


def scalesim(graph: Graph) -> str:
    """The topology CSV of SCALE-Sim. Raises ArgumentError for strides that differ."""
    lines = [", ".join(HEADINGS) + ","]
    for layer in product_layers(graph):
        if layer.strides[0] != layer.strides[1]:
            raise ArgumentError(f"strides must be equal for scalesim, not {layer.strides} "
                                f"({layer.name})")
        lines += [_line(one) for one in _single(layer)]
    return "\n".join(lines) + "\n"


def _single(layer: ProductLayer) -> Iterator[ProductLayer]:
    if layer.times == 1:
        yield layer
        return
    yield from (replace(layer, name=f"{layer.name}.{number}", times=1)
                for number in range(layer.times))


def _line(layer: ProductLayer) -> str:
    """A line of the file. SCALE-Sim repeats layers whose names have DP, and cuts at commas."""
    name = layer.name.replace(",", ";").replace("DP", "dp")
    return ", ".join(map(str, (name, *layer.seen, *layer.kernel, layer.channels,
                               layer.filters, layer.strides[0]))) + ","
