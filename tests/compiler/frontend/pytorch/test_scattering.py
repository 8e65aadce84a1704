"""Writes to computed places in programs of torch.export."""

import numpy as np
import pytest

from compiler.frontend.onnx.importing import ImportRefused
from compiler.graph.reference import evaluate

torch = pytest.importorskip("torch")

from compiler.frontend.pytorch import programs as torch_export      # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning",
                                        "ignore::DeprecationWarning")

X = torch.arange(24.0).reshape(2, 3, 4) * 0.5 - 3
AT = torch.tensor([[[0, 2, 1], [2, 1, 0]]])
U = torch.arange(12.0).reshape(1, 3, 4) + 1


def put(*indices):
    places = tuple(slice(None) if index is None else torch.tensor(index) for index in indices)

    def write(x, values):
        y = x.clone()
        y[places] = values
        return y
    return write


CASES = {
    "scatter": (lambda x, u: x.scatter(1, AT, u), U),
    "number": (lambda x, u: x.scatter(-1, AT, 7.0) + u.sum(), U),
    "add": (lambda x, u: x.scatter_add(1, AT, u), U),
    "reduce": (lambda x, u: x.scatter_reduce(2, AT, u, "prod"), U),
    "most": (lambda x, u: x.scatter_reduce(2, AT, u, "amax"), U),
    "index_copy": (lambda x, u: x.index_copy(1, torch.tensor([2, 0]), u), X[:, :2] * 3),
    "index_add": (lambda x, u: x.index_add(2, torch.tensor([1, 1, 3]), u, alpha=2), X[:, :, :3]),
    "rows": (put([1, -2]), X * 2),
    "pairs": (put([0, 1], [2, 2]), U[0, :2] * 2),
    "last axes": (put(None, [2, 0], [1, 3]), torch.tensor([[1.0, 2], [3, 4]])),
    "apart": (put([1, 0], None, [1, 3]), torch.tensor([[1.0], [3]])),
    "sums": (lambda x, u: x.index_put((torch.tensor([1, 1]),), u, accumulate=True), X + 1),
    "assigned": (lambda x, u: _assigned(x, u), U[0, :2]),
}


def _assigned(x, u):
    y = x.clone()
    y[:, 1] = u
    y[:, :, 0] = 2 * y[:, :, 1]
    y[y > 4] = 0.25
    return y


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


@pytest.mark.parametrize("name", CASES)
def test_writes(name: str) -> None:
    function, updates = CASES[name]
    program = torch.export.export(Module(function), (X, updates))
    graph = torch_export.convert(program)
    found = evaluate(graph, dict(zip(graph.inputs, (X.numpy(), updates.numpy()), strict=True)))
    np.testing.assert_allclose(found["output"], function(X, updates).numpy(), 1e-6, 1e-6)


@pytest.mark.parametrize(("function", "reason"), [
    (lambda x, u: x.scatter_reduce(2, AT, u, "mean"),
     "reduce must be sum, add, prod, multiply, amax, amin, not mean"),
    (lambda x, u: x.scatter_reduce(2, AT, u, "sum", include_self=False),
     "include_self must be True, not False"),
    (lambda x, u: x.masked_scatter(x > 0, u),
     "its result depends on computed elements in number; use where"),
])
def test_writes_that_are_refused(function, reason: str) -> None:
    with pytest.raises(ImportRefused) as refused:
        torch_export.convert(torch.export.export(Module(function), (X, X)))
    assert reason in str(refused.value)
