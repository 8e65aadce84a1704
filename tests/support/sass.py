"""The machine code of kernels as nvdisasm tells it, and what their main loops consist of."""

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from compiler.native import BuildError

__all__ = ["SassLoop", "PRODUCTS", "disassembled", "main_loop"]

TENSOR = ("HMMA", "IMMA", "HGMMA", "IGMMA")     # products of tensor cores,
PRODUCTS = (*TENSOR, "FFMA", "IMAD", "IDP")     # and of threads; IMAD computes addresses as well
PACKAGE = "nvidia-cuda-nvdisasm"

_KERNEL = re.compile(r"^\s*\.section\s+\.text\.(\w+)")
_LABEL = re.compile(r"^(\.L_\w+):")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][A-Z0-9_.]*)([^;]*)")
_TARGET = re.compile(r"`\((\.L_\w+)\)")


@dataclass(frozen=True, slots=True)
class SassLoop:
    """The instructions of a loop by their names, the part before the first dot."""

    counts: Counter[str]

    @property
    def instructions(self) -> int:
        return sum(self.counts.values())

    @property
    def tensor(self) -> int:
        """Products of tensor cores."""
        return sum(self.counts[name] for name in TENSOR)

    @property
    def products(self) -> int:
        """Those of tensor cores, or where there are none of the kind that the loop has most of."""
        return self.tensor or max(self.counts[name] for name in PRODUCTS)

    @property
    def others(self) -> float:
        """Other instructions for each product."""
        return (self.instructions - self.products) / self.products if self.products else 0.0

    @property
    def share(self) -> float:
        """Products among all instructions."""
        return self.products / self.instructions if self.instructions else 0.0


def disassembled(image: bytes) -> dict[str, list[str]]:
    """The lines of each kernel of a cubin: labels and instructions. Raises BuildError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.cubin"
        path.write_bytes(image)
        done = subprocess.run([_nvdisasm(), "--print-code", path], capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"nvdisasm refused the kernels: {done.stderr.strip()[:200]}")
    kernels: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in done.stdout.splitlines():
        if match := _KERNEL.match(line):
            lines = kernels.setdefault(match[1], [])
        elif _LABEL.match(line) or _INSTRUCTION.search(line):
            lines.append(line)
    return kernels


def main_loop(lines: Sequence[str]) -> SassLoop:
    """The innermost loop with most products; all of a kernel that has none."""
    labels = {match[1]: place for place, line in enumerate(lines) if (match := _LABEL.match(line))}
    loops: list[tuple[int, int]] = []
    for place, line in enumerate(lines):
        match = _INSTRUCTION.search(line)
        if match and match[1].split(".")[0] == "BRA" and (target := _TARGET.search(match[2])):
            begin = labels.get(target[1], len(lines))
            if begin < place - 1:               # the last branch of all goes to itself
                loops.append((begin, place + 1))
    made = {loop: _counted(lines[loop[0]:loop[1]]) for loop in loops}
    tensor = any(one.tensor for one in made.values())
    made = {loop: one for loop, one in made.items()
            if (one.tensor if tensor else one.products)}        # not those that only wait
    found = [one for loop, one in made.items() if not any(
        loop != other and loop[0] <= other[0] and other[1] <= loop[1] for other in made)]
    return max(found, key=lambda loop: (loop.tensor, loop.products), default=_counted(lines))


def _counted(lines: Sequence[str]) -> SassLoop:
    names = [match[1].split(".")[0] for line in lines if (match := _INSTRUCTION.search(line))]
    return SassLoop(Counter(name for name in names if name != "NOP"))


def _nvdisasm() -> str:
    """The program of the wheel, or of the path."""
    try:
        own = [path.locate() for path in files(PACKAGE) or () if path.name == "nvdisasm"]
    except PackageNotFoundError:
        own = []
    program = str(own[0]) if own else shutil.which("nvdisasm")
    if not program:
        raise BuildError(f"nvdisasm must be installed to read machine code: install the extra "
                         f"'gpu' ({PACKAGE})")
    return program
