"""Structures other than the shipped one."""

from dataclasses import replace

from accel.machine.config import AccelConfig
from accel.machine.intrinsics import SHIPPED, also_on
from accel.machine.machine import Machine
from accel.machine.structure import SHIPPED_STRUCTURE, Structure, UnitKind

NAMES = {
    "load": "reader", "gemm": "mac", "vector": "lanes", "store": "writer",
    "inp": "pixels", "wgt": "filters", "res": "tiles", "par": "factors", "acc": "sums",
    "out": "results", "tab": "tables"}
"""Other names for all shipped units and buffers."""


def renamed(config: AccelConfig) -> AccelConfig:
    """The geometry with every unit and every buffer renamed."""
    return replace(config, structure=SHIPPED_STRUCTURE.renamed(NAMES))


def two_vectors(config: AccelConfig) -> Machine:
    """A machine with a second unit of vector, which writes a buffer of its own."""
    structure = SHIPPED_STRUCTURE.with_vector("vector2", "out2")
    return Machine(replace(config, structure=structure), SHIPPED + also_on("vector2", SHIPPED))


def reversed_units(config: AccelConfig) -> Machine:
    """Two units of vector before gemm, units and buffers in another order than the shipped ones."""
    two = two_vectors(config)
    units, buffers = two.structure.units[::-1], two.structure.buffers[::-1]
    return Machine(replace(two.config, structure=Structure(units, buffers)), two.declarations)


def reversed_but_vectors(config: AccelConfig) -> Machine:
    """The same, but the shipped unit of vector stands before the other one."""
    other = reversed_units(config)
    vectors = iter(other.structure.of_kind(UnitKind.VECTOR)[::-1])
    units = tuple(next(vectors) if unit.kind is UnitKind.VECTOR else unit
                  for unit in other.structure.units)
    return Machine(replace(other.config, structure=Structure(units, other.structure.buffers)),
                   other.declarations)
