"""The stages of a segment between its graph and its words, as texts that people read."""

from .program_text import listing
from .way import STAGES, Way, stages_of
