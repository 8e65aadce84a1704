"""Which wait takes which token: the k-th signal of a pair of units is for its k-th wait."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from .events import Tokens


@dataclass(slots=True)
class TokenPair:
    """The tokens of one ordered pair of units, numbered from 0: stream positions, ascending."""

    signals: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)

    def given(self, token: int) -> int | None:
        """The event that signals a token; None if none does."""
        return self.signals[token] if token < len(self.signals) else None

    def taken(self, token: int) -> int | None:
        """The event that takes a token; None if none does."""
        return self.waits[token] if token < len(self.waits) else None

    def first_signal(self, position: int) -> int | None:
        """The first token that is signalled at or after a position of the stream."""
        token = bisect_left(self.signals, position)
        return token if token < len(self.signals) else None

    def last_wait(self, position: int) -> int | None:
        """The last token that is taken at or before a position of the stream."""
        token = bisect_right(self.waits, position) - 1
        return token if token >= 0 else None


def pair_masks(names: Sequence[str], units: np.ndarray, waits: np.ndarray,
               signals: np.ndarray) -> dict[tuple[str, str], TokenPair]:
    """The pairs that have a token. Each event has the number of its unit, a mask of those from
    which it takes a token, and one of those to which it gives one.
    """
    pairs: dict[tuple[str, str], TokenPair] = {}
    for one, other in product(range(len(names)), repeat=2):
        mine = units == one
        given = np.flatnonzero(mine & (signals >> other & 1 == 1))
        taken = np.flatnonzero((units == other) & (waits >> one & 1 == 1))
        if given.size or taken.size:
            pairs[names[one], names[other]] = TokenPair(given.tolist(), taken.tolist())
    return pairs


def pair_tokens(units: Sequence[str], tokens: Sequence[Tokens]) -> dict[tuple[str, str], TokenPair]:
    """Pairs the tokens of units, by their names."""
    names = sorted({*units, *(name for token in tokens for name in (*token.waits, *token.signals))})
    numbers = {name: number for number, name in enumerate(names)}
    masks = (np.array([sum(1 << numbers[name] for name in set(named)) for named in part], np.int64)
             for part in ([token.waits for token in tokens], [token.signals for token in tokens]))
    return pair_masks(names, np.array([numbers[unit] for unit in units]), *masks)
