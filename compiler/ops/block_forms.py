"""How an operator computes the same on images in blocks of channels, [N,C/16,H,W,16].

Elementwise operators do so as they stand; other ones whose records have a form do so where the
form's attributes are not None.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["BlockForm"]


@dataclass(frozen=True, slots=True)
class BlockForm:
    """The operator `op` with ``attrs(attrs)`` is the same on blocks; with `whole` only where every
    input has whole blocks.
    """

    op: str
    attrs: Callable[[Mapping], Mapping | None]
    whole: bool = False
