"""Schedules of the accelerator's layers."""

from .cost import Cost
from .demands import cost_of, cost_together, needs_of
from .layers import schedule, tiles_of
from .ranking import (all_that_fit, choose_together, fits, follows, misfit, near, ranked,
                      ranked_together)
from .shared import NamedProgram, prefix_of, require_instructions, scheduled, text_of
from .tiles import Shape, Tiles, most_threads, next_larger, shape_of
