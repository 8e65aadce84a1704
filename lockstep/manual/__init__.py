"""What a machine's instructions are, in words: facts from the declarations, and pages of them."""

from .instructions import Facts, FormFacts, facts, facts_of
from .timing import UnitTiming
from .words import WordField, fields_of
