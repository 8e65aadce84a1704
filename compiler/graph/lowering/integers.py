"""The form in which a processor takes weights of integer products, and scales of their sums."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Integers:
    """The instructions of a processor for integers, as passes ask for them.

    words : products of words are added by twos and none of bytes are, so that weights of int8 are
        stored in words, twice as large.
    fused : float32 requantizes in one step, where it holds the sums.
    """

    words: bool = False
    fused: bool = False

    def stored(self, weight: np.ndarray) -> np.ndarray:
        """The weight in the type in which it is stored."""
        return weight.astype(np.int16) if self.words and weight.dtype == np.int8 else weight
