"""Phases of transposed convolutions against the sum over all taps."""

from hypothesis import given
from hypothesis import strategies as st

from accel.mapping.operators.transposed import phases


@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 6), st.integers(1, 4),
       st.integers(1, 12))
def test_every_output_has_its_taps(kernel, stride, pad, dilation, outputs) -> None:
    """Tap k adds pixel i to output ``i * stride + k * dilation - pad``."""
    found = {}
    for group in phases(outputs, kernel, stride, pad, dilation):
        for number, taps in enumerate(group.taps, group.first):
            assert len(taps) in (0, group.kernel)
            for t in range(group.outputs):
                start = t - group.before
                found[t * stride + number] = {
                    (k, start + j * group.dilation) for j, k in enumerate(taps)}
    assert found == {
        output: {(k, (output + pad - k * dilation) // stride) for k in range(kernel)
                 if (output + pad - k * dilation) % stride == 0}
        for output in range(outputs)}


def test_phases_that_see_one_window_are_together() -> None:
    assert [(one.first, len(one.taps), one.kernel) for one in phases(8, 2, 2, 0, 1)] == [(0, 2, 1)]
    assert [(one.first, len(one.taps), one.kernel) for one in phases(8, 4, 2, 2, 1)] == [(0, 2, 2)]
    assert [(one.first, len(one.taps), one.kernel) for one in phases(8, 4, 2, 1, 1)] == [
        (0, 1, 2), (1, 1, 2)]
    assert [(one.first, len(one.taps)) for one in phases(9, 9, 3, 0, 1, most=2)] == [(0, 2), (2, 1)]
    assert [(one.first, len(one.taps), one.kernel) for one in phases(8, 3, 2, 1, 1)] == [
        (0, 1, 1), (1, 1, 2)]


def test_phases_without_taps_join_their_neighbours() -> None:
    (only,) = phases(9, 1, 3, 1, 1)
    assert only.taps == ((), (), (0,)) and only.before == -1


def test_phases_of_different_length_are_apart() -> None:
    assert [(one.first, one.outputs) for one in phases(5, 2, 2, 0, 1)] == [(0, 3), (1, 2)]
