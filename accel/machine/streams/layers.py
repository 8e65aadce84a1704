"""Functions of networks that an instruction of a stream unit computes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Bound = tuple[Mapping[str, int], np.ndarray | None]
"""The immediates of a layer's instructions, and the elements of the table."""


@dataclass(frozen=True)
class Applied:
    """An operator of a network as it is applied: its attributes, and its constants in order."""

    attrs: Mapping[str, Any]
    constants: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Computes:
    """A function of rows, along the last axis of a tensor, that one instruction computes.

    The compiler takes the instruction where its layer needs fewer cycles than other instructions.
    Rows lie along lanes: an entry has `lanes` elements of a row, the last entry perhaps fewer, and
    what is behind these is arbitrary.

    Parameters
    ----------
    operators : operators of integer graphs (docs/operators.md), each on the result of the one
        before it. The meaning of the instruction must be theirs, to the bit.
    bind : ``bind(elements, lanes, *applied)`` gives the `Bound` of rows of so many elements, for
        the `Applied` of each operator; None where the instruction does not compute these.
    cycles : ``cycles(n)``: from a row of n entries to the next one, by which layers are compared.
    repeats : rows that are read are one entry each, which is read again for every entry of a row
        of the result. Else rows of the result are as long as those that are read.
    """

    operators: tuple[str, ...]
    bind: Callable[..., Bound | None]
    cycles: Callable[[int], int]
    repeats: bool = False

    def __post_init__(self):
        if not (isinstance(self.operators, tuple) and self.operators
                and all(isinstance(name, str) for name in self.operators)):
            raise ValueError(f"Operators of Computes must be a tuple of names, not "
                             f"{self.operators!r}")
        for what, function in (("Bind", self.bind), ("Cycles", self.cycles)):
            if not callable(function):
                raise ValueError(f"{what} of Computes must be a function, not {function!r}")
