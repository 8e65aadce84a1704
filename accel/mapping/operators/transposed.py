"""Transposed convolutions as convolutions, one for the output pixels that see the same window.

With stride s, output rows r, r + s, r + 2s, ... are **phase** r. Those taps k of the kernel reach
them for which k * dilation is r + pad modulo s; they are a kernel of their own, with stride 1 and
a dilation of its own, and no product is with a zero between pixels. Phases whose windows are alike
are computed together.
"""

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True, slots=True)
class Phases:
    """Neighbouring phases along one axis, from `first`, with `outputs` pixels each.

    `taps` are the taps of each phase in the order of the window's pixels, () where none reaches it.
    A window begins `before` pixels before the pixel with its number.
    """

    first: int
    outputs: int
    taps: tuple[tuple[int, ...], ...]
    before: int
    dilation: int

    @property
    def kernel(self) -> int:
        """The number of taps of the window."""
        return max(1, *map(len, self.taps))


def phases(outputs: int, kernel: int, stride: int, pad: int, dilation: int,
           most: int = 1 << 16) -> list[Phases]:
    """All phases along an axis of `outputs` pixels, at most so many joined."""
    result: list[Phases] = []
    for number in range(min(stride, outputs)):
        phase = _phase(number, outputs, kernel, stride, pad, dilation)
        last = result[-1] if result else None
        if (last is not None and len(last.taps) < most
                and (joined := _joined(last, phase)) is not None):
            result[-1] = joined
        else:
            result.append(phase)
    return result


def _phase(number: int, outputs: int, kernel: int, stride: int, pad: int,
           dilation: int) -> Phases:
    """One phase: tap k of output ``stride * t + number`` reads pixel ``t + (number + pad - k *
    dilation) / stride`` where that is whole.
    """
    taps = [k for k in range(kernel) if (number + pad - k * dilation) % stride == 0][::-1]
    before = -((number + pad - taps[0] * dilation) // stride) if taps else 0
    count = len(range(number, outputs, stride))
    return Phases(number, count, (tuple(taps),), before, dilation // gcd(stride, dilation))


def _joined(a: Phases, b: Phases) -> Phases | None:
    """Joins two phases that see one window; a phase without a window joins any. Else None."""
    if a.outputs != b.outputs:
        return None
    empty, other = not any(a.taps), not any(b.taps)
    if not (empty or other) and (a.before, a.kernel) != (b.before, b.kernel):
        return None
    return Phases(a.first, a.outputs, a.taps + b.taps, b.before if empty else a.before,
                  a.dilation)
