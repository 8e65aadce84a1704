"""Constants of Core ML that are stored as fewer bits, against NumPy: coremltools is not needed."""

import numpy as np
import pytest

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.core_ml.quantization import (ScaledSteps, blocks_of, dense, looked_up,
                                                    shifted_and_scaled)
from compiler.frontend.core_ml.weights import BITS, elements, unpacked


@pytest.mark.parametrize("kind", BITS)
def test_numbers_of_a_few_bits(kind):
    bits, rng = BITS[kind], np.random.default_rng(0)
    low, high = (0, 1 << bits) if kind.startswith("U") else (-(1 << bits - 1), 1 << bits - 1)
    wanted = rng.integers(low, high, (3, 7))
    whole = sum(int(number) % (1 << bits) << bits * place
                for place, number in enumerate(wanted.reshape(-1)))
    data = whole.to_bytes(-(-21 * bits // 8), "little")
    made = elements(data, kind, (3, 7))
    assert made.dtype == (np.uint8 if kind.startswith("U") else np.int8)
    assert np.array_equal(made, wanted)
    with pytest.raises(ValueError, match="hold no 99 numbers"):
        elements(data, kind, (99,))


@pytest.mark.parametrize("bits", range(1, 9))
def test_numbers_from_the_highest_bit(bits):
    wanted = np.random.default_rng(bits).integers(0, 1 << bits, 13)
    whole = int("".join(f"{number:0{bits}b}" for number in wanted).ljust(
        -(-13 * bits // 8) * 8, "0"), 2)
    data = whole.to_bytes(-(-13 * bits // 8), "big")
    assert np.array_equal(unpacked(data, bits, 13, highest_first=True), wanted)


@pytest.mark.parametrize("seed", range(12))
def test_blocks_with_scales_and_offsets(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, 3)
    sizes = [(1, 2), (1, 1), (3, 1)][seed % 3]
    sizes = np.array([*sizes, 1 + seed % 2])
    if seed % 4 == 0:
        counts = np.array([counts[0] + 1, 1, 1])
    data = rng.integers(-8, 8, counts * sizes).astype(np.int8)
    scale = rng.uniform(0.1, 1, counts).astype(np.float32)
    offset = rng.integers(-3, 3, counts).astype(rng.choice(["int8", "float32"]))
    made = shifted_and_scaled(data, scale, offset)
    wide = [np.kron(array, np.ones(sizes, array.dtype)) for array in (scale, offset)]
    wanted = (data.astype(np.float32) - wide[1]) * wide[0]
    made = made.floats if isinstance(made, ScaledSteps) else made
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, wanted, rtol=1e-6)


@pytest.mark.parametrize("counts, axis", [((1, 1), 0), ((4, 1), 0), ((1, 6), 1)])
def test_slices_of_one_axis_stay_integers(counts, axis):
    data = np.arange(24, dtype=np.uint8).reshape(4, 6)
    scale = np.linspace(0.1, 0.2, np.prod(counts), dtype=np.float16).reshape(counts)
    made = shifted_and_scaled(data, scale, np.full(counts, 8.0, np.float32))
    assert isinstance(made, ScaledSteps) and made.steps is data and made.axis == axis
    assert made.zero.dtype == np.uint8 and made.scale.dtype == np.float32
    np.testing.assert_array_equal(made.turned.floats, made.floats.T)


@pytest.mark.parametrize("counts, scale, offset", [
    ((2, 1), 0.1, 0), ((4, 6), 0.1, 0), ((4, 1), -0.1, 0), ((4, 1), 0.0, 0), ((4, 1), 0.1, 0.5),
    ((4, 1), 0.1, 128.0)])
def test_what_no_dequantization_has_is_a_constant(counts, scale, offset):
    made = shifted_and_scaled(np.ones((4, 6), np.int8), np.full(counts, scale, np.float32),
                              np.full(counts, offset, np.float32))
    assert not isinstance(made, ScaledSteps)
    np.testing.assert_array_equal(made, np.full((4, 6), (1 - np.float32(offset))
                                                * np.float32(scale)))


def test_tables_of_vectors_by_blocks():
    rng = np.random.default_rng(0)
    for axis in (0, 1, -1):
        indices = rng.integers(0, 4, (4, 3, 2)).astype(np.uint8)
        tables = rng.normal(size=(2, 1, 2, 4, 5)).astype(np.float32)
        made = looked_up(indices, tables, axis)
        place = axis % 3
        assert made.shape == tuple(extent * 5 if at == place else extent
                                   for at, extent in enumerate(indices.shape))
        for at in np.ndindex(*made.shape):
            source = tuple(number // 5 if axis_ == place else number
                           for axis_, number in enumerate(at))
            vector = tables[source[0] // 2, 0, source[2]][indices[source]]
            assert made[at] == vector[at[place] % 5]


def test_sparse_elements():
    mask = np.array([[1, 0, 1], [0, 0, 1]], np.uint8)
    made = dense(np.array([5, -6, 7], np.int8), mask)
    assert np.array_equal(made, [[5, 0, -6], [0, 0, 7]]) and made.dtype == np.int8


def test_blocks_that_do_not_divide_are_refused():
    for counts in ((3, 1), (1,)):
        with pytest.raises(NodeRefused) as refused:
            blocks_of((4, 6), counts)
        assert str(refused.value) == (f"its blocks {list(counts)} must divide the shape [4, 6]")
