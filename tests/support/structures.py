"""Structures other than the shipped one."""

from dataclasses import replace

from accel.machine.config import AccelConfig
from accel.machine.intrinsics import SHIPPED, also_on
from accel.machine.machine import Machine
from accel.machine.structure import SHIPPED_STRUCTURE, Port, Structure

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
    shipped = SHIPPED_STRUCTURE
    vector, store, out = shipped.unit("vector"), shipped.unit("store"), shipped.buffer("out")
    second = replace(vector, name="vector2", ports=tuple(
        replace(port, buffer="out2") if port.buffer == "out" else port for port in vector.ports))
    structure = Structure(
        (*(replace(unit, ports=(*unit.ports, Port("src", "out2"))) if unit is store else unit
           for unit in shipped.units), second),
        (*shipped.buffers, replace(out, name="out2")))
    return Machine(replace(config, structure=structure), SHIPPED + also_on("vector2", SHIPPED))
