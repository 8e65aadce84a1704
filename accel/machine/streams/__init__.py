"""Instructions of stream units: a row of entries in, a row of entries out, by a component."""

from .form import LONGEST, ROWS, StreamForm, integers_of, misfits
from .layers import Applied, Bound, Computes
from .shape import StreamShape, number
