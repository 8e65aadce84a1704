"""How the accelerator's layers are computed."""

from .layers import schedule, tiles_of
from .shared import NamedProgram, prefix_of, scheduled
from .tiles import (Cost, Shape, Tiles, choose_together, cost_of, fits, follows, misfit, ranked,
                    ranked_together, shape_of)
