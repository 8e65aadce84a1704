"""Groups of channels as whole blocks: what is merged, and that it computes the same."""

import numpy as np
import pytest

from accel.mapping.memory.grouping import grouped
from accel.mapping.operators.blocked import Blocks

B4, B48, B35 = Blocks(1, 4, 4), Blocks(1, 8, 4), Blocks(1, 3, 5)


def weights(rng, group: int, outputs: int, inputs: int) -> np.ndarray:
    """[Co, Ci / group, 2, 3] without zeros."""
    return rng.integers(1, 128, (group * outputs, inputs, 2, 3)).astype(np.int8)


@pytest.mark.parametrize(("group", "outputs", "inputs", "blocks", "shape", "diagonal"), [
    (1, 5, 6, B4, (1, 8, 8), False),
    (8, 1, 1, B4, (2, 4, 4), True),             # depthwise
    (9, 1, 1, B4, (3, 4, 4), True),             # its last block is not full
    (3, 1, 1, B4, (1, 4, 4), False),            # all of it is one block
    (4, 2, 2, B4, (2, 4, 4), True),
    (2, 8, 4, B4, (2, 8, 4), False),            # whole blocks of its own
    (8, 2, 1, B4, (2, 8, 4), False),            # two outputs of each input
    (4, 6, 6, B4, (2, 12, 12), False),          # two of one and a half blocks
    (2, 6, 6, B4, (1, 12, 12), False),
    (2, 3, 3, B4, (1, 8, 8), False),
    (16, 1, 1, B48, (2, 8, 8), False),          # two blocks of outputs read one of inputs
    (1, 7, 7, B35, (1, 10, 9), False),
    (15, 1, 1, B35, (1, 15, 15), False),
    (30, 1, 1, B35, (2, 15, 15), False),
    (16, 1, 1, B35, (1, 20, 18), False),        # 20 are written, 18 of them read
])
def test_groups_are_merged_to_whole_blocks(rng, group, outputs, inputs, blocks, shape,
                                           diagonal) -> None:
    made = grouped(weights(rng, group, outputs, inputs), group, blocks)
    assert made.weights.shape == (*shape, 2, 3)
    assert made.diagonal == diagonal


@pytest.mark.parametrize(("group", "outputs", "inputs"), [
    (8, 1, 1), (9, 1, 1), (4, 2, 2), (2, 8, 4), (8, 2, 1), (4, 6, 6), (2, 3, 3), (1, 5, 6)])
def test_merged_weights_are_those_of_the_groups(rng, group, outputs, inputs) -> None:
    """Applied to all channels, as dense matrices of one tap."""
    given = weights(rng, group, outputs, inputs)
    made = grouped(given, group, B4).weights
    count, rows, columns = made.shape[:3]
    found = np.zeros((count * rows, count * columns), np.int8)
    for place, block in enumerate(made):
        found[place * rows:(place + 1) * rows,
              place * columns:(place + 1) * columns] = block[:, :, 1, 2]
    wanted = np.zeros((group * outputs, group * inputs), np.int8)
    for place in range(group):
        rows, columns = place * outputs, place * inputs
        wanted[rows:rows + outputs, columns:columns + inputs] = (
            given[rows:rows + outputs, :, 1, 2])
    np.testing.assert_array_equal(found[:len(wanted), :wanted.shape[1]], wanted)
    assert not found[len(wanted):].any() and not found[:, wanted.shape[1]:].any()


def test_a_note_says_where_zeros_cost_products(rng) -> None:
    assert [grouped(weights(rng, *case), case[0], B4).note for case in (
        (1, 9, 9), (8, 1, 1), (2, 4, 8), (2, 2, 2), (2, 6, 6))] == ["", "", "", "", (
            "2 groups of 6 to 6 channels are computed as one, with zero weights between them: "
            "they are no whole blocks")]


def test_packed_weights_are_block_after_block(rng) -> None:
    given = weights(rng, 2, 8, 4)
    packed = grouped(given, 2, B4).packed(B4)
    assert packed.shape == (2, 2, 2, 3, 1, 4, 4)
    np.testing.assert_array_equal(packed[1, 0, 1, 2, 0], given[8:12, :, 1, 2])
    single = weights(rng, 8, 1, 1)
    packed = grouped(single, 8, B4).packed(B4)
    assert packed.shape == (2, 2, 3, 4, 4)
    np.testing.assert_array_equal(packed[1, 1, 2], np.diag(single[4:, 0, 1, 2]))
