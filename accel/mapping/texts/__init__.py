"""The stages of a segment between its graph and its words, as texts that people read."""

from .program import listing
from .prefixes import prefixes_text
from .way import STAGES, Way, stages_of
