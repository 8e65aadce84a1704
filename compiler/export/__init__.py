"""Networks outside of Python: one description of their interface, and what is written from it."""
