"""The names of the two targets that every division of a network knows.

They stand in segments, copies, reports and pins.
"""

ACCEL = "accel"
HOST = "host"
