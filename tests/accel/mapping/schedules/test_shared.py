"""Layers that differ in names and in numbers alone share the steps of a schedule."""

import pytest

from accel.mapping.layers import build_layers, forms_of
from accel.mapping.memory.layout import blocks_of
from accel.mapping.schedules import prefix_of, schedule, scheduled, shared, tiles_of
from compiler.ir import program_text
from tests.support.integer_graphs import Net
from tests.support.machines import TINY


def layers(kind: str):
    """Layers of one kind with clamps, factors and names that differ."""
    net = Net(2)
    x = net.rescale(net.input(1, 8, 6, 6))
    for _ in range(3):
        match kind:
            case "conv":
                x = net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1))
            case "add":
                x = net.add(x, net.rescale(x))
            case _:
                x = net.rescale(x)
    graph = net.graph(x)
    forms = forms_of(graph, blocks_of(TINY.config))
    made = [layer for node in graph.nodes for layer in build_layers(node, graph, forms, TINY)]
    op = made[-1].node.op
    return [layer.operator for layer in made if layer.node.op == op]


@pytest.mark.parametrize("kind", ["conv", "add", "rescale"])
def test_it_is_the_schedule_of_the_layer(kind: str, monkeypatch) -> None:
    monkeypatch.setattr(shared, "_kept", type(shared._kept)())
    steps = []
    real = shared.placed
    monkeypatch.setattr(shared, "placed", lambda *args: steps.append(1) or real(*args))
    operators = layers(kind)
    texts = set()
    for operator in operators[-3:]:
        tiles, threads = tiles_of(TINY, operator, 2)
        found = scheduled(TINY, operator, tiles, threads)
        text = program_text(found.program, bodies=True).replace(found.prefix,
                                                                prefix_of(operator))
        alone = program_text(schedule(TINY, operator, tiles, threads).program, bodies=True)
        assert text.partition("\n")[2] == alone.partition("\n")[2]
        texts.add(text)
    assert len(texts) == 3 and len(steps) < 3


def test_names_go_with_the_layer() -> None:
    first, *_, last = layers("conv")
    tiles, threads = tiles_of(TINY, last, 2)
    scheduled(TINY, first, tiles, threads)
    found = scheduled(TINY, last, tiles, threads)
    assert found.renamed(found.prefix + "acc_y", prefix_of(last)) == prefix_of(last) + "acc_y"
