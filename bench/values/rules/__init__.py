"""Drawing rules by family; to import this is to register them."""

from bench.values.rules import elementwise, integers, movement, products, reductions
from bench.values.rules.registry import QUANTIZED, RULES, TYPES, Rule, allows

__all__ = ["QUANTIZED", "RULES", "TYPES", "Rule", "allows", "elementwise", "integers", "movement",
           "products", "reductions"]
