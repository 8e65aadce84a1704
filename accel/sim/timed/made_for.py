"""Which hardware the cycle simulator was made for.

`cycle.cpp` has the parts of `accel.hw` a second time. So it counts only as long as these are the
parts that it was compared with: a hash of their code is in ``made_for.toml``. Where the hash is
another one, or where something was put in the place of a part in this process, the slice of the RTL
is simulated instead (`accel.sim.slice`). The numbers of `accel.machine.timing` and of plans are not
part of it: hardware and `cycle.cpp` both read them. `accel.sim.checking.recording` writes the file.
"""

import tomllib
from contextlib import suppress
from functools import cache
from pathlib import Path

from accel.sim.rtl.gateware import ROOT, code_of, files_in, patches, texts_of
from compiler.native import CacheError, digest, note, noted

RECORD = Path(__file__).with_name("made_for.toml")
_ROOMS = ("accel/hw", "accel/datapath")


def is_of_now() -> bool:
    """True if the cycle simulator was made for the hardware as it is in this process."""
    return hardware() == recorded() and not patches()


@cache
def hardware() -> str:
    """A hash of the code of all parts: kept, as to read it takes longer than to read files."""
    paths = files_in(*_ROOMS)
    texts = texts_of(*paths)
    if not (found := noted("code", texts)):
        found = digest(f"{path.relative_to(ROOT)}\n{code_of(path.read_text())}" for path in paths)
        with suppress(CacheError):
            note("code", texts, found)
    return found


@cache
def recorded() -> str:
    return tomllib.loads(RECORD.read_text())["hardware"]


def record() -> None:
    """Writes down the hardware of now."""
    RECORD.write_text(f'hardware = "{hardware()}"\n')
    recorded.cache_clear()
