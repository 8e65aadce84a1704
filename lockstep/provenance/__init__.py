"""Provenance: what results follow from, in the JSON and on the pages of commands that measure."""

from .asked import Asked
from .measured import differences, unmeasured
from .texts import provenance_lines
