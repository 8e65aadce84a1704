"""Which wait takes which token: the k-th signal of a pair of units is for its k-th wait."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from .events import Tokens

__all__ = ["TokenPair", "pair_tokens"]


@dataclass(slots=True)
class TokenPair:
    """The tokens of one ordered pair of units, numbered from 0: stream positions, ascending."""

    signals: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)

    def given(self, token: int) -> int | None:
        """Who signals a token; None if nobody does."""
        return self.signals[token] if token < len(self.signals) else None

    def taken(self, token: int) -> int | None:
        """Who takes a token; None if nobody does."""
        return self.waits[token] if token < len(self.waits) else None

    def first_signal(self, position: int) -> int | None:
        """The first token that is signalled at or after a position of the stream."""
        token = bisect_left(self.signals, position)
        return token if token < len(self.signals) else None

    def last_wait(self, position: int) -> int | None:
        """The last token that is taken at or before a position of the stream."""
        token = bisect_right(self.waits, position) - 1
        return token if token >= 0 else None


def pair_tokens(units: Sequence[str], tokens: Sequence[Tokens]) -> dict[tuple[str, str], TokenPair]:
    """The pairs that have a token; `units` and `tokens` hold those of each event."""
    pairs: dict[tuple[str, str], TokenPair] = {}
    for position, (unit, token) in enumerate(zip(units, tokens, strict=True)):
        for source in token.waits:
            pairs.setdefault((source, unit), TokenPair()).waits.append(position)
        for target in token.signals:
            pairs.setdefault((unit, target), TokenPair()).signals.append(position)
    return pairs
