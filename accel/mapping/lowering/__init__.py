"""From scheduled loop programs to instructions."""

from .emit import lower
from .memory import Placement, Room, room_of
from .nest import LoweringError
