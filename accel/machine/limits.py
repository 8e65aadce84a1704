"""The legal values of a geometry's fields and what they cost, declared beside the field.

The constructors of `AccelConfig` and `Dram` check numbers by it, and docs/geometry.md is written
from it.
"""

from dataclasses import MISSING, Field, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldLimits:
    """The limits of a field.

    Parameters
    ----------
    meaning : what the field says. unit : of its numbers; "" where it is none.
    costs : what more of it takes in hardware or time.
    least, most : of its numbers; None: nothing but the other rules limits it.
    is_power_of_two : its numbers are powers of two.
    rule : what else it must be; the constructor checks that.
    why : the reason for its limits, which refusals tell.
    """

    meaning: str
    unit: str
    costs: str
    least: int = 1
    most: int | None = None
    is_power_of_two: bool = False
    rule: str = ""
    why: str = ""

    def broken(self, value: int) -> str:
        """The first rule that a number breaks, in the words of a refusal; "" for none."""
        if self.is_power_of_two and value & (value - 1):
            return "a power of two"
        return "" if self.least <= value <= (value if self.most is None else self.most) else (
            self.range)

    @property
    def range(self) -> str:
        """The extremes in words: ``from 2 to 64``, ``at least 4``."""
        if self.most is None:
            return f"at least {self.least}"
        return f"from {self.least} to {self.most}"


def limited(meaning: str, unit: str, costs: str, *, default: Any = MISSING, **limits: Any) -> Any:
    """A field of a dataclass, with its `FieldLimits`."""
    return field(default=default, metadata={"limits": FieldLimits(meaning, unit, costs, **limits)})


def limits_of(declared: Field[Any]) -> FieldLimits:
    """The limits that a field was declared with."""
    return declared.metadata["limits"]
