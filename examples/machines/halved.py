"""The machine of `sparse.py` without the shipped `gemm`: half as many multipliers.

A layer whose weights are 2:4 sparse takes one pass over its inputs, any other layer two.
"""

from pathlib import Path

from accel.machine.loading import load_machine
from accel.machine.machine import Machine

both = load_machine(Path(__file__).with_name("sparse.py"))
machine = Machine(both.config, tuple(one for one in both.declarations if one.name != "gemm"))
