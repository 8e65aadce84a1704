"""Operators of higher order in programs of torch.export, and projections of LSTMs."""

import numpy as np
import pytest

from compiler.frontend.building import branches
from compiler.frontend.onnx.importing import ImportRefused
from compiler.graph.reference import evaluate

torch = pytest.importorskip("torch")

from torch import nn  # pyright: ignore[reportMissingImports]  # noqa: E402

from compiler.frontend.pytorch import programs as torch_export      # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning",
                                        "ignore::DeprecationWarning")


class Module(nn.Module):
    """A module of one function."""

    def __init__(self, function, *parts):
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *inputs):
        return self.function(*self.parts, *inputs)


def graph_of(function, *inputs, parts=()):
    torch.manual_seed(1)
    module = Module(function, *parts).eval()
    return module, torch_export.convert(torch_export.exported(module, inputs), "model")


def agree(function, *samples, parts=()):
    """The module for each of the samples, exported with the first."""
    module, graph = graph_of(function, samples[0], parts=parts)
    for sample in samples:
        found = evaluate(graph, {graph.inputs[0]: sample.numpy()})
        leaves = torch.utils._pytree.tree_leaves(module(sample))
        for name, wanted in zip(graph.outputs, leaves, strict=True):
            np.testing.assert_allclose(found[name], wanted.detach().numpy(), 1e-5, 1e-6)
    return graph


def refusal(function, *inputs) -> str:
    with pytest.raises(ImportRefused) as refused:
        graph_of(function, *inputs)
    return str(refused.value).removeprefix("model: cannot import ").partition("; replace")[0]


X = torch.tensor([0.5, -0.25, 1.5, 0.125])


def test_cond_computes_both_branches() -> None:
    def function(layer, x):
        return torch.cond(x.sum() > 0, lambda x: (layer(x), x.clamp(min=0)),
                          lambda x: (x.cos(), x * 2), (x,))
    agree(function, X, -X, parts=(nn.Linear(4, 4),))


def test_conditions_within_conditions() -> None:
    def inner(x):
        return torch.cond(x.max() > 1, lambda x: x.sqrt(), lambda x: x.exp(), (x,))
    agree(lambda x: torch.cond(x.sum() > 0, inner, lambda x: x - 1, (x,)), X, X / 2, -X)


def while_loop(*arguments):
    from torch._higher_order_ops.while_loop import (  # pyright: ignore[reportMissingImports]
        while_loop)
    return while_loop(*arguments)


def test_a_loop_whose_turns_are_known() -> None:
    graph = agree(lambda x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2),
                                       (torch.tensor(0), x)), X)
    assert sum(node.op == "mul" for node in graph.nodes) == 3


def test_a_loop_that_data_end_before_a_count_does() -> None:
    agree(lambda x: while_loop(lambda i, x: (i < 6) & (x.sum() < 9),
                               lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)),
          X, X * 0, X * 10)


def test_a_loop_that_nothing_ends(monkeypatch) -> None:
    monkeypatch.setattr("compiler.frontend.pytorch.aten.control.MOST_TURNS", 5)
    line = refusal(lambda x: while_loop(lambda x: x.sum() < 9, lambda x: (x * 2,), (x,)), X)
    assert line == (
        "while_loop (while_loop): must end after 5 turns whatever the data are: a comparison of a "
        "count with a constant must be a part of its condition")
    assert branches.MOST_TURNS == 1_000


def test_scan_and_map() -> None:
    from torch._higher_order_ops.map import map  # pyright: ignore[reportMissingImports]
    from torch._higher_order_ops.scan import scan  # pyright: ignore[reportMissingImports]

    rows = torch.arange(12.0).reshape(4, 3)
    agree(lambda x: scan(lambda c, x: (c + x, c * x), torch.zeros(3), x), rows)
    agree(lambda x: map(lambda x: x.sin() + x.sum(), x), rows)


def test_what_is_refused_within_a_branch_names_it() -> None:
    line = refusal(lambda x: torch.cond(x.sum() > 0, lambda x: torch.bernoulli(x.abs()),
                                        lambda x: x * 2, (x,)), X)
    assert line.startswith("cond (cond): bernoulli (aten.bernoulli.default): ")


@pytest.mark.parametrize("options", [{}, {"bias": False, "num_layers": 2},
                                     {"bidirectional": True, "batch_first": True, "num_layers": 2}])
def test_projections(options: dict) -> None:
    agree(lambda layer, x: layer(x), torch.randn(2, 4, 3), parts=(
        nn.LSTM(3, 5, proj_size=2, **options),))


def test_parts_without_gradients():
    def function(x):
        with torch.no_grad():
            y, z = x * 2, x + 1
        return y - z

    agree(function, torch.randn(3))
