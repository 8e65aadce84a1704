"""Where Winograd's products (`compiler.ops.winograd`) take less time than a convolution's own."""

from collections.abc import Mapping

from compiler.ops.winograd import KERNEL, SIZES

__all__ = ["best_size"]

WEIGHT = 12             # products take as long as a weight takes to come from an outer cache
ELEMENT = 10            # as an element of a tile takes to be transformed
GAIN = 0.9              # less is not worth the memory


def best_size(attrs: Mapping, weight: tuple[int, ...], result: tuple[int, ...]) -> int:
    """Rows and columns of the results of a tile for a convolution with these attributes, shape of
    its weight [Co,Ci,kh,kw] and of its result [N,Co,H,W]; 0 where it is computed as it stands.

    The same on every processor, so that results are.
    """
    outputs, inputs, *kernel = weight
    if (kernel != [KERNEL, KERNEL] or tuple(attrs["strides"]) != (1, 1)
            or tuple(attrs.get("dilations", (1, 1))) != (1, 1) or attrs.get("group", 1) != 1):
        return 0

    def time(size: int) -> float:
        tiles = -(-result[2] // size) * -(-result[3] // size)
        elements = (size + KERNEL - 1) ** 2
        return elements * (outputs * inputs * (tiles + WEIGHT)
                           + ELEMENT * tiles * (inputs + outputs))

    own = KERNEL ** 2 * outputs * inputs * (result[2] * result[3] + WEIGHT)
    best = min(SIZES, key=time)
    return best if time(best) <= GAIN * own else 0
