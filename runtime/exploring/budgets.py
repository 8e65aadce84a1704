"""Limits of what a machine may cost: ``luts<=50000``, ``mhz>=80``, ``energy*ms<=2``."""

import re
from dataclasses import dataclass

from runtime.exploring.objectives import MeasuredPoint, Objective, ObjectiveError, objectives_of


@dataclass(frozen=True, slots=True)
class MachineBudget:
    """The most, or the least, of an objective."""

    objective: Objective
    most: bool
    limit: float

    def refusal(self, point: MeasuredPoint) -> str:
        """Why a point is beyond the limit; "" for one that is not."""
        value = self.objective.of(point).value
        if value <= self.limit if self.most else value >= self.limit:
            return ""
        return (f"{self.objective.name} must be at {'most' if self.most else 'least'} "
                f"{self.limit:,.10g}, not {value:,.10g}")


def budget_of(text: str) -> MachineBudget:
    """Parses ``OBJECTIVE<=NUMBER`` or ``OBJECTIVE>=NUMBER``. Raises ObjectiveError."""
    found = re.fullmatch(r"\s*(.+?)\s*(<=|>=)\s*(\d+(?:\.\d+)?)([kM]?)\s*", text)
    if not found:
        raise ObjectiveError(f"A budget must be OBJECTIVE<=NUMBER or OBJECTIVE>=NUMBER, not "
                             f"{text!r}")
    name, sign, number, suffix = found.groups()
    objective, = objectives_of([name])
    limit = float(number) * {"": 1, "k": 1e3, "M": 1e6}[suffix]
    return MachineBudget(objective, sign == "<=", limit)
