"""Powers of integers whose exponents have more bits than the type has factors."""

import numpy as np
import onnx
import pytest

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend import convert
from compiler.graph import verify

MODEL = """<ir_version: 10, opset_import: ["" : 18]> g (
  {type}[9] x, {type}[9] y) => ({type}[9] z) {{ z = Pow (x, y) }}"""


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_large_exponents(dtype: str) -> None:
    x = np.array([0, 0, 1, -1, -1, 2, -4, 2, 3], dtype)
    y = np.array([32, 64, 100, 64, 65, 64, 96, 30, 4], dtype)
    graph = verify(convert(onnx.parser.parse_model(MODEL.format(type=dtype)), "m"))
    np.testing.assert_array_equal(CpuTarget().compile(graph)({"x": x, "y": y})["z"],
                                  [0, 0, 1, 1, -1, 0, 0, 2**30, 81])
