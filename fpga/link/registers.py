"""The registers of a board's accelerator, as a host sees them over any link.

Words of 32 bits, little-endian, at word addresses from 0, in the order of `REGISTERS`; a register
of more bits takes several words, the lowest first. Gateware and drivers are derived from this list.
"""

from dataclasses import dataclass

from accel.machine.config import UNITS
from accel.machine.status import COUNTERS

MAGIC = int.from_bytes(b"LOCK", "little")
VERSION = 3

WORD_BITS = 32
MACHINE_BITS = 256
MACHINE_WORDS = MACHINE_BITS // WORD_BITS

RECORD_BYTES = 2048
"""The capacity of one block RAM in bytes."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register; a `writable` one reads as its bits of the last written value."""

    name: str
    bits: int
    text: str
    writable: bool = False

    @property
    def words(self) -> int:
        return -(-self.bits // WORD_BITS)


def _registers() -> tuple[Register, ...]:
    bases = ("program", "weights", "activations", "io")
    return (
        Register("magic", 32, f"{MAGIC:#010x}: this is an accelerator"),
        Register("version", 32, f"of this table: {VERSION}"),
        Register("machine", MACHINE_BITS,
                 "SHA-256 of the machine: geometry, instructions, word layouts"),
        Register("memory_bytes", 32, "of the memory that host and core share"),
        Register("clock_hz", 32, "of the core"),
        Register("run", 32, "number of the run that was started last; another number starts a run",
                 writable=True),
        Register("count", 32, "instructions of the program", writable=True),
        *(Register(f"base_{name}", 32, f"byte address of the segment {name}", writable=True)
          for name in bases),
        Register("interrupt", 1, "1: the interrupt line is high while no run is on. Write 1 after "
                 "the number of a run, and 0 when it is over", writable=True),
        Register("done", 32, "number of the last run that is over"),
        Register("status", 32, "bits 7 to 0: how it ended; 15 to 8: the unit"),
        Register("index", 32, "instruction at which it ended"),
        Register("waiting", 32, "after a deadlock, a bit for each unit that waits: "
                 + ", ".join(UNITS)),
        *(Register(f"waiting_{unit}", 32, f"instruction that {unit} waits with") for unit in UNITS),
        *(Register(name, 64, _counts(name)) for name in COUNTERS),
        Register("record", 8 * RECORD_BYTES, "what the machine is: see `fpga.link.identity`"),
    )


def _counts(name: str) -> str:
    group, *names = name.split("_")
    return f"{'cycles of' if group == 'count' else 'moved by'} {': '.join(names)}"


REGISTERS = _registers()
*_, RECORD = REGISTERS

REPORT = [register.name for register in REGISTERS
          if register.name.startswith(("status", "index", "waiting")) or register.name in COUNTERS]
"""The registers that report a run."""

ADDRESSES: dict[str, int] = {}
"""Word address of each register, by name."""

WORDS = 0
for _register in REGISTERS:
    ADDRESSES[_register.name] = WORDS
    WORDS += _register.words
