"""Loads modules from files."""

from os import PathLike
from pathlib import Path

from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from compiler.errors import called_by_name
from runtime.arguments import require_kind, require_path
from runtime.artifact import Saved, read
from runtime.device import Device, SimulatedDevice, simulator
from runtime.module import Module, Step

__all__ = ["load", "placed"]


@called_by_name
def load(path: str | PathLike[str], *, sim: str = "functional",
         machine: Machine | str | Path | None = None, **options) -> Module:
    """The module that `Module.save` wrote.

    Parameters
    ----------
    sim : the device behind an accelerator, with its `options`: see `runtime.simulator`.
    machine : the accelerator, where it has instructions of one's own: a `Machine`, or its name or
        file, as `accel.machine.loading` has them.

    Raises ArtifactError for a file that is not such a one, or not whole, or for another machine,
    and ArgumentError for arguments that are not of their kind.
    """
    require_path(path)
    require_kind("machine", machine, Machine | str | Path | None, "a Machine, a name or a path")
    simulate = simulator(sim, **options)
    saved = read(path, load_machine(machine) if isinstance(machine, str | Path) else machine)
    return placed(saved, SimulatedDevice(saved.machine, simulate) if saved.machine else None)


def placed(saved: Saved, device: Device | None) -> Module:
    """The module on its device, if it needs one. Raises ProgramError for a device with another
    machine.
    """
    steps = tuple(Step(segment, part, part.on(device)) for segment, part
                  in zip(saved.partition.segments, saved.parts, strict=True))
    return Module(saved.graph, saved.partition, steps, saved.settings, saved.auto, saved.layout)
