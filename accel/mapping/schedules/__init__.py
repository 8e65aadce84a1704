"""Schedules of the accelerator's layers."""

from .cost import Cost
from .demands import cost_of, cost_together
from .layers import schedule, tiles_of
from .ranking import choose_together, fits, follows, misfit, ranked, ranked_together
from .shared import NamedProgram, prefix_of, require_instructions, scheduled
from .tiles import Shape, Tiles, shape_of
