"""Counter-examples of datapaths once more, in Amaranth's simulator, with a waveform of each."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from amaranth.sim import Simulator

from accel.datapath.plan import DatapathPlan
from accel.formal.proving import Proofs
from accel.hw.compute.datapath import Datapath

_PERIOD = 1e-8


def write_waves(proofs: Proofs, folder: Path) -> list[Path]:
    """A file for each claim about a datapath that is refuted: ``INSTRUCTION.vcd``."""
    paths = []
    for one in proofs.refuted:
        if one.claim.datapath is not None:
            paths.append(folder / f"{one.claim.instruction}.vcd")
            computed(*one.claim.datapath, one.answer.values, paths[-1])
    return paths


def computed(plan: DatapathPlan, number: int, values: Mapping[str, int],
             path: Path | None = None) -> int:
    """The value of all lanes that the hardware of a plan gives for a body and for the numbers of an
    answer, and its waveform. Tables are empty."""
    datapath: Any = Datapath(plan)
    result = 0

    def given(name: str, cycle: int) -> int:
        if name in plan.buses and cycle == 1:
            width = datapath.widths[name]
            return sum(values.get(f"{name}[{element}]", 0) << element * width
                       for element in range(prod(plan.buses[name])))
        own = {"valid": 1, "select": 1 << number} if cycle == 0 else {}
        return own.get(name, values.get(f"{name}@{cycle}", 0))

    async def drive(ctx: Any) -> None:
        nonlocal result
        for cycle in range(plan.latency + 2):
            for name in ("valid", "select", *plan.buses, *plan.immediates):
                port = getattr(datapath, name)
                bits = given(name, cycle)
                negative = port.shape().signed and bits >> len(port) - 1
                ctx.set(port, bits - (1 << len(port)) if negative else bits)
            if cycle == plan.latency + 1:
                result = ctx.get(datapath.value)
            await ctx.tick()

    simulator = Simulator(datapath)
    simulator.add_clock(_PERIOD)
    simulator.add_testbench(drive)
    if path is None:
        simulator.run()
    else:
        with path.open("w") as file, simulator.write_vcd(file):
            simulator.run()
    return result
