"""Latency hiding: units that work at the same time, held in order by tokens.

How it comes about::

    schedule       virtual_thread on an outer tile loop: two copies of every buffer allocated
                   inside, so that one tile is loaded while the other is computed
    lowering       unrolls the outer loops; consecutive tiles take turns with the copies; each
                   instruction becomes an `Event`: its unit and the exact sets that it touches
    insert_tokens  finds the orderings between units that the stream needs and spends a token
                   on each that does not follow from others
    check          proves the result legal, by reasoning of its own

Streams of millions of instructions come as arrays, in batches (`arrays.py`). Both scans are native
and share nothing but the address sets. Nothing here knows an accelerator: units and memories are
names, addresses are numbers.
"""

from .arrays import LOOPS, SETS, Batch, Measures, last_writers, measure
from .events import AddressSet, Event, Tokens
from .legality import Place, Violation, check, violations_of
from .pairing import TokenPair, pair_masks, pair_tokens
from .tokens import CAPACITY, insert_tokens, token_masks
