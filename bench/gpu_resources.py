"""How much of a multiprocessor do the shipped kernels for GPUs take?

Every schedule of `tests.support.gpu_schedules` at the shapes under test is compiled by
NVRTC; no GPU is needed. Prints the table of ``docs/gpu.md``, the most that any kernel of a row
takes, then ``name value`` lines:

- ``gpu_kernels``: the number of kernels;
- ``gpu_registers_SM``: the most registers of a thread, for each architecture;
- ``gpu_shared_bytes``: the most shared memory of a block, on any architecture;
- ``gpu_spill_bytes``, ``gpu_local_bytes``: bytes of all threads that are spilled, and that are in
  local memory.

With ``--json`` it reports every kernel. Exit status 2 without NVRTC.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict

from compiler.cpu_gpu_backends.gpu.nvrtc import Resources, compile_cuda, nvrtc_version
from compiler.cpu_gpu_backends.simt.generate import generate_all
from compiler.native import BuildError
from tests.support.gpu_cases import CASES, CUDA_CASES

__all__ = ["ARCHITECTURES", "figures", "main", "resources", "table"]

ARCHITECTURES = ("sm_80", "sm_90")
COLUMNS = ("of", "kernels", *(f"registers, {arch}" for arch in ARCHITECTURES),
           "shared bytes", "spilled bytes", "local bytes")

Found = Mapping[str, Mapping[str, Resources]]
"""Resources by architecture and kernel."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(arguments)
    try:
        version = nvrtc_version()
        codes = generate_all([case.program for case in (*CASES, *CUDA_CASES)], "cuda")
        found = resources(codes[0].text)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    if args.json:
        kernels = {arch: {name: asdict(one) for name, one in taken.items()}
                   for arch, taken in found.items()}
        print(json.dumps({"nvrtc": version, **figures(found), "kernels": kernels}, indent=2))
        return 0
    print(table(found, version))
    for name, value in figures(found).items():
        print(name, value)
    return 0


def resources(text: str) -> dict[str, dict[str, Resources]]:
    """The resources of a CUDA text's kernels, in order of their names."""
    return {arch: dict(sorted(compile_cuda(text, arch).resources.items()))
            for arch in ARCHITECTURES}


def table(found: Found, version: str) -> str:
    """A table in Markdown: a row for each kind of kernel and type, with the maximum over shapes."""
    kinds: dict[str, list[str]] = {}
    for name in found[ARCHITECTURES[0]]:
        _, *words = name.split("_")         # the number of the kernel in its program
        kinds.setdefault(" ".join(words[:2]), []).append(name)
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for kind, names in kinds.items():
        taken = [[found[arch][name] for name in names] for arch in ARCHITECTURES]
        every = [one for several in taken for one in several]
        rows.append((kind, len(names), *(max(r.registers for r in several) for several in taken),
                     max(r.shared_bytes for r in every), max(r.spill_bytes for r in every),
                     max(r.local_bytes for r in every)))
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([*lines, "", f"NVRTC {version}; registers are those of a thread, shared bytes "
                                  f"those of a block.", ""])


def figures(found: Found) -> dict[str, int]:
    """The counts and maxima over all kernels, by name of the figure."""
    every = [one for taken in found.values() for one in taken.values()]
    return {"gpu_kernels": len(found[ARCHITECTURES[0]]),
            **{f"gpu_registers_{arch}": max(one.registers for one in taken.values())
               for arch, taken in found.items()},
            "gpu_shared_bytes": max(one.shared_bytes for one in every),
            "gpu_spill_bytes": sum(one.spill_bytes for one in every),
            "gpu_local_bytes": sum(one.local_bytes for one in every)}


if __name__ == "__main__":
    sys.exit(main())
