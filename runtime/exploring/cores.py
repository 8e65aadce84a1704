"""Figures of the cores of machines as tools built them, beside the estimates."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from compiler.tune.space import Result


@dataclass(frozen=True, slots=True)
class BuiltCore:
    """The figures of a machine's bare core as tools built it.

    Parameters
    ----------
    figures : by the names of objectives: luts, registers, multipliers and block_rams by yosys, and
        mhz by nextpnr where it was routed.
    tools : the programs that made it, with their versions.
    device : the FPGA that it was placed on; "" where it was not.
    error : why a figure that was asked for is missing; "" where none is.
    """

    figures: Mapping[str, float]
    tools: tuple[str, ...]
    device: str = ""
    error: str = ""

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, result: Result) -> "BuiltCore":
        """Reads the result of a trial; one that was lost has an error alone."""
        if not result.details:
            return cls({}, (), error=result.error)
        fields = json.loads(result.details)
        return cls(**fields | {"tools": tuple(fields["tools"])})

    def error_of(self, name: str, estimate: float) -> float:
        """The error of an estimate, relative to the figure."""
        return estimate / max(self.figures[name], 1) - 1
