"""The forms of values and constants in memory."""
