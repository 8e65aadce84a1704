"""Attributes that are computed when they are first read."""

import threading
from dataclasses import dataclass

from compiler.lazy import cached_property


@dataclass(frozen=True)
class Square:
    side: int

    @cached_property
    def area(self) -> list[int]:
        """Side by side."""
        return [self.side**2]


def test_it_is_computed_once() -> None:
    square = Square(3)
    assert square.area == [9] and square.area is square.area
    assert Square(4).area == [16] and Square.area.__doc__ == "Side by side."


def test_one_instance_does_not_wait_for_another() -> None:
    """As in a child that is forked while another thread computes."""
    begun, over = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self) -> int:
            begun.set()
            assert over.wait(60)
            return 1

    class Quick(Slow):
        pass

    slow, quick = Slow(), Quick()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert begun.wait(60)
    other = threading.Thread(target=lambda: quick.value)
    begun.clear()
    other.start()
    assert begun.wait(20)       # the second one computes while the first one does
    over.set()
    thread.join()
    other.join()
    assert slow.value == quick.value == 1
