"""Means of rows of matrices and of images: right to the bit, or refused."""

import numpy as np
import pytest

from accel.mapping.target import AccelTarget
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import MACHINES, TINY

NAMES = ("tiny-1x4x4", "2x8x8", "1x32x16")
CASES = [((1, 9, 10), (1,), 0), ((3, 5, 10), (1,), 1), ((7, 10), (0,), 1),
         ((2, 3, 4, 9), (1, 2), 0), ((2, 3, 4, 9), (2,), 1), ((2, 6, 4, 3), (2, 3), 0),
         ((2, 2, 3, 4, 5), (2, 3), 0)]


def mean(net: Net, x: str, axes: tuple[int, ...], keepdims: int) -> str:
    count = int(np.prod([net.values[x].shape[axis] for axis in axes]))
    shift = 15 + int(np.ceil(np.log2(count)))
    return net.add_node("qmean", x, axes=axes, keepdims=keepdims, bias=7 * count, shift=shift,
                        mult=min(round((1 << shift) / count), 65535), zp=3, lo=-100, hi=127)


@pytest.mark.one_in(7)
@pytest.mark.parametrize("machine, before, shape, axes, keepdims", [
    (machine, before, *case) for case in CASES for before in ("input", "rescale", "product")
    for machine in NAMES])
def test_means(machine: str, before: str, shape, axes, keepdims: int) -> None:
    net = Net(len(shape))
    x = net.input(*shape)
    if before == "rescale":
        x = net.rescale(x)
    elif before == "product":
        x = net.conv(x, 11, (1, 1)) if axes == (2, 3) and len(shape) == 4 else net.dense(x, 11)
    y = mean(net, x, axes, keepdims)
    rows = len(net.values[y].shape) != 4
    graph = net.graph(net.dense(y, 5), y) if rows else net.graph(y)
    assert_right(MACHINES[machine], graph, net.samples())


@pytest.mark.parametrize(("shape", "axes", "keepdims", "reason"), [
    ((2, 3, 4), (2,), 1, "it is a mean along axes (2,) of 3; the accelerator takes rows and "
                         "columns of images, or axes right before the last"),
    ((2, 3, 4), (0,), 1, "it is a mean along axes (0,) of 3; the accelerator takes rows and "
                         "columns of images, or axes right before the last"),
    ((3, 4), (0,), 0, "its result has 1 dimension; the accelerator takes 2 and more")])
def test_means_that_are_refused(shape, axes, keepdims: int, reason: str) -> None:
    net = Net(1)
    graph = net.graph(mean(net, net.input(*shape), axes, keepdims))
    assert AccelTarget(TINY).refusal(graph, graph.nodes[-1]) == reason


@pytest.mark.one_in(4)
@pytest.mark.parametrize("machine, shape", [
    (machine, shape) for shape in ((1, 9, 10), (2, 5, 16), (7, 10), (2, 3, 4, 9), (1, 1, 9))
    for machine in NAMES])
def test_a_constant_is_added(machine: str, shape: tuple[int, ...]) -> None:
    """An element for each of the other operand, kept with the weights."""
    net = Net(4)
    x = net.input(*shape)
    rows = len(shape) != 4
    x = net.dense(x, shape[-1]) if rows else net.conv(x, shape[1], (1, 1))
    k = net.constant(net.rng.integers(-128, 128, shape).astype(np.int8))
    y = net.add(net.add(x, k), net.add(k, x))
    assert_right(MACHINES[machine], net.graph(net.dense(y, 5) if rows else net.conv(y, 5, (1, 1))),
                 net.samples())
