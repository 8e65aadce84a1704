"""Units and buffers of a machine, as records."""

from .records import (FETCH, IMMEDIATE, MOST_BUFFERS, MOST_UNITS, SEGMENTS, BufferRecord,
                      StructureError, Unit, UnitKind, UnitPort)
from .shipped import SHIPPED_STRUCTURE
from .structure import Roles, Structure
