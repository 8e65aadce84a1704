"""Trials of cores: what yosys, and if asked nextpnr, make of a machine's bare core.

A trial is text, so that it can be run by another process (`runtime.tuning.children`, which imports
this module). What comes back is a `runtime.exploring.cores.BuiltCore`, with the seconds that the
tools took: none where the cache has what they make.
"""

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from compiler.native import BuildError
from fpga.building import bare_core, flow
from fpga.building.tools import Tools
from runtime.exploring.cores import BuiltCore
from runtime.exploring.point_trials import machine_of
from runtime.tuning.kinds import register_kind

BEGIN = '{"core": '
SEED = 1                # of the placement


@dataclass(frozen=True, slots=True)
class CoreTrial:
    """A core that is to be built.

    Parameters
    ----------
    name : of the machine, in messages.
    toml, sources, machine_hash : the machine, as in `runtime.exploring.point_trials.PointTrial`.
    routed : whether nextpnr is to place and route it, on the smallest ECP5 with room for it.
    """

    name: str
    toml: str
    sources: tuple[str, ...]
    machine_hash: str
    routed: bool = False

    @property
    def text(self) -> str:
        return json.dumps({"core": asdict(self)})

    @classmethod
    def of(cls, text: str) -> "CoreTrial":
        fields = json.loads(text)["core"]
        return cls(**fields | {"sources": tuple(fields["sources"])})


def run_core(text: str) -> tuple[float, str]:
    """Builds a core; gives the seconds that tools took, and the text of what was built. Raises
    BuildError where yosys fails, ArgumentError where the machine is another one here.
    """
    trial = CoreTrial.of(text)
    tools = Tools("yosys", "nextpnr") if trial.routed else Tools("yosys")
    machine = machine_of(trial.toml, trial.sources, trial.machine_hash)
    begin = time.time()
    netlist, registers = bare_core.synthesize(machine, tools)
    seconds = _made_in(netlist, begin)
    taken = flow.taken(sum(bare_core.parts_of(netlist / "top.json").values(), Counter()))
    built = BuiltCore(taken, (tools.yosys.version,))
    if not trial.routed:
        return seconds, built.text
    begin = time.time()
    try:
        # Registers of the harness are placed, too.
        device = bare_core.smallest(taken | {"registers": taken["registers"] + registers},
                                    trial.name)
        placed = flow.place(netlist, bare_core.options(device), SEED, tools)
    except BuildError as error:
        return seconds, replace(built, error=" ".join(str(error).split())).text
    routed = BuiltCore(taken | {"mhz": round(placed.mhz, 2)},
                       (tools.yosys.version, tools.nextpnr.version),
                       f"LFE5U-{device.upper().replace('K', 'F')}")
    return seconds + _made_in(placed.folder, begin), routed.text


register_kind(BEGIN, run_core)


def _made_in(entry: Path, begin: float) -> float:
    """The seconds since `begin` where an entry of the cache was made since then, else 0."""
    return time.time() - begin if entry.stat().st_mtime >= begin else 0.0
