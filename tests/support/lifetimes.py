"""What holds of every allocation of memory by lifetimes."""

from collections.abc import Mapping


def assert_apart(offsets: Mapping[str, int], sizes: Mapping[str, int],
                 lives: Mapping[str, tuple[int, int]], total: int) -> None:
    """Every value lies on a multiple of 64 within `total` bytes, and none that live at the same
    time (first and last step, both included) share a byte."""
    assert set(offsets) == set(sizes)
    for one, start in offsets.items():
        assert start % 64 == 0 and 0 <= start and start + sizes[one] <= total
        for other, begin in offsets.items():
            alive = lives[one][0] <= lives[other][1] and lives[other][0] <= lives[one][1]
            apart = start + sizes[one] <= begin or begin + sizes[other] <= start
            assert one == other or apart or not alive
