"""The files of the driver that every exported network shares: ``lockstep_board.h`` and ``.c``.

The registers in the header are those of `fpga.link.registers`.
"""

from collections.abc import Iterator
from pathlib import Path

from accel.machine.isa import BASES, DMA
from accel.machine.status import Status
from fpga.link.registers import ADDRESSES, MACHINE_WORDS, MAGIC, REGISTERS, VERSION

BOARD_FILES = ("lockstep_board.h", "lockstep_board.c")

_HERE = Path(__file__).parent
_MARK = "/* REGISTERS */\n"
_SIMULATED = (Status.RUNNING, Status.WATCHDOG)      # that no register shows after a run


def board_files() -> dict[str, str]:
    """The text of each file, by its name."""
    header = (_HERE / "board.h").read_text()
    assert header.count(_MARK) == 1
    return dict(zip(BOARD_FILES, (
        header.replace(_MARK, "".join(f"{line}\n" for line in _registers())),
        (_HERE / "board.c").read_text()), strict=True))


def _registers() -> Iterator[str]:
    first, *others = (ADDRESSES[f"base_{name}"] for name in BASES)
    assert others == [*range(first + 1, first + len(BASES))]
    yield "/* Registers, by the address of their word; one of more bits takes several words, the"
    yield "   lowest first. */"
    yield f"#define LOCKSTEP_REGISTERS_VERSION {VERSION}"
    yield f"#define LOCKSTEP_MAGIC {MAGIC:#x}u"
    yield f"#define LOCKSTEP_BASES {len(BASES)}"
    yield f"#define LOCKSTEP_MACHINE_WORDS {MACHINE_WORDS}"
    assert DMA["dram"].offset % 8 == 0 and DMA["dram"].width == 32
    yield f"#define LOCKSTEP_STORE_DRAM {DMA['dram'].offset // 8}   /* byte of an instruction */"
    yield "enum {"
    for register in REGISTERS:
        access = ", writable" if register.writable else ""
        yield (f"    LOCKSTEP_REGISTER_{register.name.upper()} = {ADDRESSES[register.name]},"
               f"    /* {register.bits} bits{access}: {register.text} */")
    yield "    LOCKSTEP_REGISTER_WORDS = " + str(sum(one.words for one in REGISTERS))
    yield "};"
    yield ""
    yield "/* How a run ended: bits 7 to 0 of the register status. */"
    yield "enum {"
    known = [status for status in Status if status not in _SIMULATED]
    for status in known:
        comma = "," if status != known[-1] else ""
        yield f"    LOCKSTEP_RUN_{status.name} = {status.value}{comma}"
    yield "};"
