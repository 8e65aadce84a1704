"""Waveforms of a layer: which instructions, and the file."""

from dataclasses import dataclass
from pathlib import Path

from accel.machine.program import AccelProgram


@dataclass(frozen=True, slots=True)
class Waves:
    """A wish for a file (FST) of all signals while a layer runs: from the first start of its
    instructions to their last retirement. Programs without the layer run as ever."""

    layer: str
    path: Path

    def instructions(self, program: AccelProgram) -> tuple[int, int] | None:
        """The first of the layer's instructions and one past the last; None: none of it runs."""
        begin = 0
        for name, end in program.layers:
            if name == self.layer and end > begin:
                return begin, end
            begin = end
        return None
