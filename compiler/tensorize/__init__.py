"""Declared tensor intrinsics and the matcher that finds them in loop programs."""

from .intrinsic import ANY, UPDATES, Immediate, Intrinsic, Operand
from .match import MatchError, match
