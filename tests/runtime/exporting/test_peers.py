"""Layers with products for other simulators: their figures, and what these cannot have."""

import pytest

from compiler.errors import ArgumentError
from runtime.exporting.peers import product_layers, scalesim
from tests.support.integer_graphs import Net

HEAD = ("Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, "
        "Strides,\n")


def test_layers_with_their_padding() -> None:
    net = Net(4)
    x = net.input(1, 8, 10, 12)
    y = net.conv(x, 12, (3, 5), pads=(1, 2, 0, 3), strides=(2, 2))
    graph = net.graph(net.dense(net.flatten(net.average(y)), 6))
    assert scalesim(graph) == HEAD + ("qconv2d_0, 11, 17, 3, 5, 8, 12, 2,\n"
                                      "qdense_3, 1, 1, 1, 1, 12, 6, 1,\n")
    conv, dense = product_layers(graph)
    assert conv.outputs == (5, 7) and conv.macs == 5 * 7 * 3 * 5 * 8 * 12 and dense.macs == 72


def test_products_that_meet_residuals() -> None:
    net = Net(4)
    x = net.input(1, 8, 6, 6)
    y = net.flatten(net.average(net.conv(x, 8, (1, 3), pads=(0, 1, 0, 1), met=x)))
    assert scalesim(net.graph(net.dense(y, 8, met=y))) == HEAD + (
        "qconv2d_add_0, 6, 8, 1, 3, 8, 8, 1,\nqdense_add_3, 1, 1, 1, 1, 8, 8, 1,\n")


def test_images_and_groups_are_lines_of_their_own() -> None:
    net = Net(4)
    x = net.input(2, 8, 6, 6)
    graph = net.graph(net.conv(x, 16, (3, 3), group=4))
    assert scalesim(graph) == HEAD + "".join(
        f"qconv2d_0.{number}, 6, 6, 3, 3, 2, 4, 1,\n" for number in range(8))
    layer, = product_layers(graph)
    assert layer.macs == 2 * 16 * 16 * 9 * 2


def test_pixels_that_no_window_sees_are_left_out() -> None:
    net = Net(4)
    graph = net.graph(net.conv(net.input(1, 4, 8, 9), 4, (1, 1), strides=(2, 2)))
    assert scalesim(graph) == f"{HEAD}qconv2d_0, 7, 9, 1, 1, 4, 4, 2,\n"


@pytest.mark.parametrize(("attrs", "message"), [
    ({"strides": (1, 2)}, r"strides must be equal for scalesim, not \(1, 2\) \(qconv2d_0\)"),
    ({"dilations": (2, 2)}, r"dilations must be 1, not \(2, 2\) \(qconv2d_0\)")])
def test_what_others_do_not_have_is_refused(attrs: dict, message: str) -> None:
    net = Net(4)
    graph = net.graph(net.conv(net.input(1, 4, 8, 8), 4, (3, 3), **attrs))
    with pytest.raises(ArgumentError, match=f"^{message}$"):
        scalesim(graph)
