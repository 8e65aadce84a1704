"""The cycles and depths that a machine is built with, in one record.

The hardware is built from it, the cycle simulator counts with it, estimates and bounds read it.
`accel.machine.config` has the record of a machine (`AccelConfig.timing`), and
`accel.datapath.plan` the latencies of a machine's datapaths.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from accel.machine.limits import limited, limits_of
from compiler.errors import Error

_REGISTERS = "registers as wide as what passes"
_MEMORY = "distributed memory"


class TimingError(Error, ValueError):
    """Times that no hardware has: names the field, the value and the rule."""


def _cycles(default: int, meaning: str, least: int = 1, most: int = 8, rule: str = "",
            costs: str = _REGISTERS) -> Any:
    return limited(meaning, "cycles", costs, default=default, least=least, most=most, rule=rule)


def _depth(default: int, unit: str, meaning: str, least: int = 2, most: int = 256,
           rule: str = "") -> Any:
    return limited(meaning, unit, _MEMORY, default=default, least=least, most=most,
                   is_power_of_two=True, rule=rule)


@dataclass(frozen=True, slots=True)
class CoreTiming:
    """Latencies in cycles and depths of the hardware; `rows` gives each with its meaning.

    A latency that follows from others is a property. Raises TimingError for what breaks a rule.
    """

    begin_cycles: int = _cycles(3, "from `start` until the run is on; the state is cleared", 3)
    status_cycles: int = _cycles(
        5, "from FINISH's retirement, or an error, until the status is set; nothing starts any "
           "more", 2, rule="two, and one for each round in which the reporters' errors meet")
    seen_cycles: int = _cycles(
        2, "from what the units report until a run may end by it", 2)
    settling_cycles: int = _cycles(
        4, "from the status until the units' reports count", rule="above seen_cycles")
    patience_cycles: int = _cycles(
        8, "without any movement until a run is deadlocked", most=64, costs="nothing",
        rule="above status_cycles")
    counter_cycles: int = _cycles(3, "from an event until its counter shows it", 3)
    queue_cycles: int = _cycles(
        2, "from a command, a run or a burst that enters its queue until it is offered", 2)
    relay_cycles: int = _cycles(
        1, "from a request, or a run of load, that enters its relay until it is offered", most=4)
    nest_cycles: int = _cycles(
        3, "from an iteration that the loops make, one a cycle, to its addresses", 3)
    check_cycles: int = _cycles(
        1, "from the addresses of a run of load or store until it is checked and enters its queue")
    read_cycles: int = _cycles(
        2, "from an address at a buffer's read port to its data: the memory and its output "
           "register", 2, 4)
    beat_cycles: int = _cycles(
        1, "from a beat that load accepts until it can be taken", most=4)
    chunk_cycles: int = _cycles(
        2, "from a step of load to its chunk at the buffer's write port", 2)
    shared_cycles: int = _cycles(
        2, "from a place in the shared scratchpad that is read until its beat can be offered", 2)
    closing_cycles: int = _cycles(
        2, "from a burst's last beat, or acknowledgement, until another may take its place", 2)
    bursts: int = _depth(64, "bursts", "bursts in flight, reads and writes together")
    burst_bytes: int = limited(
        "bytes between the boundaries that no burst crosses", "bytes", "room for stores",
        default=64, most=1 << 12, is_power_of_two=True, rule="64, as the memory port has it")
    beats: int = _depth(
        32, "beats", "beats of loads that there is room for; one more holds up the memory's bus, "
                     "which writes need, too", 16)
    prefetch: int = _depth(
        8, "instructions", "instructions that are requested or buffered ahead of the one that is "
                           "handed on", 1)
    ahead: int = _depth(
        16, "iterations", "iterations between the loops and where they can be held up", 1)
    in_flight: int = _depth(
        8, "instructions", "started and not retired instructions of load, of store, or of a unit "
                           "of one's own", 1)
    token_bits: int = limited(
        "bits of a token counter", "bits", "counters, one for each two units", default=8, least=1,
        most=10)

    def __post_init__(self):
        for field in fields(self):
            value, limits = getattr(self, field.name), limits_of(field)
            if not isinstance(value, int) or isinstance(value, bool):
                self._require(field.name, False, "an integer")
            self._require(field.name, value > 0, "positive")
            if rule := limits.broken(value):
                self._require(field.name, False, rule)
        self._require("burst_bytes", self.burst_bytes == 64, "64, as the memory port has it")
        self._require("settling_cycles", self.settling_cycles > self.seen_cycles,
                      f"above seen_cycles ({self.seen_cycles}), so that what units report is what "
                      f"they do after the status")
        self._require("patience_cycles", self.patience_cycles > self.status_cycles,
                      f"above status_cycles ({self.status_cycles}), so that every error is known "
                      f"before a run ends")

    def _require(self, name: str, holds: bool, rule: str):
        if not holds:
            raise TimingError(f"{name} of the timing must be {rule}, not {getattr(self, name)!r}")

    def require_reporters(self, count: int) -> None:
        """Refuses a status that comes before the errors of so many reporters have met."""
        least = 2 + (count - 1).bit_length()
        self._require("status_cycles", self.status_cycles >= least,
                      f"at least {least}, in which the errors of {count} reporters meet")

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "CoreTiming":
        """The times of a table of fields, the others by default; the opposite of `options`."""
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(table) - set(known)):
            raise TimingError(f"timing must have fields among {', '.join(known)}, not "
                              f"{', '.join(unknown)}")
        return cls(**table)

    @property
    def options(self) -> dict[str, int]:
        """The fields that do not have their default."""
        return {field.name: value for field in fields(self)
                if (value := getattr(self, field.name)) != field.default}

    @property
    def over_cycles(self) -> int:
        """from the last movement that is seen to `done`; counters settle"""
        return self.counter_cycles

    @property
    def request_cycle(self) -> int:
        """from `start` until fetch's first request is offered to the memory"""
        return self.begin_cycles + self.relay_cycles + 1

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
    def walk_cycles(self) -> int:
        """from an iteration of load or store that the loops make until its run enters its queue"""
        return self.nest_cycles + self.check_cycles

    @property
    def run_cycles(self) -> int:
        """from an instruction of load or store that is taken to its first run"""
        return 2 + self.walk_cycles + self.queue_cycles

    @property
    def load_cycles(self) -> int:
        """from an instruction of load that is taken to its first request to the arbiter"""
        return self.run_cycles + 1 + 2 * self.relay_cycles

    @property
    def store_cycles(self) -> int:
        """from an instruction of store that is taken to the address of its first chunk"""
        return self.run_cycles + 1

    @property
    def old_cycles(self) -> int:
        """from an accumulating element's read of its destination to the value that meets it"""
        return self.read_cycles + 1

    @property
    def form_cycles(self) -> int:
        """from the address of a beat's last chunk to the beat, which store rotates"""
        return self.read_cycles + 1

    @property
    def relay_room(self) -> int:
        """what a relay holds, so that one passes in each cycle"""
        return 1 << self.relay_cycles

    @property
    def shared_room(self) -> int:
        """beats of the shared scratchpad that may be on their way to load"""
        return 1 << (self.shared_cycles + 1).bit_length()

    @property
    def tokens(self) -> int:
        """tokens that a counter holds"""
        return (1 << self.token_bits) - 1

    def extra(self, name: str) -> int:
        """The cycles beyond the least, for which hardware has nothing but registers."""
        (field,) = (one for one in fields(self) if one.name == name)
        return getattr(self, name) - limits_of(field).least

    def write_room(self, bus_bytes: int) -> int:
        """The beats of stores that there is room for: two bursts, and at least 16 beats."""
        return max(16, 2 * self.burst_bytes // bus_bytes)

    def rows(self) -> Iterator[tuple[str, int, str]]:
        """Name, number and meaning of each, as the table of `docs/machine.md` has them."""
        for one in fields(self):
            yield one.name, getattr(self, one.name), limits_of(one).meaning
        for name, value in vars(type(self)).items():
            if isinstance(value, property) and name != "options":
                yield name, getattr(self, name), value.__doc__ or ""


TIMING = CoreTiming()
"""The times of a machine that does not say what it has."""
