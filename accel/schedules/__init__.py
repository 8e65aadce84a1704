"""How the accelerator's layers are computed."""

from .layers import schedule, schedule_layer, tiles_of
from .tiles import Tiles
