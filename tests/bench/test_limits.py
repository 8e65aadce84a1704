"""`accelerator.limits`: what it lists, and that little is left to list."""

import onnx
import pytest

from tests.support.limit_cases import FAMILIES, QdqModel
from bench.accelerator.limits import BENCH, taken
from compiler.frontend import convert
from compiler.graph import optimize
from tests.support.machines import TINY


@pytest.mark.parametrize("family", FAMILIES)
def test_cases_have_names_of_their_own(family: str) -> None:
    names = [case.name for case in FAMILIES[family]()]
    assert len(set(names)) == len(names) > 5


@pytest.mark.slow
@pytest.mark.parametrize("family", ["conv", "grouped", "transposed", "dense", "product", "pool"])
def test_whatever_the_buffers_products_and_pools_are_taken(family: str, capsys) -> None:
    """But for means and maxima along channels, or within rows."""
    assert BENCH.main(["--only", family]) == 0
    *lines, = capsys.readouterr().out.splitlines()
    named = [line for line in lines if not line.startswith(" ") and ": " in line]
    assert all(line.startswith("Reduce") for line in named), named


def test_what_is_refused_has_its_reason(capsys, monkeypatch) -> None:
    cases = FAMILIES["movement"]
    monkeypatch.setitem(FAMILIES, "movement", lambda: (
        case for case in cases() if case.name.startswith("Slice")))
    assert BENCH.main(["--only", "movement", "--machine", "tiny-1x4x4"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Slice 1x64x28x28 axis 1 0:64:2: 2 layers of integers",
        "  all machines: slice_4 (slice): it takes one of 2 channels; the accelerator takes "
        "neighbours", "cases 4", "tiny-1x4x4_refused 1"]


def test_what_computes_in_float_is_told_apart(tmp_path, capsys) -> None:
    net = QdqModel()
    x = net.input(1, 4, 6, 6)
    y = net.add("Tanh", net.add("AveragePool", x, kernel_shape=[2, 2], name="pool"), name="tanh")
    model = net.model(y)
    found = taken(optimize(convert(model)), TINY)
    assert found.layers == 1 and not found.refused and not found.whole
    assert [(one.op, one.reason) for one in found.floats] == [
        ("dequantize", ""), ("avgpool", "a QuantizeLinear is missing between it and tanh (tanh)"),
        ("tanh", "a QuantizeLinear and a DequantizeLinear are missing between pool (avgpool) and "
                 "it"), ("quantize", "")]
    onnx.save(model, tmp_path / "net.onnx")
    assert BENCH.main(["--only", "networks", str(tmp_path / "net.onnx"),
                       "--machine", "tiny-1x4x4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "net: 1 layers of integers, 4 nodes in float"
    assert lines[-2:] == ["tiny-1x4x4_layers 1", "tiny-1x4x4_refused 0"]
