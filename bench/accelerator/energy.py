"""Energy counted from events, beside toggles of the RTL: do they agree?

Three small networks on `tiny-1x4x4`: the digits with a held-out image, the zoo's keywords, and a
chain of random convolutions. Each runs in the cycle simulator, whose counts
`accel.estimates.energy` prices, and in a Verilated core that counts how many bits of its registers
change, and when its memories are enabled (`accel.sim.rtl.toggles`).

1. **Accesses.** Every buffer's reads and writes, as counted, against the cycles in which the ports
   of the RTL's memories were enabled. They must be equal.
2. **Datapaths.** The energy of gemm, vector, load and store, without the clock of registers, which
   toggles do not show, against their toggles. Toggles have no unit of energy: one scale for each of
   these units is fitted on the first network and held for the others. The whole must be within
   15 %.
3. **Ranking.** The layers in order of their energy, with datapaths by events and by toggles. It
   must be the same; layers less than 1 % apart are tied. Beside it, pairs of layers whose datapaths
   alone change places, and the largest difference of such a pair.

Toggles are those of registers, once a cycle: neither glitches nor the clock are seen. Prints a
table and figures; exit status 1 if one of the three fails. The first network gives the scales.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from accel.estimates.energy import Energy, energy
from accel.estimates.technology import Technology, load_technology
from accel.figures.accesses import AccessProfile
from accel.figures.attribution import layer_ends
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.sim.rtl.toggles import Toggles, toggles
from bench.frame import Bench, Sheet
from tests.support.networks import chain_graph
from examples.digits.data import held_out
from lockstep.printing.table import show_columns
from lockstep.testing.models import DIGITS
from lockstep.testing.zoo import build
from runtime import SimulatedDevice, compile_for, simulator

FRAMES = 32
NETWORKS = {"digits": lambda: DIGITS, "keywords": lambda: build("keywords", FRAMES, int8=True),
            "chain": chain_graph}
MOST, TIED = 0.15, 0.01
BUILT = load_technology("45nm")

BENCH = Bench(__file__, __doc__, "tiny-1x4x4")
MODULES = {
    "gemm": ("core.gemm.datapath", "core.gemm.update"),
    "vector": ("core.vector.operands", "core.vector.datapath", "core.vector.update"),
    "load": ("core.load", "core.load.beats"),
    "store": ("core.store", "core.store.writer.beats")}
"""Where the data of a unit pass; control is elsewhere."""
PORTS = {
    "inp.read": ("core.read__en",), "inp.write": ("core.inp.slice*.write__en",),
    "wgt.write": ("core.wgt.slice*.write__en",), "res.read": ("core.res.read__en",),
    "res.write": ("core.res.slice*.write__en",), "par.read": ("core.par.read__en",),
    "par.write": ("core.par.slice*.write__en",), "out.read": ("core.out.read__en",),
    "out.write": ("core.out.slice*.write__en",), "acc.read": ("core.acc.bank*.read__en",),
    "acc.write": ("core.acc.bank*.write__en",)}


@BENCH.part(NETWORKS)
def networks(sheet: Sheet) -> None:
    runs = {name: list(compared(name, sheet.machine)) for name in sheet.cases}
    scale = scales(runs[sheet.cases[0]])
    for name, programs in runs.items():
        _report(sheet, name, programs, scale)
    for unit, pj in scale.items():
        sheet.figure(f"energy_scale_{unit}", pj, ".4f")


@dataclass(frozen=True)
class Comparison:
    """One program of a network, by events and by toggles."""

    network: str
    profile: AccessProfile
    used: Energy
    switched: Energy
    seen: Toggles

    def events(self, unit: str) -> np.ndarray:
        """The energy of a unit in each layer without the clock, in pJ."""
        return np.array([layer.units[unit] for layer in self.switched.layers]) * 1e12

    def toggled(self, unit: str) -> np.ndarray:
        """The toggles of a unit in each layer."""
        return self.seen.of(*MODULES[unit])


def compared(network: str, machine: Machine) -> Iterator[Comparison]:
    """Runs a network, and each of its programs in RTL."""
    found: list[tuple[AccelProgram, np.ndarray, Run]] = []

    def watched(machine: Machine, program: AccelProgram, memory: np.ndarray) -> Run:
        image = memory.copy()
        found.append((program, image, simulator("cycle")(machine, program, memory)))
        return found[-1][2]

    module = compile_for(NETWORKS[network](), SimulatedDevice(machine, watched))
    module(_inputs(network, module.graph))
    for program, image, run in found:
        profile = AccessProfile.of(machine, program, run)
        seen = toggles(machine, program, [*layer_ends(program, run), run.cycles], image)
        yield Comparison(network, profile, energy(profile, machine, BUILT),
                         energy(profile, machine, _without_clock(BUILT)), seen)


def _without_clock(technology: Technology) -> Technology:
    assert technology.energies is not None
    return replace(technology, energies=replace(technology.energies, write_pj=0.0))


def _inputs(network: str, graph) -> dict[str, np.ndarray]:
    if network == "digits":
        return {graph.inputs[0]: held_out()[0][:1]}
    rng, given = np.random.default_rng(0), {}
    for name in graph.inputs:
        kind = graph.values[name]
        given[name] = (rng.integers(-128, 128, kind.shape).astype(np.int8)
                       if kind.dtype == "int8" else rng.random(kind.shape, np.float32))
    return given


def wrong_accesses(one: Comparison) -> dict[str, tuple[int, int]]:
    """The buffers whose counts differ from the ports' in RTL: both numbers."""
    totals, wrong = one.profile.totals(), {}
    for key, patterns in PORTS.items():
        buffer, access = key.split(".")
        counted = sum(count for name, count in totals.items()
                      if name.partition(".")[0] == buffer and name.endswith(access))
        enabled = sum(int(values.sum()) for name, values in one.seen.enabled.items()
                      if any(_matches(name, pattern) for pattern in patterns))
        if counted != enabled:
            wrong[key] = counted, enabled
    return wrong


def _matches(name: str, pattern: str) -> bool:
    before, star, after = pattern.partition("*")
    return name == pattern or bool(star) and name.startswith(before) and name.endswith(after)


def scales(first: Sequence[Comparison]) -> dict[str, float]:
    """The pJ of a toggle of each unit that give a network its energy."""
    return {unit: sum(one.events(unit).sum() for one in first)
            / sum(one.toggled(unit).sum() for one in first) for unit in MODULES}


def datapaths(one: Comparison, scale: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """The energy of the datapaths in each layer, in pJ: by events, and by toggles."""
    return (np.sum([one.events(unit) for unit in MODULES], axis=0),
            np.sum([one.toggled(unit) * scale[unit] for unit in MODULES], axis=0))


def swapped(here: np.ndarray, there: np.ndarray) -> list[float]:
    """The relative differences in `here` of the pairs that have another order in `there`.

    Pairs that are equal in either of them do not count."""
    found = []
    for a, b in combinations(range(len(here)), 2):
        apart = [float((values[a] - values[b]) / max(values[a], values[b], 1e-9))
                 for values in (here, there)]
        if apart[0] * apart[1] < 0 and min(map(abs, apart)) >= TIED:
            found.append(abs(apart[0]))
    return found


def _report(sheet: Sheet, name: str, programs: Sequence[Comparison], scale: Mapping[str, float]
            ) -> None:
    rows, changes, alone, wrong = [], [], [], {}
    sums = {unit: np.zeros(2) for unit in (*MODULES, "all")}
    for one in programs:
        wrong |= wrong_accesses(one)
        events, seen = datapaths(one, scale)
        whole = np.array([layer.joules for layer in one.used.layers]) * 1e12
        changes += swapped(whole, whole - events + seen)
        alone += swapped(events, seen)
        for unit in MODULES:
            sums[unit] += one.events(unit).sum(), one.toggled(unit).sum() * scale[unit]
        sums["all"] += events.sum(), seen.sum()
        rows += [[layer, f"{all_:,.0f}", f"{event:,.0f}", f"{toggle:,.0f}", _off(event, toggle)]
                 for layer, all_, event, toggle in zip(
                     one.profile.layers, whole / 1e3, events / 1e3, seen / 1e3, strict=True)]
    show_columns(f"{name}: nJ of each layer, and of its datapaths", [
        "layer", "all", "datapaths", "by toggles", "off by"], rows)
    for unit, (events, seen) in sums.items():
        sheet.figure(f"energy_{name}_{unit}_off", _off(events, seen))
    for buffer, (counted, enabled) in wrong.items():
        print(f"  {buffer}: {counted} counted, {enabled} in RTL")
    sheet.figure(f"energy_{name}_accesses_wrong", len(wrong))
    sheet.figure(f"energy_{name}_layers_swapped", len(changes))
    sheet.figure(f"energy_{name}_datapaths_swapped", len(alone))
    sheet.figure(f"energy_{name}_datapaths_swapped_apart", max(alone, default=0), ".1%")
    sheet.require(not (wrong or changes or abs(sums["all"][0] / sums["all"][1] - 1) > MOST))


def _off(events: float, toggled: float) -> str:
    return f"{events / toggled - 1:+.1%}" if toggled else "-"
