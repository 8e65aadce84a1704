"""From scheduled loop programs to instructions."""

from .emit import lower
from .memory import Room, TensorPlacement, room_of
from .nest import LoweringError
