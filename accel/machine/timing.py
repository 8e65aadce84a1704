"""The cycles and depths that every machine is built with, in one record.

The hardware is built from it, the cycle simulator counts with it, estimates and bounds read it.
What differs between machines is not here: `accel.machine.config` has the geometry, and
`accel.datapath.plan` the latencies of a machine's datapaths.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields


def _number(value: int, meaning: str) -> int:
    return field(default=value, metadata={"meaning": meaning})


@dataclass(frozen=True, slots=True)
class CoreTiming:
    """Latencies in cycles and depths of the hardware; `rows` gives each with its meaning.

    A latency that follows from others is a property. Some of the latencies are lengths of chains of
    registers that the hardware writes out (`begin_cycles`): the tests of its parts hold them.
    """

    begin_cycles: int = _number(3, "from `start` until the run is on; the state is cleared")
    status_cycles: int = _number(5, "from FINISH's retirement, or an error, until the status is "
                                    "set; nothing starts any more")
    settling_cycles: int = _number(4, "from the status until the units' reports count")
    over_cycles: int = _number(3, "from the last movement that is seen to `done`; counters settle")
    patience_cycles: int = _number(8, "without any movement until a run is deadlocked")
    counter_cycles: int = _number(3, "from an event until its counter shows it")
    queue_cycles: int = _number(2, "from a command, a run or a burst that enters its queue until "
                                   "it is offered")
    nest_cycles: int = _number(3, "from an iteration that the loops make, one a cycle, to its "
                                  "addresses")
    read_cycles: int = _number(2, "from an address at a buffer's read port to its data: the "
                                  "memory and its output register")
    bursts: int = _number(64, "bursts in flight, reads and writes together")
    burst_bytes: int = _number(64, "bytes between the boundaries that no burst crosses")
    beats: int = _number(32, "beats of loads that there is room for; one more holds up the "
                             "memory's bus, which writes need, too")
    prefetch: int = _number(8, "instructions that are requested or buffered ahead of the one that "
                               "is handed on")
    ahead: int = _number(16, "iterations between the loops and where they can be held up")
    in_flight: int = _number(8, "started and not retired instructions of load, or of store")
    token_bits: int = _number(8, "bits of a token counter")

    def __post_init__(self):
        if self.patience_cycles <= self.status_cycles:
            raise ValueError(f"patience_cycles must be above status_cycles ({self.status_cycles}), "
                             f"so that every error is known before a run ends, "
                             f"not {self.patience_cycles!r}")

    @property
    def request_cycle(self) -> int:
        """from `start` until fetch's first request is offered to the memory"""
        return self.begin_cycles + 2

    @property
    def end_cycles(self) -> int:
        """from FINISH's retirement to `done`"""
        return self.status_cycles + self.settling_cycles + self.over_cycles

    @property
    def address_cycles(self) -> int:
        """from an instruction of gemm that is taken to its first addresses"""
        return 1 + self.nest_cycles

    @property
    def waiting_cycles(self) -> int:
        """the same where acc holds floats, at the earliest"""
        return self.address_cycles + self.queue_cycles + 1

    @property
    def issue_cycles(self) -> int:
        """from an instruction of vector that is taken to the issue of its first iteration"""
        return self.waiting_cycles

    @property
    def run_cycles(self) -> int:
        """from an instruction of load or store that is taken to its first run"""
        return 2 + self.nest_cycles + 1 + self.queue_cycles

    @property
    def load_cycles(self) -> int:
        """from an instruction of load that is taken to its first request to the arbiter"""
        return self.run_cycles + 3

    @property
    def store_cycles(self) -> int:
        """from an instruction of store that is taken to the address of its first chunk"""
        return self.run_cycles + 1

    @property
    def old_cycles(self) -> int:
        """from an accumulating element's read of its destination to the value that meets it"""
        return self.read_cycles + 1

    def write_room(self, bus_bytes: int) -> int:
        """The beats of stores that there is room for: two bursts, and at least 16 beats."""
        return max(16, 2 * self.burst_bytes // bus_bytes)

    def rows(self) -> Iterator[tuple[str, int, str]]:
        """Name, number and meaning of each, as the table of `docs/machine.md` has them."""
        for one in fields(self):
            yield one.name, getattr(self, one.name), one.metadata["meaning"]
        for name, value in vars(type(self)).items():
            if isinstance(value, property):
                yield name, getattr(self, name), value.__doc__ or ""


TIMING = CoreTiming()
