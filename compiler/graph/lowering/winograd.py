"""Finds where Winograd's products (`compiler.ops.packed.winograd`) take less time than a
convolution's own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.ops.packed.winograd import KERNEL, SIZES
from compiler.ops.records.node import Attrs

WEIGHT = {"float32": 12, "int8": 6}
"""Products that take as long as a weight takes to come from an outer cache, as words of int8."""
ELEMENT = 10            # products take as long as an element of a tile takes to be transformed
GAIN = 0.9              # less is not worth the memory


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution of these numbers, float32 or int8, with these attributes, shape of its weight
    [Co,Ci,kh,kw] and of its result [N,Co,H,W]. Winograd's products of `sizes` may compute it: of
    int8 those that give it exactly, all else being up to its weights.
    """

    attrs: Attrs
    weight: tuple[int, ...]
    result: tuple[int, ...]
    dtype: str = "float32"
    sizes: tuple[int, ...] = SIZES

    @classmethod
    def of(cls, attrs: Mapping, weight: Sequence[int], result: Sequence[int],
           dtype: str = "float32", sizes: Sequence[int] = SIZES) -> "Convolution":
        return cls(Attrs(attrs), tuple(weight), tuple(result), dtype, tuple(sizes))

    def __str__(self) -> str:
        of = "" if self.dtype == "float32" else f"{self.dtype} by {self.sizes or 'itself'}, "
        return f"{of}{self.weight} to {self.result}: {self.attrs}"

    def times(self) -> dict[int, float]:
        """Estimates of the time by rows and columns of the results of a tile, up to a factor; 0
        stands for the convolution as it is. Other sizes are there only where they compute the same.
        """
        outputs, inputs, *kernel = self.weight
        attrs = dict[str, Any](self.attrs)
        weight = WEIGHT[self.dtype]
        own = KERNEL ** 2 * outputs * inputs * (self.result[2] * self.result[3] + weight)
        if (kernel != [KERNEL, KERNEL] or tuple(attrs["strides"]) != (1, 1)
                or tuple(attrs.get("dilations", (1, 1))) != (1, 1)
                or attrs.get("group", 1) != 1):
            return {0: own}

        def time(size: int) -> float:
            tiles = -(-self.result[2] // size) * -(-self.result[3] // size)
            elements = (size + KERNEL - 1) ** 2
            return elements * (outputs * inputs * (tiles + weight)
                               + ELEMENT * tiles * (inputs + outputs))

        return {**{size: time(size) for size in self.sizes}, 0: GAIN * own}


Sizes = Callable[[Convolution], int]
"""Gives the rows and columns of the results of a tile; 0 for a convolution as it stands."""


def best_size(convolution: Convolution) -> int:
    """The size of least time by estimate: the same on every processor, so that results are."""
    times = convolution.times()
    return min(times, key=times.__getitem__)
