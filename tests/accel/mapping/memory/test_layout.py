"""Layouts in memory: element by element."""

import numpy as np
import pytest

from accel.machine.config import preset
from accel.mapping.memory.layout import (blocks_of, from_blocked, pack_params, pack_weights,
                                         stored_bytes, to_plain)
from accel.mapping.operators.blocked import Activation, Blocks
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import numpy_dtype
from tests.support.machines import machine

B2 = Blocks(2, 8, 8)
WIDE = Blocks(1, 8, 4)


def test_blocks_are_those_of_the_array() -> None:
    assert blocks_of(preset("tiny-1x4x4")) == Blocks(1, 4, 4)
    blocks = blocks_of(machine("1x32x16").config)
    assert (blocks.channels, blocks.padded(1), blocks.padded(32), blocks.padded(33)) == (
        32, 32, 32, 64)


@pytest.mark.parametrize(("block_in", "block_out"), [(4, 4), (8, 4), (4, 16), (12, 16), (31, 32),
                                                     (25, 9), (3, 5), (1, 7), (7, 1)])
def test_channels_in_memory_are_the_least_that_hold_what_is_read(block_in: int,
                                                                 block_out: int) -> None:
    """Where one size divides the other they are whole blocks of the larger one."""
    blocks = Blocks(1, block_in, block_out)
    for channels in range(1, 200):
        read, whole = blocks.read(channels), blocks.padded(channels)
        assert channels <= read < channels + block_in and read % block_in == 0
        assert read <= whole < read + block_out and whole % block_out == 0
        assert blocks.channels not in (block_in, block_out) or (
            whole == -(-channels // blocks.channels) * blocks.channels)
        assert channels % blocks.channels or whole == channels


@pytest.mark.parametrize("shape", [(3, 5, 2, 4), (1, 8, 1, 1), (2, 1, 3, 3)])
def test_plain_is_nhwc(shape: tuple[int, ...], rng) -> None:
    x = rng.integers(-128, 128, shape).astype(np.int8)
    plain = to_plain(x)
    n, c, h, w = shape
    assert plain.shape == Activation(n, c, h, w, plain=True).stored_shape(B2)
    assert plain.flags.c_contiguous
    for at in np.ndindex(n, c, h, w):
        assert plain[at[0], at[2], at[3], at[1]] == x[at]


def test_a_matrix_is_an_image_of_one_pixel() -> None:
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    np.testing.assert_array_equal(to_plain(x), x.reshape(2, 1, 1, 3))


@pytest.mark.parametrize(("n", "c"), [(3, 5), (2, 8), (1, 17)])
def test_blocked_is_groups_of_images_with_padded_channels(n: int, c: int, rng) -> None:
    activation = Activation(n, c, 2, 3)
    shape = activation.stored_shape(B2)
    assert shape == (-(-n // 2), 2, 3, 2, -(-c // 8) * 8)
    stored = rng.integers(-128, 128, shape).astype(np.int8)
    found = from_blocked(stored, (n, c, 2, 3))
    for at in np.ndindex(n, c, 2, 3):
        image, channel, y, x = at
        assert found[at] == stored[image // 2, y, x, image % 2, channel]
    flat = from_blocked(stored, (n, c * 6))
    np.testing.assert_array_equal(flat, found.reshape(n, -1))


def test_weights_are_tiles_of_outputs_by_inputs(rng) -> None:
    weights = rng.integers(-128, 128, (5, 9, 2, 3)).astype(np.int8)
    packed = pack_weights(weights, Activation(1, 9, 4, 4), WIDE)
    assert packed.shape == (2, 2, 3, 2, 4, 8) and packed.flags.c_contiguous
    for co, kh, kw, ci, o, i in np.ndindex(packed.shape):
        output, channel = co * 4 + o, ci * 8 + i
        inside = output < 5 and channel < 9
        assert packed[co, kh, kw, ci, o, i] == (weights[output, channel, kh, kw] if inside else 0)


def test_parameters_are_records_of_channels() -> None:
    packed = pack_params([1, -2, 3], np.array([40000, 0, 65535]), [7, 46, 0], 3, WIDE)
    assert packed.shape == (2, 4) and packed.dtype == numpy_dtype(PARAM)
    assert [tuple(record) for record in packed.reshape(-1)[:4]] == [
        (1, 40000, 7), (-2, 0, 46), (3, 65535, 0), (0, 0, 0)]


def test_one_parameter_serves_every_channel() -> None:
    packed = pack_params(-5, 50000, 9, 5, WIDE).reshape(-1)
    assert [tuple(record) for record in packed[:6]] == [(-5, 50000, 9)] * 5 + [(0, 0, 0)]


def test_padding_of_records_is_stored_as_zeros() -> None:
    dirty = np.full(24, 0xa5, np.uint8).view(numpy_dtype(PARAM))
    dirty["bias"], dirty["mult"], dirty["shift"] = 1, 2, 3
    clean = np.zeros(3, numpy_dtype(PARAM))
    clean["bias"], clean["mult"], clean["shift"] = 1, 2, 3
    assert dirty.tobytes() != clean.tobytes() == stored_bytes(dirty).tobytes()
    assert stored_bytes(dirty[::2]).size == 16
    assert stored_bytes(np.arange(6, dtype=np.int8).reshape(2, 3).T).tolist() == [0, 3, 1, 4, 2, 5]
