"""Results of synthesis and place and route of machines: the data that the models are fitted to.

A run is a line of JSON in ``data/area.jsonl`` or ``data/clock.jsonl``. It holds the machine in
plain data, so that the model can be fitted again whenever its features change.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accel.machine.config import AccelConfig
from accel.machine.intrinsics import SHIPPED
from accel.machine.loading import load_machine
from accel.machine.machine import Machine

DATA = Path(__file__).parent / "data"

EXAMPLES = Path(__file__).parents[2] / "examples" / "machines"


@dataclass(frozen=True)
class MachineSpec:
    """A machine in plain data.

    Parameters
    ----------
    geometry : fields of `AccelConfig` that a file may set.
    declared : the file of ``examples/machines`` whose instructions it has; empty for the shipped
        ones.
    without : names of shipped instructions that it does not have.
    """

    geometry: Mapping[str, Any]
    declared: str = ""
    without: tuple[str, ...] = ()

    @property
    def machine(self) -> Machine:
        declared = load_machine(EXAMPLES / self.declared).declarations if self.declared else SHIPPED
        return Machine(AccelConfig(**self.geometry), tuple(
            declaration for declaration in declared if declaration.name not in self.without))


@dataclass(frozen=True)
class Synthesis:
    """The result of yosys for a machine's core, or for one unit by itself.

    Parameters
    ----------
    spec, hash : the machine.
    held_back : no model is fitted to it.
    parts : cells by type, by unit or part of a unit (``load.front``).
    tool : yosys and its version.
    unit : the unit; empty for the core.
    """

    spec: MachineSpec
    hash: str
    held_back: bool
    parts: Mapping[str, Mapping[str, int]]
    tool: str
    unit: str = ""


@dataclass(frozen=True)
class Routing:
    """The result of nextpnr for a machine's core, bare or on a board.

    Parameters
    ----------
    spec, hash, held_back : those of `Synthesis`.
    seeds : the clock in MHz that each seed reached.
    path : nanoseconds on the critical path of the first seed, by unit.
    tool : nextpnr and its version.
    board : the board of a whole bitstream; empty for a bare core.
    """

    spec: MachineSpec
    hash: str
    held_back: bool
    seeds: Mapping[str, float]
    path: tuple[tuple[str, float], ...]
    tool: str
    board: str = ""


def syntheses(path: Path = DATA / "area.jsonl") -> tuple[Synthesis, ...]:
    """The runs of yosys, in the order of the file."""
    return tuple(Synthesis(_spec(line.pop("spec")), **line) for line in _lines(path))


def routings(path: Path = DATA / "clock.jsonl") -> tuple[Routing, ...]:
    """The runs of nextpnr, in the order of the file."""
    return tuple(Routing(_spec(line.pop("spec")), path=tuple(map(tuple, line.pop("path"))), **line)
                 for line in _lines(path))


def append(run: Synthesis | Routing, path: Path) -> None:
    """Appends a run to its file."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(run)) + "\n")


def _spec(fields: dict[str, Any]) -> MachineSpec:
    return MachineSpec(fields["geometry"], fields["declared"], tuple(fields["without"]))


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    return map(json.loads, path.read_text().splitlines()) if path.exists() else ()
