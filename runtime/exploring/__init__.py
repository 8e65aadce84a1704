"""Explores machines: which geometry, instructions and memory serve some networks best."""

from .axes import AxisError, VariedAxis, axes_of_file, axis_of
from .budgets import MachineBudget, budget_of
from .exploration import STRATEGIES, Exploration
from .fronts import hypervolume, non_dominated
from .objectives import OBJECTIVES, ObjectiveError, objectives_of
from .points import ExploredPoint, MachineSpace
from .point_trials import PointTrial, run_point
