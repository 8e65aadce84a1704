"""FakeQuantize as OpenVINO documents it."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from compiler.frontend import ImportRefused, convert
from tests.support.spellings import model_of, operators_of, values_of

DOMAIN = "org.openvinotoolkit"


def fake(x, low, high, out_low, out_high, levels: int):
    steps = np.rint(np.clip((x.astype(np.float64) - low) / (high - low), 0, 1) * (levels - 1))
    return steps / (levels - 1) * (out_high - out_low) + out_low


def model(x: np.ndarray, ends: list, levels: int, constant: bool = False, **attributes: Any):
    known = {f"e{place}": np.asarray(end, np.float32) for place, end in enumerate(ends)}
    nodes = [helper.make_node("FakeQuantize", ["w" if constant else "x", *known], ["q"],
                              domain=DOMAIN, levels=levels, **attributes),
             helper.make_node("Mul" if constant else "Identity",
                              ["q", "x"] if constant else ["q"], ["y"])]
    return model_of(nodes, {"x": np.ones(1, np.float32) if constant else x},
                    known | ({"w": x} if constant else {}))


@pytest.mark.parametrize("levels", [2, 15, 16, 255, 256, 1000])
@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 3.0), (-0.3, 2.7), (0.5, 2.0)])
@pytest.mark.parametrize("constant", [False, True])
def test_one_range(levels: int, ends: tuple[float, float], constant: bool) -> None:
    """A range that 0 is no step of, too."""
    x = (np.random.default_rng(levels).normal(size=(4, 50)) * 2).astype(np.float32)
    step = (ends[1] - ends[0]) / (levels - 1)
    x = x[np.abs((x - ends[0]) / step % 1 - 0.5) > 1e-2]
    made = model(x, [*ends, *ends], levels, constant)
    inputs = {"x": np.ones(1, np.float32) if constant else x}
    for integers in (False, True):
        np.testing.assert_allclose(values_of(made, inputs, integers)["y"],
                                   fake(x, *ends, *ends, levels), atol=2e-3 * step + 1e-6)


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 3, 1, 1), (4,)])
@pytest.mark.parametrize("constant", [False, True])
def test_ranges_of_channels(shape: tuple[int, ...], constant: bool) -> None:
    rng = np.random.default_rng(1)
    x, high = rng.normal(size=(2, 3, 5, 4)).astype(np.float32), rng.uniform(1, 2, shape)
    high = high.astype(np.float32)
    low = -high * np.float32(128 / 127)
    made = model(x, [low, high] * 2, 256, constant)
    assert operators_of(made)["quantize"] == 0
    found = values_of(made, {"x": np.ones(1, np.float32) if constant else x})["y"]
    off = np.abs(found - fake(x, low, high, low, high, 256)) / (high / 127)
    assert np.mean(off < 2e-3) > 0.99 and off.max() < 1.01      # the rest lies about halves


def test_integers() -> None:
    """What is quantized alike is a table of one quantization, and another range a rescaling."""
    x = np.linspace(-2, 2, 90).astype(np.float32)
    assert operators_of(model(x, [-1.28, 1.27, -1.28, 1.27], 256))["quantize"] == 1
    made = model(x, [-1.28, 1.27, -2.56, 2.54], 256)
    np.testing.assert_allclose(values_of(made, {"x": x})["y"],
                               fake(x, -1.28, 1.27, -2.56, 2.54, 256), atol=1e-4)


@pytest.mark.parametrize("levels, attributes", [(1, {}), (256, {"auto_broadcast": "pdpd"})])
def test_refusals(levels: int, attributes: dict) -> None:
    with pytest.raises(ImportRefused, match="auto_broadcast must be numpy and levels 2 or more"):
        convert(model(np.ones(4, np.float32), [-1, 1, -1, 1], levels, **attributes))
