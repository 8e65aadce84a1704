"""What do the main loops of products on GPUs consist of?

Products of matrices by the schedules and tiles that are shipped, and groups of networks as
`compiler.cpu_gpu_backends.gpu.schedule` schedules them, are compiled by NVRTC and disassembled by
nvdisasm; no GPU is needed. Prints the table of ``docs/gpu.md``: of each kernel's main loop, the
innermost one with most products, the share of products among its instructions and the other
instructions for each product, and what the kernel takes. Products are those of tensor cores, else
multiply-adds of the kind that the loop has most of.

With ``--json`` it reports the instructions by name as well. Exit status 2 without NVRTC or
nvdisasm.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np

from compiler.cpu_gpu_backends.gpu.flat_inputs import with_flat_inputs
from compiler.cpu_gpu_backends.gpu.group_tiles import OFFERED_GROUPS, tile_groups
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda, nvrtc_version
from compiler.cpu_gpu_backends.gpu.sass import disassembled, main_loop
from compiler.cpu_gpu_backends.gpu.schedule import own_schedule
from compiler.cpu_gpu_backends.gpu.schedules import (LARGE, matmul, matmul_tensor_cores,
                                                     schedule_matmul, schedule_tensor_cores)
from compiler.cpu_gpu_backends.gpu.segment import ValueForms
from compiler.cpu_gpu_backends.gpu.target import lowered
from compiler.cpu_gpu_backends.gpu.tensor_tiles import OFFERED, tensor_product_of
from compiler.cpu_gpu_backends.groups import recipe_of, unscheduled
from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.graph import Builder, Graph, TensorType
from compiler.graph.fusion import fuse
from compiler.ir import Program
from compiler.native import BuildError
from compiler.ops.operator import Kind
from compiler.ops.registry import find
from compiler.schedule import Schedule
from tests.support.integer_graphs import Net

__all__ = ["ARCHITECTURES", "figures", "main", "table"]

ARCHITECTURES = ("sm_80", "sm_90")
GROUP_ARCHITECTURES = ("", "sm_90a")        # in place of these, of products by groups of warps
COLUMNS = ("kernel", "tensor cores",
           *(f"{what} {arch[3:]}" for what in ("share", "others", "registers")
             for arch in ARCHITECTURES),
           "shared", "spilled", "local")


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
        for tiles in OFFERED if kind != "bf16" else OFFERED[:1]:
            product = matmul_tensor_cores(4096, 4096, 4096, kind, transposed=turned)
            name = f"{kind} {tiles.rows}x{tiles.columns}{', b by rows' if turned else ''}"
            yield name, schedule_tensor_cores(product, "kernel", tiles).program
    for kind in ("f16", "s8"):
        for tiles in OFFERED_GROUPS:
            s = Schedule([matmul_tensor_cores(4096, 4096, 4096, kind)], "kernel")
            product = tensor_product_of(s.program)
            assert product
            tile_groups(s, product, tiles)
            yield f"{kind} {tiles.rows}x{tiles.columns} by groups", s.program
    ragged = matmul_tensor_cores(4000, 4000, 1000, "f16")
    yield "f16 128x128, ragged", schedule_tensor_cores(ragged, "kernel", OFFERED[1]).program
    yield "int8 dense, 512 x 768 to 3072", _group("dense", (512, 768), 3072)
    yield "int8 convolution 1x1, 2048 to 512, 14x14", _group("conv", (1, 2048, 14, 14), 512, (1, 1))
    window = (3, 3), (1, 1), (1,) * 4
    for batch, channels, size in ((1, 64, 56), (1, 128, 28), (1, 256, 14), (1, 512, 7),
                                  (64, 256, 14)):
        name = f"convolution 3x3, {channels} to {channels}, {batch} x {size}x{size}"
        yield f"int8 {name}", _group("conv", (batch, channels, size, size), channels, *window)
        yield f"f16 {name}", _halves(batch, channels, size)


def _group(kind: str, shape: tuple[int, ...], *arguments: object) -> Program:
    """A layer of int8 networks."""
    net = Net()
    return _product(lowered(net.graph(getattr(net, kind)(net.input(*shape), *arguments)),
                            ValueForms(("int8",))), "s8")


def _halves(batch: int, channels: int, size: int) -> Program:
    """A convolution of float32 with its rectifier, in the precision f16."""
    net = Builder("layer")
    net.add_input("x", TensorType((batch, channels, size, size), "float32"))
    net.add_constant("w", np.ones((channels, channels, 3, 3), np.float32))
    net.add_constant("b", np.ones(channels, np.float32))
    net.emit("conv2d", "conv", ["x", "w", "b"], "c", strides=(1, 1), pads=(1,) * 4)
    net.emit("relu", "relu", ["c"], "y")
    return _product(lowered(net.finish(["y"]), ValueForms(("float32",), "float16")), "f16")


def _product(graph: Graph, kind: str) -> Program:
    """The scheduled program of the only group that is a product."""
    group, = (group for group in fuse(graph).groups
              if any(find(node.op).kind is Kind.COMPLEX for node in group.nodes))
    return own_schedule(with_flat_inputs(unscheduled(recipe_of(graph, group))), (kind,)).program


def figures() -> Iterator[dict]:
    """A record for each kernel and architecture. Raises BuildError."""
    for name, program in programs():
        code = generate(replace(program, name="kernel"), "cuda")
        text, launch = code.text, code.launches[0]
        for arch in GROUP_ARCHITECTURES if "wgmma" in text else ARCHITECTURES:
            if not arch:
                continue
            cubin = compile_cuda(text, arch)
            loop = main_loop(disassembled(cubin.image)["k0_kernel"])
            taken = cubin.resources["k0_kernel"]
            taken = replace(taken, shared_bytes=taken.shared_bytes + launch.shared_bytes)
            yield {"kernel": name, "arch": arch, "tensor": loop.tensor, "products": loop.products,
                   "share": round(loop.share, 2), "others": round(loop.others, 2),
                   **asdict(taken), "instructions": dict(loop.counts.most_common())}


def table(found: list[dict], version: str) -> str:
    """A table in Markdown, a row for each kernel."""
    kernels: dict[str, list[dict]] = {}
    for record in found:
        kernels.setdefault(record["kernel"], []).append(record)
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for name, records in kernels.items():
        rows.append((name, "yes" if records[0]["tensor"] else "no",
                     *(record[key] if record else "" for key in ("share", "others", "registers")
                       for record in [*[None] * (len(ARCHITECTURES) - len(records)), *records]),
                     *(max(record[key] for record in records)
                       for key in ("shared_bytes", "spill_bytes", "local_bytes"))))
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([*lines, "", f"NVRTC {version}."])


if __name__ == "__main__":
    sys.exit(main())
