"""Random graphs of layers and of operators that move values, divided between accelerator and host:
right to the bit, and no defect.
"""

from math import ceil, log2, prod

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.divided import assert_divided_right
from tests.support.effort import tries
from tests.support.integer_graphs import Net
from tests.support.machines import MACHINES

KEPT = {"zp": 0, "lo": -128, "hi": 127}
MOST = 600          # elements of a value


def transposed(net: Net, x: str, draw) -> str:
    return net.transpose(x, *draw(st.permutations(range(len(net.values[x].shape)))))


def reshaped(net: Net, x: str, draw) -> str:
    """Two dimensions together, or one of one element more or less."""
    shape = net.values[x].shape
    place = draw(st.integers(0, len(shape) - 1))
    if draw(st.booleans()) and len(shape) > 1:
        place = min(place, len(shape) - 2)
        return net.reshape(x, *shape[:place], shape[place] * shape[place + 1], *shape[place + 2:])
    if shape[place] == 1 and len(shape) > 1:
        return net.reshape(x, *shape[:place], *shape[place + 1:])
    return net.reshape(x, *shape[:place], 1, *shape[place:]) if len(shape) < 5 else x


def sliced(net: Net, x: str, draw) -> str:
    begins = [draw(st.integers(0, extent - 1)) for extent in net.values[x].shape]
    return net.slice(x, *((begin, draw(st.integers(begin + 1, extent)), 1)
                          for begin, extent in zip(begins, net.values[x].shape, strict=True)))


def joined(net: Net, x: str, draw) -> str:
    """With itself, or with another form of it; perhaps the scale is kept."""
    other = draw(st.sampled_from((x, net.rescale(x))))
    changes = {"bias": (0, 0), "mult": (1 << 15, draw(st.sampled_from((1 << 15, 40000))))}
    return net.add_node("qconcat", other, x, **changes, shift=(15, 15), **KEPT,
                        axis=draw(st.integers(0, len(net.values[x].shape) - 1)))


def averaged(net: Net, x: str, draw) -> str:
    shape = net.values[x].shape
    first = draw(st.integers(0, len(shape) - 1))
    axes = tuple(range(first, draw(st.integers(first, len(shape) - 1)) + 1))
    count = prod(shape[axis] for axis in axes)
    shift = 15 + ceil(log2(count))
    return net.add_node("qmean", x, axes=axes, keepdims=draw(st.integers(0, 1)), bias=0,
                        mult=min(round((1 << shift) / count), 65535), shift=shift, **KEPT)


def layered(net: Net, x: str, draw) -> str:
    rank = len(net.values[x].shape)
    layers = [net.rescale, net.leaky_relu, lambda x: net.add(x, x),
              lambda x: net.affine(x, rank - 1), lambda x: net.affine(x, min(1, rank - 1))]
    if rank > 1:
        layers += [lambda x: net.dense(x, 5), lambda x: net.matmul(x, x, True)]
    if rank == 4:
        layers += [lambda x: net.conv(x, 5, (1, 1)), lambda x: net.max_pool(x, (1, 1), (1, 1)),
                   lambda x: net.upsample(x, 1, 2)]
    return draw(st.sampled_from(layers))(x)


STEPS = (transposed, reshaped, sliced, joined, averaged, layered, layered)


@settings(max_examples=tries(100))
@given(st.sampled_from(("tiny-1x4x4", "2x8x8", "1x32x16")),
       st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 6), st.data())
def test_random_graphs(machine: str, shape: list[int], count: int, data) -> None:
    net = Net(sum(shape))
    values = [net.input(*shape)]
    for _ in range(count):
        x = data.draw(st.sampled_from(values))
        y = data.draw(st.sampled_from(STEPS))(net, x, data.draw)
        if prod(net.values[y].shape) <= MOST and net.values[y].shape:
            values.append(y)
    if net.nodes:
        read = {value for node in net.nodes for value in node.inputs}
        made = [node.outputs[0] for node in net.nodes]
        graph = net.graph(*(value for value in made if value not in read))
        assert_divided_right(MACHINES[machine], graph, net.samples())
