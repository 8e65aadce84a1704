"""Operators whose sums have terms of their own, or meet something before they are requantized."""
