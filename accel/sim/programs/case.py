"""A program to run, with the memory around it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.machine.program import AccelProgram


@dataclass(frozen=True)
class Case:
    """A program, the memory that it starts with, and how that memory behaves.

    `fault` says what is wrong with the program; empty: it is legal.
    """

    name: str
    program: AccelProgram
    memory: np.ndarray
    timing: Mapping[str, Any]
    fault: str = ""
