"""The argument of a declared intrinsic's rule, which writes its instructions as C.

A rule ``lower(call) -> list[str]`` gives the statements. An intrinsic of the unit ``thread`` is run
by each thread for itself; one of the unit ``warp`` by the 32 threads of a warp together, which lie
along ``threadIdx.x``. What a warp holds together has the scope ``fragment``: of each tile of it,
every thread has the same number of elements.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SimtTile:
    """An operand's tile: its first element as an lvalue, and the distance of neighbours in each
    of its dimensions, in elements. Of a fragment, `element` is the array of the thread's elements.
    Of a swizzled buffer (`Buffer.swizzle`), it is the first of all rows, and `place` the row and
    the column where the tile begins. For the TMA, `element` of an array in global memory is its
    map, and `place` where the tile begins in each dimension.
    """

    element: str
    pitches: tuple[int, ...]
    place: tuple[str, ...] = ("0", "0")
    swizzle: tuple[int, int, int] = (1, 1, 1)

    @property
    def address(self) -> str:
        return f"&{self.element}"


@dataclass(frozen=True, slots=True)
class SimtCall:
    """One use of an intrinsic.

    Parameters
    ----------
    tiles : by name of the operand, the destination among them.
    begins : the condition under which the reduction begins here, ``true`` and ``false`` literally.
    needs : ``needs(name)`` asks for a helper of `dialects.HELPERS`.
    signal : of a copy by the TMA, the address of the barrier at which its bytes arrive.
    """

    tiles: Mapping[str, SimtTile]
    begins: str
    needs: Callable[[str], None]
    signal: str = ""
