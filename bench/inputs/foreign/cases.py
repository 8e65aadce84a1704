"""What the scripts of all tools do: ``python TOOL.py FOLDER SIZE NETWORK.CASE...``."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Case:
    """A mode of a tool for one network. Files go into the folder, under the `stem`."""

    folder: Path
    size: str
    network: str
    mode: str
    tool: str

    @property
    def stem(self) -> str:
        return f"{self.network}.{self.tool}-{self.mode}"

    def path(self, suffix: str) -> Path:
        return self.folder / f"{self.stem}{suffix}"

    def keep(self, x: np.ndarray, y: np.ndarray, framework: str) -> None:
        """Writes the sample beside the file, with what the tool's own runtime makes of it."""
        np.savez_compressed(self.path(".npz"), x0=np.asarray(x), y0=np.asarray(y),
                            framework=framework)


def slimmed(path: Path) -> None:
    """Leaves out what PyTorch's exporter tells of sources, which is more than the network, and
    takes weights into the file.
    """
    import onnx

    made = onnx.load(path)
    for told in (made.graph, *made.graph.node, *made.graph.value_info):
        told.ClearField("metadata_props")
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)
    onnx.save(made, path)


def make_all(tool: str, make: Callable[[Case], None]) -> None:
    """Makes the files of the cases that the command names. One that the tool fails at leaves a text
    that says so, and no file.
    """
    folder, size, *wanted = sys.argv[1:]
    for text in wanted:
        network, _, mode = text.partition(".")
        case = Case(Path(folder), size, network, mode, tool)
        try:
            make(case)
        except Exception as error:  # noqa: BLE001  -- whatever a tool raises
            for path in case.folder.glob(f"{case.stem}.*"):
                path.unlink()
            case.path(".failed").write_text(f"{type(error).__name__}: {error}"[:200])
