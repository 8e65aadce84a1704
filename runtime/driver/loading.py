"""Loads modules from files."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from compiler.errors import called_by_name
from runtime.arguments import require_kind, require_path
from runtime.artifact import Saved, read
from runtime.devices.device import Device, SimulatedDevice, simulator
from runtime.module import Module, Step
from runtime.driver.targets import gpu_device, is_gpu


@called_by_name
def load(path: str | PathLike[str], *, sim: str = "functional",
         machine: Machine | str | Path | None = None, **options) -> Module:
    """Reads the module that `Module.save` wrote.

    Raises ArtifactError for a file that is not such a one, or not whole, or for another machine,
    and ArgumentError for arguments that are not of their kind.

    Parameters
    ----------
    sim : the device behind an accelerator, with its `options`: see `runtime.simulator`.
    machine : the accelerator, where it has instructions of one's own: a `Machine`, or its name or
        file, as `accel.machine.loading` has them.
    """
    require_path(path)
    require_kind("machine", machine, Machine | str | Path | None, "a Machine, a name or a path")
    simulate = simulator(sim, **options)
    saved = read(path, load_machine(machine) if isinstance(machine, str | Path) else machine)
    return placed(saved, SimulatedDevice(saved.machine, simulate) if saved.machine else None)


def placed(saved: Saved, device: Device | None, gpu: Callable[[str], Any] = gpu_device) -> Module:
    """The module on the device of its accelerator, if it needs one, and on those that `gpu` has by
    the names of targets. Raises ProgramError for a device with another machine, and DeviceMissing.
    """
    names = dict.fromkeys(segment.target for segment in saved.partition.segments)
    devices = {name: gpu(name) if is_gpu(name) else device for name in names}
    steps = tuple(Step(segment, part, part.on(devices[segment.target])) for segment, part
                  in zip(saved.partition.segments, saved.parts, strict=True))
    return Module(saved.graph, saved.partition, steps, saved.settings, saved.auto, saved.layout,
                  saved.scales)
