"""The operators that `cpu.speed` measures are those that their names say."""

import onnx
import pytest

from bench.inputs.cpu_operators import OPERATORS, operator_model
from compiler.frontend import convert


@pytest.mark.parametrize("name", OPERATORS)
def test_models_are_valid(name: str) -> None:
    model = operator_model(name)
    onnx.checker.check_model(model, full_check=True)
    graph = convert(model)
    assert len(graph.outputs) == 1 and 0 not in graph.values[graph.outputs[0]].shape


def test_there_are_as_many_as_the_table_promises() -> None:
    assert len(OPERATORS) >= 30
    assert sum(name.startswith(("conv", "depthwise", "group")) for name in OPERATORS) >= 20
