"""Drawing rules by family; to import this is to register them."""

from bench.values.rules import (computed, elementwise, integers, movement, others, products,
                                reductions)
from bench.values.rules.others import NOT_DRAWN
from bench.values.rules.registry import QUANTIZED, RULES, TYPES, Rule, allows, readers
