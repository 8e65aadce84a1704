"""How the accelerator's layers are computed."""

from .cost import Cost
from .layers import schedule, tiles_of
from .shared import NamedProgram, prefix_of, scheduled
from .tiles import (Shape, Tiles, choose_together, cost_of, cost_together, fits, follows, misfit,
                    ranked, ranked_together, shape_of)
