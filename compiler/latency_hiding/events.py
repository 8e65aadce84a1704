"""Events: what an instruction touches, as far as its order with others is concerned.

A **stream** is a sequence of events. Performing them one at a time in stream order is its
meaning. Each unit performs its own events in stream order and finishes them in that order;
different units run at their own pace, held back by tokens alone:

    an event takes one token from each unit in `waits` before it starts, and gives one to each
    unit in `signals` when it has finished. There is one counter for each ordered pair of units,
    so the k-th signal of a pair is taken by its k-th wait.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class AddressSet:
    """A set of addresses of one memory that an event reads, or writes.

    Parameters
    ----------
    memory : its name.
    addresses : a half-open interval (start, stop), or an int64 array of distinct addresses in
        any order. They count whatever the memory is divided into (bytes, entries), from zero.
    write : whether they are written. What an event reads, it reads before it writes.
    """

    memory: str
    addresses: np.ndarray | tuple[int, int]
    write: bool = False

    def __post_init__(self):
        if isinstance(self.addresses, tuple):
            start, stop = self.addresses
            if not 0 <= start <= stop:
                raise ValueError(f"Interval of {self.memory} must be (start, stop) with "
                                 f"0 <= start <= stop, not {self.addresses!r}")
        elif self.addresses.ndim != 1 or self.addresses.dtype.kind not in "iu":
            raise ValueError(f"Addresses of {self.memory} must be a vector of integers, not "
                             f"{self.addresses.dtype} of shape {self.addresses.shape}")
        elif self.addresses.size and self.addresses.min() < 0:
            raise ValueError(f"Addresses of {self.memory} must not be negative, "
                             f"not {int(self.addresses.min())}")

    @property
    def index(self) -> np.ndarray | slice:
        """The index that picks the addresses out of an array over the whole memory."""
        return slice(*self.addresses) if isinstance(self.addresses, tuple) else self.addresses

    @property
    def stop(self) -> int:
        """One past the highest address; 0 for the empty set."""
        if isinstance(self.addresses, tuple):
            return self.addresses[1]
        return int(self.addresses.max()) + 1 if self.addresses.size else 0

    def intervals(self) -> np.ndarray:
        """The set as half-open intervals, ascending, with gaps between them: [count, 2]."""
        if isinstance(self.addresses, tuple):
            return np.array([self.addresses], np.int64)
        addresses = np.unique(self.addresses)
        cuts = np.flatnonzero(np.diff(addresses) > 1)
        return np.stack((np.concatenate((addresses[:1], addresses[cuts + 1])),
                         np.concatenate((addresses[cuts], addresses[-1:])) + 1), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One instruction: who performs it, what it touches, what a message calls it."""

    unit: str
    accesses: tuple[AddressSet, ...] = ()
    label: str = ""

    def reads(self) -> tuple[AddressSet, ...]:
        return tuple(access for access in self.accesses if not access.write)

    def writes(self) -> tuple[AddressSet, ...]:
        return tuple(access for access in self.accesses if access.write)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The units from which an event takes a token, and those to which it gives one."""

    waits: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()

