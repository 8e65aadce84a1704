"""Machines of many shapes for tests of the compiler."""

from dataclasses import replace
from pathlib import Path

from accel.machine.config import load, preset
from accel.machine.intrinsics import instructions
from accel.machine.loading import load_machine
from accel.machine.machine import Machine

__all__ = ["GEOMETRIES", "HALVED", "LONG", "MACHINES", "PACKED", "SHORT", "SPARSE", "TINY",
           "example", "machine"]

GEOMETRIES = Path(__file__).parents[2] / "examples" / "geometries"

TINY = Machine(preset("tiny-1x4x4"))
SHORT = Machine(replace(TINY.config, name="short", inp_bytes=64, wgt_bytes=128, res_bytes=64,
                        par_bytes=128, acc_bytes=256, out_bytes=32))
"""Buffers of a few entries: nearly every layer is cut in every way."""


LONG = Machine(replace(TINY.config, name="int16"), instructions("int16", "int8", "int16"))
"""Activations of 16 bits."""

PACKED = Machine(replace(TINY.config, name="packed", weight_bits=(8, 4, 2)))
"""Weights may have fewer bits in memory."""


def example(name: str, like: Machine = TINY) -> Machine:
    """The instructions of one of ``examples/machines`` in another geometry."""
    file = GEOMETRIES.parent / "machines" / f"{name}.py"
    return Machine(like.config, load_machine(file).declarations)


SPARSE, HALVED = example("sparse"), example("halved")
"""Weights of which two in four are zero: beside gemm, and alone."""


def machine(name: str) -> Machine:
    """One of ``examples/geometries``."""
    return Machine(load(GEOMETRIES / f"{name}.toml"))


MACHINES = {one.config.name: one for one in (
    TINY, machine("2x8x8"), machine("1x32x16"), SHORT,
    Machine(replace(TINY.config, name="short-batch", batch=2, inp_bytes=256, wgt_bytes=512,
                    res_bytes=256, par_bytes=128, acc_bytes=512, out_bytes=64)))}
"""By name."""
