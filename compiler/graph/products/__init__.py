"""Products that nothing quantizes, as sums of integers."""
