"""Normalizations of elements that lie close together."""

import numpy as np
import onnx
import pytest

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend import convert
from compiler.graph import evaluate, verify

MODEL = """<ir_version: 10, opset_import: ["" : 18]> g (float{shape} x) => (float{shape} y) {{
  y = MeanVarianceNormalization <axes: ints = [0, 2, 3]> (x) }}"""


@pytest.mark.parametrize("middle, spread, shape", [
    (0, 1, [2, 3, 4, 5]), (1000, 1, [2, 3, 4, 5]), (-0.6900678, 0, [1, 1, 3, 2])])
def test_the_mean_may_be_far_from_zero(middle: float, spread: float, shape: list[int]) -> None:
    """Where all are equal, what is left is rounding, but a number."""
    graph = verify(convert(onnx.parser.parse_model(MODEL.format(shape=shape)), "m"))
    x = (middle + spread * np.random.default_rng(1).normal(size=shape)).astype(np.float32)
    wide = x.astype(np.float64)
    apart = wide - wide.mean((0, 2, 3), keepdims=True)
    wanted = apart / (np.sqrt((apart * apart).mean((0, 2, 3), keepdims=True)) + 1e-9)
    for found in (evaluate(graph, {"x": x})["y"], CpuTarget().compile(graph)({"x": x})["y"]):
        assert np.isfinite(found).all()
        if spread:
            np.testing.assert_allclose(found, wanted, atol=1e-3)


@pytest.mark.parametrize("opset, of_groups", [(18, True), (21, False)])
def test_groups_may_be_far_from_zero(opset: int, of_groups: bool) -> None:
    extent = 3 if of_groups else 6
    text = f"""<ir_version: 10, opset_import: ["": {opset}]>
    g (float[2,6,2,3] x, float[{extent}] s, float[{extent}] b) => (float[2,6,2,3] y) {{
      y = GroupNormalization <num_groups = 3, epsilon = 1e-5> (x, s, b) }}"""
    graph = verify(convert(onnx.parser.parse_model(text), "m"))
    rng = np.random.default_rng(1)
    x = (1000 + rng.normal(size=(2, 6, 2, 3))).astype(np.float32)
    s, b = rng.normal(size=(2, extent)).astype(np.float32)
    rows = x.astype(np.float64).reshape(2, 3, -1)
    z = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
    each = [np.repeat(one, 2) if of_groups else one for one in (s, b)]
    wanted = z.reshape(x.shape) * each[0][:, None, None] + each[1][:, None, None]
    np.testing.assert_allclose(evaluate(graph, {"x": x, "s": s, "b": b})["y"], wanted, atol=1e-3)
