"""Networks that machines are explored with: files in int8, or in float with samples."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from accel.machine.machine import Machine
from runtime.driver.calibrated import Calibration, file_digest


@dataclass(frozen=True)
class ExploredNetwork:
    """A network: its name, its file, and the file's hash.

    Parameters
    ----------
    calibration : by which each machine gets it quantized; None for one that is taken as it is.
    accuracy : of what was quantized. shapes : extents of dimensions that the file leaves open.
    """

    name: str
    path: Path
    digest: str
    calibration: Calibration | None = None
    accuracy: float | None = None
    shapes: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, name: str, path: Path, calibration: Calibration | None = None,
           shapes: Iterable[tuple[str, int]] = ()) -> "ExploredNetwork":
        """Raises ImportRefused where a calibration needs to know what the file holds."""
        in_float = calibration is not None and calibration.takes(path)
        return cls(name, path, file_digest(path), calibration if in_float else None,
                   shapes=tuple(shapes))

    def on(self, machine: Machine) -> "ExploredNetwork":
        """The network that this machine computes. Raises QuantizeRefused."""
        if self.calibration is None:
            return self
        made = self.calibration.quantized(self.path, machine)
        return ExploredNetwork(self.name, made.path, made.digest, None, made.accuracy, self.shapes)
