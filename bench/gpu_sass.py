"""What do the main loops of products on GPUs consist of?

Products of matrices by every schedule and tile that is shipped, and groups of networks as
`compiler.cpu_gpu_backends.gpu.schedule` schedules them, are compiled by NVRTC and disassembled by
nvdisasm; no GPU is needed. Prints the table of ``docs/gpu.md``: of each kernel's main loop, the
innermost one with most products, the products among its instructions, other instructions for each
product, and what the kernel takes. The last column says whether it holds tensor cores' products.

With ``--json`` it reports the instructions by name as well. Exit status 2 without NVRTC or
nvdisasm.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace

from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda, nvrtc_version
from compiler.cpu_gpu_backends.gpu.sass import disassembled, main_loop
from compiler.cpu_gpu_backends.gpu.schedules import (LARGE, matmul, matmul_tensor_cores,
                                                     schedule_matmul, schedule_tensor_cores)
from compiler.cpu_gpu_backends.gpu.tensor_tiles import OFFERED
from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.ir import Program
from compiler.native import BuildError

__all__ = ["ARCHITECTURES", "figures", "main", "table"]

ARCHITECTURES = ("sm_80", "sm_90")
COLUMNS = ("kernel", "arch", "products", "share", "others each", "registers", "shared bytes",
           "spilled bytes", "local bytes")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(arguments)
    try:
        version, found = nvrtc_version(), list(figures())
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps({"nvrtc": version, "kernels": found}, indent=2) if args.json
          else table(found, version))
    return 0


def programs() -> Iterator[tuple[str, Program]]:
    """What is compiled, by name."""
    product = matmul(4096, 4096, 4096, "float32")
    yield "float32 128x128", schedule_matmul(product, "kernel", LARGE).program
    for kind, turned in (("f16", ""), ("f16", "b"), ("bf16", ""), ("tf32", ""), ("s8", ""),
                         ("s8", "b")):
        for tiles in OFFERED:
            product = matmul_tensor_cores(4096, 4096, 4096, kind, transposed=turned)
            name = f"{kind} {tiles.rows}x{tiles.columns}{', b by rows' if turned else ''}"
            yield name, schedule_tensor_cores(product, "kernel", tiles).program
    ragged = matmul_tensor_cores(4000, 4000, 1000, "f16")
    yield "f16 128x128, ragged", schedule_tensor_cores(ragged, "kernel", OFFERED[1]).program


def figures() -> Iterator[dict]:
    """A record for each kernel and architecture. Raises BuildError."""
    for name, program in programs():
        text = generate(replace(program, name="kernel"), "cuda").text
        for arch in ARCHITECTURES:
            cubin = compile_cuda(text, arch)
            loop, taken = main_loop(disassembled(cubin.image)["kernel"]), cubin.resources["kernel"]
            yield {"kernel": name, "arch": arch, "products": loop.products,
                   "share": round(loop.share, 3), "others_each": round(loop.others, 2),
                   "registers": taken.registers, "shared_bytes": taken.shared_bytes,
                   "spill_bytes": taken.spill_bytes, "local_bytes": taken.local_bytes,
                   "instructions": dict(loop.counts.most_common())}


def table(found: list[dict], version: str) -> str:
    """A table in Markdown."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [tuple(record.values())[:len(COLUMNS)] for record in found]
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([*lines, "", f"NVRTC {version}."])


if __name__ == "__main__":
    sys.exit(main())
