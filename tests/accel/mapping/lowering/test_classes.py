"""Iterations of one class have one template: the stream is that of lowering each on its own."""

import numpy as np
import pytest

from accel.mapping.lowering import emit, unplaced
from accel.mapping.lowering.classes import Classes, classes_of
from accel.mapping.target import AccelTarget
from compiler.graph import Graph
from compiler.te import INDEX, Const, Var
from tests.support.integer_graphs import Net
from tests.support.machines import PACKED, SHORT, TINY

X, Y = Var("x", INDEX), Var("y", INDEX)


def padded(bits: int = 8) -> Graph:
    """Windows that reach over every edge, strides, a pool, and sums of several steps."""
    net = Net(5, weight_bits=bits)
    x = net.rescale(net.input(1, 7, 11, 9))
    y = net.conv(x, 9, (3, 3), pads=(1, 1, 1, 1))
    y = net.max_pool(y, (3, 3), (2, 2), (1, 1, 1, 1))
    return net.graph(net.conv(y, 5, (1, 1)))


def plain() -> Graph:
    """Rows of windows over an image, which begin before it."""
    net = Net(6)
    return net.graph(net.conv(net.input(1, 3, 26, 24), 8, (3, 3), strides=(2, 2),
                              pads=(1, 1, 1, 1)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("machine", "graph"), [
    (TINY, padded()), (SHORT, padded()), (TINY, plain()), (PACKED, padded(4))],
    ids=["tiny", "short", "rows of windows", "packed"])
def test_classes_change_nothing(machine, graph: Graph, monkeypatch) -> None:
    program = AccelTarget(machine).compile(graph).program
    counts = []

    def each(conditions, columns, count, box, keys=()) -> Classes:
        counts.append((count, len(classes_of(conditions, columns, count, box, keys).rows)))
        return Classes(np.arange(count), tuple(range(count)))

    monkeypatch.setattr(emit, "classes_of", each)
    monkeypatch.setattr(unplaced, "_kept", type(unplaced._kept)())
    other = AccelTarget(machine).compile(graph).program
    assert np.array_equal(program.words, other.words)
    assert program.labels == other.labels
    assert sum(classes for _, classes in counts) < sum(count for count, _ in counts) / 2


def test_a_condition_decides_by_what_it_can_still_be() -> None:
    columns = {X: np.arange(8, dtype=np.int64)}
    condition = (X * 2 + Y >= Const(6, INDEX))              # y from 0 to 2
    found = classes_of([condition], columns, 8, {Y: (0, 3)})
    assert found.of.tolist() == [0, 0, 1, 2, 2, 2, 2, 2]    # never; only where y is 2; always
    assert found.rows == (0, 2, 3)


def test_numbers_of_ones_own_divide_classes() -> None:
    found = classes_of([], {X: np.arange(4)}, 4, {}, [np.array([5, 7, 5, 7])])
    assert found.of.tolist() == [0, 1, 0, 1] and found.rows == (0, 1)
    assert classes_of([], {}, 0, {}).rows == ()
