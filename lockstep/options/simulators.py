"""The simulators of ``--sim`` that options are about."""

DEFAULT_SIMULATOR, RTL = "cycle", "verilator"
TIMED = ("cycle", "slice")
"""Those that can leave out values."""
