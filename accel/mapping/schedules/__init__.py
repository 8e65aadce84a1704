"""How the accelerator's layers are computed."""

from .layers import schedule, tiles_of
from .tiles import Cost, Tiles, choose_together, cost_of, shape_of
