"""From scheduled loop programs to instructions."""

from .emit import lower
from .memory import Placement
from .nest import LoweringError
