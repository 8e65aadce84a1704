"""The instructions of a machine in words: facts from the declarations, and pages of them."""

from .instructions import Facts, FormFacts, facts, facts_of
from .timing import UnitTiming
from .words import WordField, fields_of
