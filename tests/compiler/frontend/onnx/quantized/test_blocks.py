"""Products and lookups with a scale for each block: unpacked in NumPy, and by ONNX Runtime."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from compiler.frontend import ImportRefused, convert
from tests.support.onnx_runtime import run_onnx
from tests.support.spellings import MICROSOFT, model_of, values_of


def packed(steps: np.ndarray, bits: int) -> np.ndarray:
    """Numbers in bytes, along the last axis; those of low bits first, zeros behind the last."""
    count = 8 // bits
    filled = np.pad(steps, [(0, 0)] * (steps.ndim - 1) + [(0, -steps.shape[-1] % count)])
    groups = filled.reshape(*filled.shape[:-1], -1, count).astype(np.int64)
    return (groups << np.arange(0, 8, bits)).sum(-1).astype(np.uint8)


class Blocks:
    """A weight [N,K] of so many bits in blocks, its scales and zero points [N,blocks]."""

    def __init__(self, n: int, k: int, block: int, bits: int, zeros: str | None, seed: int = 0):
        rng, count = np.random.default_rng([n, k, bits, seed]), -(-k // block)
        self.steps = rng.integers(0, 1 << bits, (n, k))
        self.scale = (rng.uniform(0.01, 0.1, (n, count))
                      * rng.choice([-1, 1], (n, count))).astype(np.float32)
        self.zero = np.full((n, count), 1 << bits - 1) if zeros is None else (
            rng.integers(0, 1 << bits, (n, count)))
        if zeros == "float":
            self.zero = self.zero + np.float32(0.25)
        padded = np.pad(self.steps, ((0, 0), (0, count * block - k))).reshape(n, count, block)
        self.constants = {"w": packed(padded, bits), "s": self.scale}
        if zeros:
            self.constants["z"] = (packed(self.zero, bits) if zeros == "packed"
                                   else self.zero.astype(np.float32))
        self.block = np.arange(k) // block

    def weight(self) -> np.ndarray:
        return (self.steps - self.zero[:, self.block]) * self.scale[:, self.block]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("k, block", [(32, 16), (40, 16), (24, 32)])
@pytest.mark.parametrize("zeros", [None, "packed", "float"])
def test_matmul_n_bits(bits: int, k: int, block: int, zeros: str | None) -> None:
    drawn = Blocks(5, k, block, bits, zeros)
    x = np.random.default_rng(1).normal(size=(2, 3, k)).astype(np.float32)
    node = helper.make_node("MatMulNBits", ["x", "w", "s", *["z"] * bool(zeros)], ["y"],
                            domain=MICROSOFT, K=k, N=5, bits=bits, block_size=block)
    model = model_of(node, {"x": x}, drawn.constants)
    wanted = x @ drawn.weight().T
    np.testing.assert_allclose(values_of(model, {"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)
    if bits < 8 or zeros != "float":
        np.testing.assert_allclose(run_onnx(model, {"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)
    whole = block >= k and zeros != "float" and bits < 8
    assert bits == 8 or any(
        array.shape == (k, 5) and array.dtype == ("int8" if whole else "float32")
        for array in convert(model).constants.values())


def test_groups_and_bias() -> None:
    """`g_idx` names the block of each place."""
    drawn, rng = Blocks(5, 32, 16, 4, "packed"), np.random.default_rng(2)
    drawn.block = rng.permutation(drawn.block)
    drawn.constants |= {"g": drawn.block.astype(np.int32),
                        "b": rng.normal(size=5).astype(np.float32)}
    x = rng.normal(size=(3, 32)).astype(np.float32)
    node = helper.make_node("MatMulNBits", ["x", "w", "s", "z", "g", "b"], ["y"], domain=MICROSOFT,
                            K=32, N=5, bits=4, block_size=16)
    model = model_of(node, {"x": x}, drawn.constants)
    np.testing.assert_allclose(values_of(model, {"x": x})["y"],
                               x @ drawn.weight().T + drawn.constants["b"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [None, "packed"])
def test_gather_block_quantized(bits: int, zeros: str | None) -> None:
    """Places from the end count, and one outside gives zeros."""
    drawn = Blocks(6, 32, 16, bits, zeros, seed=4)
    drawn.constants["w"] = drawn.constants["w"].reshape(6, -1)
    places = np.array([[0, 5, -1], [-6, 2, 2]], np.int64)
    node = helper.make_node("GatherBlockQuantized", ["w", "i", "s", *["z"] * bool(zeros)], ["y"],
                            domain=MICROSOFT, bits=bits, block_size=16)
    model = model_of(node, {"i": places}, drawn.constants)
    wanted = drawn.weight().astype(np.float32)[places]
    np.testing.assert_allclose(values_of(model, {"i": places})["y"], wanted, rtol=1e-6)
    np.testing.assert_allclose(run_onnx(model, {"i": places})["y"], wanted, rtol=1e-6)
    outside = np.array([[6, -7, 1], [99, 0, 3]], np.int64)
    found = values_of(model, {"i": outside})["y"]
    np.testing.assert_array_equal(np.any(found, axis=2), [[0, 0, 1], [0, 1, 1]])


@pytest.mark.parametrize("attributes, reason", [
    ({"bits": 3}, "bits must be 2, 4 or 8, not 3"),
    ({"weight_prepacked": 1}, "weight_prepacked must be 0, not 1")])
def test_refusals(attributes: dict, reason: str) -> None:
    drawn = Blocks(5, 32, 16, 4, None)
    given: dict[str, Any] = {"bits": 4, "block_size": 16} | attributes
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain=MICROSOFT, K=32, N=5,
                            **given)
    with pytest.raises(ImportRefused, match=reason):
        convert(model_of(node, {"x": np.zeros((3, 32), np.float32)}, drawn.constants))


@pytest.mark.parametrize("name", ["int4", "uint4"])
@pytest.mark.parametrize("gathered, quantized", [(0, 1), (1, 0), (-1, 1), (0, 0)])
def test_gather_of_small_types(name: str, gathered: int, quantized: int) -> None:
    rng, dtype = np.random.default_rng(gathered + 3), np.dtype(getattr(ml_dtypes, name))
    info, shape = ml_dtypes.iinfo(dtype), (32, 48)
    blocks = tuple(extent // 16 if axis == quantized else extent
                   for axis, extent in enumerate(shape))
    data, zero = (rng.integers(int(info.min), int(info.max) + 1, extents).astype(dtype)
                  for extents in (shape, blocks))
    scale = rng.uniform(0.01, 0.1, blocks).astype(np.float32)
    places = np.array([[3, -1, 0], [7, 7, -30]], np.int32)
    node = helper.make_node("GatherBlockQuantized", ["w", "i", "s", "z"], ["y"], domain=MICROSOFT,
                            gather_axis=gathered, quantize_axis=quantized, block_size=16)
    model = model_of(node, {"i": places}, {"w": data, "s": scale, "z": zero})
    weight = (data.astype(np.float32) - np.repeat(zero.astype(np.float32), 16, quantized)
              ) * np.repeat(scale, 16, quantized)
    wanted = np.take(weight, places, gathered)
    np.testing.assert_allclose(values_of(model, {"i": places})["y"], wanted, rtol=1e-6)
    np.testing.assert_allclose(run_onnx(model, {"i": places})["y"], wanted, rtol=1e-6)
