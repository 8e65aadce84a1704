"""The area of a machine's core on a chip: gates of logic and registers, and macros of memories.

Gates are those of `accel.estimates.area`, with its interval; memories are counted to the byte. Left
out are wires, rows that are left empty, the clock tree and pads, so that it is a lower bound of a
layout.
"""

from dataclasses import dataclass

from accel.estimates.area import area
from accel.estimates.estimate import Estimate
from accel.estimates.memories import buffer_copies, memory_shapes
from accel.estimates.technology import Silicon
from accel.machine.machine import Machine

UM2 = 1e-6              # mm2


@dataclass(frozen=True, slots=True)
class SiliconArea:
    """Areas in mm2: of the core, of its logic and registers, and of its memories."""

    core: Estimate
    logic: Estimate
    memories: Estimate


def silicon_area(machine: Machine, silicon: Silicon) -> SiliconArea:
    """Estimates the area of a machine's core. Raises `accel.datapath.plan.PlanError` as `area`."""
    gates, each = area(machine).gates, silicon.nand2_um2 * UM2
    memories = _memory_um2(machine, silicon) * UM2

    def beside(rest: float) -> Estimate:
        return Estimate(rest + gates.value * each, rest + gates.low * each,
                        rest + gates.high * each, gates.extrapolated)

    return SiliconArea(beside(memories), beside(0.0), Estimate(memories, memories, memories))


def _memory_um2(machine: Machine, silicon: Silicon) -> float:
    """The area of each memory by its size, where the technology has that; else of all by KiB."""
    if silicon.sram_um2 is None:
        return memory_kib(machine) * silicon.sram_um2_per_kib
    return silicon.rest_um2 + sum(
        count * (silicon.sram_um2 + bits * silicon.sram_um2_per_column
                 + rows * bits / 8192 * silicon.sram_um2_per_kib)
        for (rows, bits), count in memory_shapes(machine).items())


def memory_kib(machine: Machine) -> float:
    """KiB of the buffers and of the shared scratchpad; each reader has a copy of its own, of
    tables one for each lookup."""
    machine = machine.in_roles
    buffers = machine.config.buffers
    return (machine.config.shared_bytes + buffers["acc"].size_bytes + sum(
        copy.ports * buffers[copy.buffer].size_bytes for copy in buffer_copies(machine))) / 1024
