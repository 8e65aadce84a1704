"""Random graphs of layers and of operators that move values, divided between accelerator and host:
right to the bit, and no defect.
"""

from math import ceil, log2, prod
from random import Random

import pytest

from compiler.graph import Graph
from tests.support.divided import assert_divided_right
from tests.support.integer_graphs import Net
from tests.support.machines import MACHINES

KEPT = {"zp": 0, "lo": -128, "hi": 127}
MOST = 400          # elements of a value


def transposed(net: Net, x: str, rng: Random) -> str:
    return net.transpose(x, *rng.sample((axes := range(len(net.values[x].shape))), len(axes)))


def reshaped(net: Net, x: str, rng: Random) -> str:
    """Two dimensions together, or one of one element more or less."""
    shape = net.values[x].shape
    place = rng.randrange(len(shape))
    if rng.random() < 0.5 and len(shape) > 1:
        place = min(place, len(shape) - 2)
        return net.reshape(x, *shape[:place], shape[place] * shape[place + 1], *shape[place + 2:])
    if shape[place] == 1 and len(shape) > 1:
        return net.reshape(x, *shape[:place], *shape[place + 1:])
    return net.reshape(x, *shape[:place], 1, *shape[place:]) if len(shape) < 5 else x


def sliced(net: Net, x: str, rng: Random) -> str:
    begins = [rng.choice((0, rng.randrange(extent))) for extent in net.values[x].shape]
    return net.slice(x, *((begin, rng.choice((extent, rng.randint(begin + 1, extent))), 1)
                          for begin, extent in zip(begins, net.values[x].shape, strict=True)))


def joined(net: Net, x: str, rng: Random) -> str:
    """With itself, or with another form of it; perhaps the scale is kept."""
    other = rng.choice((x, net.rescale(x)))
    changes = {"bias": (0, 0), "mult": (1 << 15, rng.choice((1 << 15, 40000)))}
    return net.add_node("qconcat", other, x, **changes, shift=(15, 15), **KEPT,
                        axis=rng.randrange(len(net.values[x].shape)))


def averaged(net: Net, x: str, rng: Random) -> str:
    shape = net.values[x].shape
    first = rng.randrange(len(shape))
    axes = tuple(range(first, rng.randrange(first, len(shape)) + 1))
    count = prod(shape[axis] for axis in axes)
    shift = 15 + ceil(log2(count))
    return net.add_node("qmean", x, axes=axes, keepdims=rng.randrange(2), bias=0,
                        mult=min(round((1 << shift) / count), 65535), shift=shift, **KEPT)


def layered(net: Net, x: str, rng: Random) -> str:
    rank = len(net.values[x].shape)
    layers = [net.rescale, net.leaky_relu, lambda x: net.add(x, x),
              lambda x: net.affine(x, rank - 1), lambda x: net.affine(x, min(1, rank - 1))]
    if rank > 1:
        layers += [lambda x: net.dense(x, 5), lambda x: net.matmul(x, x, True)]
    if rank == 4:
        layers += [lambda x: net.conv(x, 5, (1, 1)), lambda x: net.max_pool(x, (1, 1), (1, 1)),
                   lambda x: net.upsample(x, 1, 2)]
    return rng.choice(layers)(x)


STEPS = (transposed, reshaped, sliced, joined, averaged, layered, layered)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(12), range(12, 24), pytest.param(
    range(24, 300), marks=pytest.mark.slow)])
def test_random_graphs(seeds: range) -> None:
    for seed in seeds:
        net, graph = random_graph(Random(seed))
        machine = MACHINES[("tiny-1x4x4", "2x8x8", "1x32x16")[seed % 3]]
        assert_divided_right(machine, graph, net.samples())


def random_graph(rng: Random) -> tuple[Net, Graph]:
    """Up to eight steps, each of one of the last values."""
    net = Net(rng.randrange(1000))
    values = [net.input(*rng.choices((1, 1, 2, 3, 4, 5), k=rng.choice((1, 2, 3, 4, 4, 4, 5))))]
    for _ in range(rng.randint(1, 8)):
        y = rng.choice(STEPS)(net, rng.choice(values[-3:]), rng)
        if net.values[y].shape and prod(net.values[y].shape) <= MOST:
            values.append(y)
    if not net.nodes:
        values.append(net.rescale(values[0]))
    read = {value for node in net.nodes for value in node.inputs}
    made = [node.outputs[0] for node in net.nodes]
    return net, net.graph(*(value for value in made if value not in read))
