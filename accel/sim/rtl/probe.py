"""The RTL, stopped at any cycle to read and set its ports: PyVerilator's view with a memory.

::

    with Probe(machine, program, inputs={"x": x}, latency=20) as probe:
        probe.trace("core.vcd")                     # waveforms of the ports, for GTKWave
        probe.run_until(500)                        # natively: millions of cycles a second
        print(probe.io.gemm_waiting, probe.counters.activity["gemm"]["busy"])
        probe.io.mem__rdata__payload ^= 1           # another bit than memory's, in this cycle
        probe.memory[program.bases["io"]] = 7       # a byte of memory, for reads from now on
        probe.step()                                # one cycle

Between calls the clock is low and every port shows what it is in cycle `cycle`, which counts as
`Run.start` and `Run.retire` do. What is set stays until the simulator sets it: it sets ``start``
and the inputs of the memory port (``mem__*``) anew in every cycle, and nothing else. So a poke of
those lasts a cycle, one of ``base_*`` or ``count`` for good.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Counters

from .verilated import build, view


class Probe:
    """A Verilated core that is about to execute a program: reset, in cycle 0.

    Parameters
    ----------
    memory : the image before the start (uint8, segments at `program.bases`; it is not changed);
        without it, the program's own with `inputs`.
    dram : the memory behind the core, by default the machine's; `options` (``latency=7``) take the
        place of its own.

    Attributes
    ----------
    core : the `pyverilator.PyVerilator`; `io` are its ports by name.
    memory : the memory as it is, uint8. What is written here, the core reads.
    cycle : the one that the ports show.
    """

    def __init__(self, machine: Machine, program: AccelProgram, memory: np.ndarray | None = None, *,
                 inputs: Mapping[str, np.ndarray] | None = None, dram: Dram | None = None,
                 **options):
        program.require(machine)
        self.machine, self.program = machine, program
        self.memory = program.image(inputs) if memory is None else np.array(memory, np.uint8)
        self.cycle = 0
        self.core = view(machine)
        self._handle = build(machine).probe(self.core, program, self.memory,
                                            replace(dram or machine.config.memory, **options))

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def io(self) -> Any:
        """The ports: ``probe.io.done``; inputs can be set."""
        return self.core.io

    @property
    def counters(self) -> Counters:
        """The counters, up to `counter_cycles` before this cycle."""
        values = {}
        structure = self.machine.structure
        for number, name in enumerate(structure.counters):
            self.io.counter = number
            values[name] = int(self.io.counter_value)
        return Counters.of(values, structure)

    @property
    def done(self) -> bool:
        """True once the program has ended."""
        return bool(self.cycle and self.io.done)

    def run_until(self, cycle: int) -> int:
        """Run to a cycle, or to the end of the program if that is earlier; return the cycle
        reached.

        Raises ValueError for a cycle that is over.
        """
        if cycle < self.cycle:
            raise ValueError(f"Cycle must be at least {self.cycle}, where the probe is, "
                             f"not {cycle!r}")
        self.cycle = self._handle.run(cycle)
        return self.cycle

    def step(self, cycles: int = 1) -> int:
        """Run some more cycles."""
        return self.run_until(self.cycle + cycles)

    def trace(self, path: str | Path | None) -> None:
        """Write the waveforms of all ports from now on (VCD, ten units of time a cycle).

        None ends that, as `close` does.
        """
        self._handle.trace(str(path) if path else None)

    def close(self) -> None:
        """End the use of the probe; a with statement calls this."""
        self._handle.close()
